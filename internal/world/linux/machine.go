//go:build linux

// Package linux reads and changes this machine: its files, accounts, services, mounts, programs
// and network. It does not depend on a cluster or container runtime.
package linux

import (
	"context"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/world/portable"
)

// Machine is the machine this process runs on. The zero value is ready for use.
type Machine struct{ portable.Machine }

// Do carries out a change of files, accounts, services, the kernel, mounts or the Pod network.
func (m Machine) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.WriteFile:
		return writeFile(ctx, c)
	case change.WriteKeyPair:
		return writeKeyPair(ctx, c)
	case change.MakeDir:
		return explainWriteError(c.Path, makeDirs(c.Path, c.Mode.Perm()))
	case change.MakeLink:
		return makeLink(c)
	case change.Remove:
		return removePath(c)
	case change.Rename:
		return rename(c)
	case change.SetOwner:
		return setOwner(c)
	case change.SetAccounts:
		return setAccounts(ctx, c)
	case change.SetService:
		return setService(ctx, c)
	case change.EnableService:
		return enableService(ctx, c)
	case change.SetSysctl:
		return setSysctl(c)
	case change.SetModule:
		return setModule(ctx, c)
	case change.SetSwap:
		return setSwap(c)
	case change.Unmount:
		return unmountBelow(ctx, c)
	case change.RemoveControlGroup:
		return removeControlGroup(c.Path)
	case change.RemoveInterface:
		return removeLink(ctx, c)
	case change.RemovePacketRules:
		return m.removePacketRules(ctx, c)
	case change.RemoveVirtualServers:
		return m.removeVirtualServers(ctx, c)
	}
	return fmt.Errorf("a machine cannot carry out a %T", c)
}
