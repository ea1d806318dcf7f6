//go:build linux

package linux

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// CanListen opens and closes a TCP port. For a port in use the error is a *state.PortError.
func (m Machine) CanListen(ctx context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, unix.EADDRINUSE):
		return &state.PortError{Address: address, Owner: findListener(address),
			Err: unix.EADDRINUSE}
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("no interface of this machine has the address of %s: %w", address, err)
	}
	return fmt.Errorf("listening on %s: %w", address, err)
}

// findListener returns the program whose listener conflicts with address; empty if it is unknown.
func findListener(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	want, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		ip = netip.IPv6Unspecified()
	}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(table)) {
			s, ok := parseSocket(strings.Fields(line))
			used := s.at.Addr()
			if ok && s.at.Port() == uint16(want) &&
				(used == ip || used.IsUnspecified() || ip.IsUnspecified()) {
				return findSocketOwner(s.inode)
			}
		}
	}
	return ""
}

// socket is a listening TCP socket.
type socket struct {
	at    netip.AddrPort
	inode string
}

// parseSocket parses a line of /proc/net/tcp or tcp6; see proc_net(5).
func parseSocket(f []string) (socket, bool) {
	const listening = "0A"
	if len(f) < 10 || f[3] != listening {
		return socket{}, false
	}
	address, port, ok := strings.Cut(f[1], ":")
	raw, err := hex.DecodeString(address)
	if !ok || err != nil || len(raw)%4 != 0 {
		return socket{}, false
	}
	// The kernel prints an address as words in the machine's byte order.
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	return socket{netip.AddrPortFrom(ip.Unmap(), uint16(n)), f[9]}, ok && err == nil
}

// findSocketOwner returns the process that has a socket open, as "nginx (pid 812)".
func findSocketOwner(inode string) string {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err != nil || link != "socket:["+inode+"]" {
			continue
		}
		process := filepath.Dir(filepath.Dir(fd))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		return fmt.Sprintf("%s (pid %s)", untrusted.Line(string(name)), filepath.Base(process))
	}
	return ""
}
