package config

import (
	"strings"
	"testing"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/state"
)

// A machine with several network cards: the one with the default route is not that of the cluster.
func severalCards() Facts {
	return Facts{Addresses: []state.Address{
		{IP: "192.0.2.7", Bits: 24, Interface: "eth0", DefaultRoute: true},
		{IP: "10.1.0.7", Bits: 16, Interface: "eth1"},
		{IP: "fd00::7", Bits: 64, Interface: "eth1"},
		{IP: "10.2.0.7", Bits: 16, Interface: "bond0"},
		{IP: "10.2.0.100", Bits: 32, Interface: "bond0"},
		{IP: "fd02::7", Bits: 64, Interface: "tun6"},
		{IP: "10.1.9.9", Bits: 32, Interface: "lo", Loopback: true},
	}}
}

// A selector chooses the advertise address and node-ip alike.
func TestNodeAddressFrom(t *testing.T) {
	for from, want := range map[string]string{
		"eth0":                 "192.0.2.7",
		"eth1":                 "10.1.0.7", // IPv4 is preferred
		"tun6":                 "fd02::7",
		"10.1.0.0/16":          "10.1.0.7",
		"10.1.99.99/16":        "10.1.0.7",
		"10.2.0.7/32":          "10.2.0.7",
		"10.2.0.100":           "10.2.0.100",
		"fd00::/8,10.1.0.0/16": "ambiguous",
		"fd00::/16":            "fd00::7",
		"eth1,eth1":            "10.1.0.7,fd00::7",
		"eth1, tun6":           "10.1.0.7,fd02::7",
		"fd00::/16,eth0":       "fd00::7,192.0.2.7",
	} {
		got, err := selectAddresses(from, severalCards())
		if want == "ambiguous" {
			if err == nil || !strings.Contains(err.Error(), "fd00::7, fd02::7; set one of them") {
				t.Errorf("%s selects %q, %v", from, got, err)
			}
			continue
		}
		if err != nil || strings.Join(got, ",") != want {
			t.Errorf("%s selects %q, %v", from, got, err)
		}
		endpoint, r := &v1beta4.APIEndpoint{}, &v1beta4.NodeRegistrationOptions{}
		if err := fillNodeAddress(from, severalCards(), endpoint, r); err != nil ||
			endpoint.AdvertiseAddress != got[0] || len(r.KubeletExtraArgs) != 1 ||
			r.KubeletExtraArgs[0] != (v1beta4.Arg{Name: "node-ip", Value: want}) {
			t.Errorf("%s: the API server advertises %q, and the kubelet has %v: %v", from, endpoint.AdvertiseAddress,
				r.KubeletExtraArgs, err)
		}
	}
}

// No address, several, or one that contradicts another setting: the error says which there are.
func TestNodeAddressFromRefused(t *testing.T) {
	for _, c := range []struct{ from, advertise, nodeIP, want string }{
		{"eth7", "", "", `"eth7" is neither a CIDR nor the name of a network interface that is up and has an address; ` +
			"this machine has 192.0.2.7 (eth0), 10.1.0.7 (eth1)"},
		{"10.1.0.0/33", "", "", "is neither a CIDR nor"},
		{"172.16.0.0/12", "", "", `"172.16.0.0/12" matches no address; this machine has 192.0.2.7 (eth0)`},
		{"bond0", "", "", `"bond0" matches several addresses: 10.2.0.7, 10.2.0.100; set one of them`},
		{"10.0.0.0/8", "", "", "matches several addresses: 10.1.0.7, 10.2.0.7, 10.2.0.100"},
		{"eth1,eth0", "", "", `"eth0" matches no address of another IP family than 10.1.0.7`},
		{"eth0,eth1,tun6", "", "", "it must be one interface or CIDR, or two for dual-stack"},
		{"eth1,", "", "", `"" is neither`},
		{"eth1", "192.0.2.7", "", `selects 10.1.0.7, but the advertise address is set to "192.0.2.7": set only one of them`},
		{"eth1", "", "192.0.2.7", `selects 10.1.0.7, but kubeletExtraArgs sets node-ip to "192.0.2.7": set only one of them`},
		{"eth1\x1b[2J", "", "", `is neither a CIDR`},
	} {
		endpoint := &v1beta4.APIEndpoint{AdvertiseAddress: c.advertise}
		r := &v1beta4.NodeRegistrationOptions{}
		if c.nodeIP != "" {
			r.KubeletExtraArgs = []v1beta4.Arg{{Name: "node-ip", Value: c.nodeIP}}
		}
		err := fillNodeAddress(c.from, severalCards(), endpoint, r)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", c.from, err)
		}
	}
	same := &v1beta4.NodeRegistrationOptions{KubeletExtraArgs: []v1beta4.Arg{{Name: "node-ip", Value: "10.1.0.7"}}}
	if err := fillNodeAddress("eth1", severalCards(), &v1beta4.APIEndpoint{AdvertiseAddress: "0.0.0.0"}, same); err != nil ||
		len(same.KubeletExtraArgs) != 1 {
		t.Errorf("settings that agree: %v, %v", same.KubeletExtraArgs, err)
	}
	if err := fillNodeAddress("eth1", severalCards(), nil, &v1beta4.NodeRegistrationOptions{}); err != nil {
		t.Errorf("a worker: %v", err)
	}
}

// A machine whose kubelet has an address keeps it, although a virtual address or that of a Pod network matches
// too since then; not if the selector is about another one.
func TestNodeAddressStays(t *testing.T) {
	facts := severalCards()
	facts.NodeIP = "10.2.0.7,fd00::7"
	for from, want := range map[string]string{"bond0": "10.2.0.7", "10.0.0.0/8": "10.2.0.7", "eth1": "10.1.0.7",
		"10.0.0.0/8,fd00::/8": "10.2.0.7,fd00::7"} {
		if got, err := selectAddresses(from, facts); err != nil || strings.Join(got, ",") != want {
			t.Errorf("%s selects %q, %v", from, got, err)
		}
	}
}
