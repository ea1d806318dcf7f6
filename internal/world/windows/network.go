//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"kubeadm/internal/state"
	"kubeadm/internal/world/portable"
)

// Addresses lists the global unicast addresses of all interfaces that are up, those of an interface
// with a gateway first.
func (m Machine) Addresses(context.Context) ([]state.Address, error) {
	gateways, err := listGateways()
	if err != nil {
		return nil, fmt.Errorf("reading the gateways: %w", err)
	}
	return portable.Addresses(func(i net.Interface) int { return slices.Index(gateways, i.Index) })
}

// listGateways returns the indexes of the interfaces that have a gateway.
func listGateways() ([]int, error) {
	size := uint32(15 << 10) // as the documentation of GetAdaptersAddresses recommends
	for {
		buffer := make([]byte, size)
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0]))
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, windows.GAA_FLAG_INCLUDE_GATEWAYS, 0,
			first, &size)
		switch {
		case errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) && size > uint32(len(buffer)):
			continue
		case errors.Is(err, windows.ERROR_NO_DATA):
			return nil, nil
		case err != nil:
			return nil, err
		}
		var found []int
		for a := first; a != nil; a = a.Next {
			if a.FirstGatewayAddress != nil {
				found = append(found, int(a.IfIndex))
			}
		}
		return found, nil
	}
}

// CanListen opens and closes a TCP port. For a port in use the error is a *state.PortError.
func (m Machine) CanListen(ctx context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, windows.WSAEADDRINUSE), errors.Is(err, windows.WSAEACCES):
		return &state.PortError{Address: address, Err: err} // the second: another program has it alone
	case errors.Is(err, windows.WSAEADDRNOTAVAIL):
		return fmt.Errorf("no interface of this machine has the address of %s: %w", address, err)
	}
	return fmt.Errorf("listening on %s: %w", address, err)
}

// Links returns nothing: kubeadm removes no Pod network of Windows.
func (m Machine) Links(context.Context) ([]state.Link, error) { return nil, nil }

// PacketRules returns nothing: Windows has none of the programs that manage them.
func (m Machine) PacketRules(context.Context, string) (string, error) { return "", nil }

// VirtualServers returns nothing: IPVS is a part of Linux.
func (m Machine) VirtualServers(context.Context) ([]state.VirtualServer, error) { return nil, nil }
