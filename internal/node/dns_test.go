package node

import (
	"strings"
	"testing"
)

func TestDNSAddress(t *testing.T) {
	for subnets, want := range map[string]string{
		"10.96.0.0/12":                 "10.96.0.10",
		"10.96.3.7/28":                 "10.96.3.10",
		"fd00:96::/112,10.96.0.0/12":   "fd00:96::a",
		"192.168.0.0/16,fd00:10::/112": "192.168.0.10",
	} {
		if got, err := DNSAddress(subnets); err != nil || got != want {
			t.Errorf("DNSAddress(%q) = %q, %v; want %q", subnets, got, err, want)
		}
	}
}

func TestDNSAddressErrors(t *testing.T) {
	for subnets, word := range map[string]string{"": "not a CIDR", "10.96.0.0": "not a CIDR",
		"10.96.0.0/30": "address 10"} {
		if _, err := DNSAddress(subnets); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("DNSAddress(%q): %v; want an error with %q", subnets, err, word)
		}
	}
}
