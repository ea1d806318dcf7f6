package node_test

import (
	"testing"

	"kubeadm/internal/node"
)

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"2001:DB8::0:1", "2001:db8::1", true}, {"::ffff:192.0.2.1", "192.0.2.1", true},
		{"API.example.com", "api.example.com", true}, {"2001:db8::1", "2001:db8::2", false},
		{"192.0.2.1", "api.example.com", false}, {"", "api.example.com", false},
	} {
		if node.SameHost(c.a, c.b) != c.same {
			t.Errorf("%q and %q are the same: %t", c.a, c.b, !c.same)
		}
	}
}
