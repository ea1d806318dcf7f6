// Package linux is this machine: its files, services, mounts, programs, host and
// network, read and altered for real. It knows nothing of clusters and container runtimes.
package linux

import (
	"context"
	"fmt"
	"time"

	"kubeadm/internal/change"
)

// Machine is the machine this process runs on. The zero value is ready for use.
type Machine struct{}

// Do carries out a change of files, accounts, services or mounts.
func (m Machine) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.WriteFile:
		return writeFile(ctx, c)
	case change.MakeDir:
		return explain(c.Path, makeDirs(c.Path, c.Mode.Perm()))
	case change.Remove:
		return remove(c)
	case change.SetOwner:
		return setOwner(c)
	case change.SetAccounts:
		return setAccounts(ctx, c)
	case change.SetService:
		return setService(ctx, c)
	case change.Unmount:
		return unmount(ctx, c)
	}
	return fmt.Errorf("a machine cannot carry out a %T", c)
}

// Now is the time of the machine's clock.
func (m Machine) Now() time.Time { return time.Now() }
