//go:build linux

package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"kubeadm/internal/state"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestDefaultRoutes(t *testing.T) {
	const table4 = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
wlan0	00000000	0101A8C0	0003	0	0	600	00000000	0	0	0
eth0	00000000	010200C0	0003	0	0	100	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
tun0	00000000	00000000	0001	0	0	0	00000080	0	0	0
down0	00000000	010200C0	0002	0	0	0	00000000	0	0	0
`
	const table6 = `00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000064 00000001 00000000 00000003     eth1
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
20010db8000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
`
	got := append(ipv4Routes.parseDefaultRoutes(table4), ipv6Routes.parseDefaultRoutes(table6)...)
	want := []defaultRoute{{"eth0", 100}, {"wlan0", 600}, {"eth1", 100}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAddressRank(t *testing.T) {
	routes := []string{"eth0", "eth1"}
	ranks := []int{
		addressRank(state.Address{Interface: "eth0", DefaultRoute: true}, routes),
		addressRank(state.Address{Interface: "eth1", DefaultRoute: true}, routes),
		addressRank(state.Address{Interface: "eth2"}, routes),
		addressRank(state.Address{Interface: "lo", Loopback: true}, routes),
	}
	if !slices.IsSorted(ranks) || len(slices.Compact(ranks)) != 4 {
		t.Errorf("got %v, want an ascending order", ranks)
	}
}

func TestParseSocket(t *testing.T) {
	// The kernel prints words in the byte order of this machine.
	words := func(ip ...byte) string {
		var b strings.Builder
		for w := range slices.Chunk(ip, 4) {
			fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(w))
		}
		return b.String()
	}
	for address, want := range map[string]string{
		words(127, 0, 0, 1): "127.0.0.1:6443",
		words(0, 0, 0, 0):   "0.0.0.0:6443",
		words(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1):         "[::1]:6443",
		words(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1): "192.0.2.1:6443",
		words(0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1): "[2001:db8::1]:6443",
	} {
		line := "0: " + address +
			":192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1"
		got, ok := parseSocket(strings.Fields(line))
		if !ok || got != (socket{netip.MustParseAddrPort(want), "4711"}) {
			t.Errorf("%s: got %v, %v; want %s", address, got, ok, want)
		}
		if _, ok := parseSocket(strings.Fields(strings.Replace(line, " 0A ", " 01 ", 1))); ok {
			t.Errorf("%s: a connection is parsed as a listener", address)
		}
	}
}

func TestPortOwner(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0", ":0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("%s: %v", at, err) // a machine without IPv6
			continue
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		comm, _ := os.ReadFile("/proc/self/comm")
		want := fmt.Sprintf("%s (pid %d)", bytes.TrimSpace(comm), os.Getpid())
		for _, asked := range []string{":" + port, l.Addr().String()} {
			var taken *state.PortError
			if err := (Machine{}).CanListen(t.Context(), asked); !errors.As(err, &taken) ||
				taken.Owner != want {
				t.Errorf("%s, held by %s: got %v, want %s", asked, l.Addr(), err, want)
			}
		}
	}
}

func TestListenOnForeignAddress(t *testing.T) {
	err := Machine{}.CanListen(t.Context(), "192.0.2.77:6443")
	var taken *state.PortError
	if err == nil || errors.As(err, &taken) ||
		!strings.Contains(err.Error(), "no interface of this machine") {
		t.Errorf("got %v", err)
	}
}
