package run

import (
	"testing"

	"kubeadm/internal/node"
)

func TestFingerprintDependsOnOutcome(t *testing.T) {
	base := node.Node{Local: node.Local{Name: "cp1", Role: node.ControlPlane,
		Paths: node.DefaultPaths()}}
	of := func(change func(*node.Node)) string {
		n := base
		change(&n)
		d, err := hashSettings(outcomeOf(&n))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	same := of(func(*node.Node) {})
	for what, change := range map[string]func(*node.Node){
		"tokens":  func(n *node.Node) { n.Tokens = []node.BootstrapToken{{ID: "abcdef"}} },
		"pins":    func(n *node.Node) { n.Discovery.CACertHashes = []string{"sha256:00"} },
		"ignored": func(n *node.Node) { n.IgnoredChecks = node.IgnoredChecks{"swap"} },
		"key":     func(n *node.Node) { n.CertificateKey = "00" },
	} {
		if of(change) != same {
			t.Errorf("%s make another run of it", what)
		}
	}
	for what, change := range map[string]func(*node.Node){
		"name":    func(n *node.Node) { n.Name = "cp2" },
		"role":    func(n *node.Node) { n.Role = node.Worker },
		"address": func(n *node.Node) { n.Address = "192.0.2.1" },
		"paths":   func(n *node.Node) { n.Paths.Certificates = "/pki" },
		"cluster": func(n *node.Node) { n.Cluster.Document = "kind: ClusterConfiguration" },
	} {
		if of(change) == same {
			t.Errorf("another %s goes for the same run", what)
		}
	}
}
