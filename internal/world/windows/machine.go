//go:build windows

// Package windows reads and changes this machine, if it runs Windows: its files, services, programs
// and network. Paths are those of the program, with slashes; one without a drive is on the system
// drive. Only workers run Windows, so what changes the machine of a control plane is not there.
package windows

import (
	"context"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/world/portable"
)

// Machine is the machine this process runs on. The zero value is ready for use.
type Machine struct{ portable.Machine }

// Do carries out a change of files or services.
func (m Machine) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.WriteFile:
		return writeFile(c)
	case change.WriteKeyPair:
		return portable.FileWriter(writeFileAfter).WriteKeyPair(ctx, c)
	case change.MakeDir:
		return makeDirs(localPath(c.Path), c.Mode)
	case change.MakeLink:
		return makeLink(c)
	case change.Remove:
		return removePath(c)
	case change.SetService:
		return setService(ctx, c)
	case change.EnableService:
		return enableService(c)
	}
	return fmt.Errorf("a Windows machine cannot carry out a %T", c)
}
