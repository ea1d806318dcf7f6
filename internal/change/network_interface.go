package change

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/state"
)

// RemoveInterface removes a virtual network interface.
type RemoveInterface struct{ Name string }

// Target names the interface.
func (c RemoveInterface) Target() string { return "link:" + c.Name }

func (c RemoveInterface) String() string { return fmt.Sprintf("remove network interface %q", c.Name) }

// Done reports whether there is no such interface.
func (c RemoveInterface) Done(ctx context.Context, r state.Reader) (bool, error) {
	all, err := r.Links(ctx)
	return err == nil && !slices.ContainsFunc(all,
		func(l state.Link) bool { return l.Name == c.Name }), err
}

// Inverse is ErrIrreversible.
func (c RemoveInterface) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}

// RemoveVirtualServers removes the IPVS virtual servers at these IP addresses.
type RemoveVirtualServers struct{ IPs []string }

// Target names the virtual servers of IPVS.
func (c RemoveVirtualServers) Target() string { return "ipvs" }

func (c RemoveVirtualServers) String() string {
	return "remove the IPVS virtual servers at " + strings.Join(c.IPs, ", ")
}

// Matches reports whether the change removes the virtual server.
func (c RemoveVirtualServers) Matches(s state.VirtualServer) bool {
	return slices.Contains(c.IPs, s.IP)
}

// Done reports whether no virtual server has one of the addresses.
func (c RemoveVirtualServers) Done(ctx context.Context, r state.Reader) (bool, error) {
	all, err := r.VirtualServers(ctx)
	return err == nil && !slices.ContainsFunc(all, c.Matches), err
}

// Inverse is ErrIrreversible.
func (c RemoveVirtualServers) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}
