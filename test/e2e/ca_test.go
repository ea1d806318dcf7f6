//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// TestS020_NoMachineHasTheKeyOfACA brings each machine what the keeper of all authorities has signed, and nothing to sign with.
// The nodes that join have their kubelet's kubeconfig already, and the worker the CA (S022).
func TestS020_NoMachineHasTheKeyOfACA(t *testing.T) {
	t.Parallel()
	s, k := beginSupplied(t)
	init := []string{ours, "init", "--config", goodFile, "-v=1"}
	refused(t, s.cp, []string{"cannot be lent", certsDir + "ca.key is not on this machine"}, append(init, "--upload-certs")...)
	t.Run("init goes on", func(t *testing.T) { // after a kill, as anywhere else
		if result, killed := interrupted(t, s.cp, unix.SIGKILL, inPhase("wait-control-plane"), init...); !killed {
			t.Fatalf("init was not killed:\n%s%s", result.Stdout, result.Stderr)
		}
		var err error
		s.initial, err = s.cp.Run(t.Context(), init...)
		must(t, err)
		s.command, _, err = nodes.JoinCommands(s.initial.Stdout)
		must(t, err)
	})
	t.Run("a control plane joins", func(t *testing.T) {
		for _, n := range s.planes[1:] {
			enterSupplied(t, s, n, "--control-plane")
		}
		vote(t, s.planes...)
	})
	t.Run("a worker joins", func(t *testing.T) {
		refused(t, s.worker, []string{"FileAvailable--etc-kubernetes-kubelet.conf", "FileAvailable--etc-kubernetes-pki-ca.crt"}, joinCommand(ours, &s.site)...)
		enterSupplied(t, s, s.worker)
	})
	must(t, settle(t.Context(), s.cp, len(s.planes)+1))
	for _, n := range s.Nodes() {
		if found := shell(t, n, "find /etc /root /var/lib/kubelet -name 'ca*.key'"); found != "" {
			t.Errorf("%s has %s", n.Name(), found)
		}
	}
	if text := read(t, s.cp, kubernetes+"manifests/kube-controller-manager.yaml"); !strings.Contains(text, "--cluster-signing-key-file=\n") {
		t.Errorf("the controller manager is to sign:\n%s", text)
	}
	testNothingIsRenewed(t, s.cp, k)
	serves(t, &s.site)
}

// beginSupplied makes the nodes and the load balancer of a cluster whose authorities are the test's.
func beginSupplied(t *testing.T) (*trio, *keeper) {
	t.Helper()
	s, k := &trio{site: site{Cluster: newCluster(t)}}, newKeeper(t)
	names := []string{"cp1", "cp2", "worker1"}
	if lab.full {
		names = append(names, "cp3")
	}
	added, err := s.AddAll(t.Context(), names...)
	must(t, err)
	s.cp, s.worker, s.workers = added[0], added[2], added[2:3]
	s.planes = slices.Concat(added[:2], added[3:])
	s.balancer, err = s.Balance(t.Context())
	must(t, err)
	must(t, s.balancer.Serve(s.planes...))
	for _, n := range added {
		config := nodes.Config{Address: n.Address(), Endpoint: s.balancer.Endpoint()}
		must(t, n.WriteFile(goodFile, []byte(nodes.InitConfig(config)), 0o600))
		if n == s.worker {
			k.introduce(t, n)
			continue
		}
		k.supply(t, n)
		if n != s.cp {
			run(t, n, "rm", kubernetes+"super-admin.conf")
		}
	}
	return s, k
}

// enterSupplied lets a machine join that has what its kubelet needs.
func enterSupplied(t *testing.T, s *trio, n *nodes.Node, more ...string) {
	t.Helper()
	before := read(t, n, kubernetes+"kubelet.conf")
	args := slices.Concat(s.command, more)
	args = append(args, "--ignore-preflight-errors="+nodes.IgnoredPreflight+",FileAvailable--etc-kubernetes-kubelet.conf,FileAvailable--etc-kubernetes-pki-ca.crt")
	result, err := n.Run(t.Context(), args...)
	must(t, err)
	t.Logf("%s joined in %s", n.Name(), result.Duration)
	if read(t, n, kubernetes+"kubelet.conf") != before {
		t.Errorf("%s has another kubelet.conf than was brought", n.Name())
	}
}

// testNothingIsRenewed checks that a renewal leaves to the keeper what is the keeper's.
func testNothingIsRenewed(t *testing.T, cp *nodes.Node, k *keeper) {
	t.Helper()
	before := shell(t, cp, "find /etc/kubernetes/pki /etc/kubernetes/*.conf -type f | sort | xargs sha256sum")
	said := run(t, cp, ours, "certs", "renew", "all")
	if n := strings.Count(said, " is not renewed: "); n != 11 {
		t.Errorf("%d certificates are not renewed:\n%s", n, said)
	}
	if after := shell(t, cp, "find /etc/kubernetes/pki /etc/kubernetes/*.conf -type f | sort | xargs sha256sum"); after != before {
		t.Errorf("the files were%s\nand are%s", before, after)
	}
	external := run(t, cp, ours, "certs", "check-expiration", "-o", "jsonpath={.certificates[*].externallyManaged} {.certificateAuthorities[*].externallyManaged}")
	if strings.Contains(external, "false") || len(strings.Fields(external)) != 11+len(k.authorities) {
		t.Errorf("managed externally: %s", external)
	}
}
