//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// TestExternalCA brings each machine what the keeper of all authorities has signed, and nothing to sign with.
// The nodes that join have their kubelet's kubeconfig already, and the worker the CA (S022).
func TestExternalCA(t *testing.T) {
	t.Parallel()
	s, k := newExternalCACluster(t)
	init := []string{kubeadm, "init", "--config", initConfigFile, "-v=1"}
	checkFails(t, s.cp, []string{"cannot be lent", certsDir + "ca.key is not on this machine"}, append(init, "--upload-certs")...)
	t.Run("init goes on", func(t *testing.T) { // after a kill, as anywhere else
		if result, killed := runInterrupted(t, s.cp, unix.SIGKILL, atPhase("wait-control-plane"), init...); !killed {
			t.Fatalf("init was not killed:\n%s%s", result.Stdout, result.Stderr)
		}
		var err error
		s.initResult, err = s.cp.Run(t.Context(), init...)
		must(t, err)
		s.workerJoin, _, err = nodes.JoinCommands(s.initResult.Stdout)
		must(t, err)
	})
	t.Run("a control plane joins", func(t *testing.T) {
		for _, n := range s.controlPlanes[1:] {
			joinExternalCA(t, s, n, "--control-plane")
		}
		checkVotingMembers(t, s.controlPlanes...)
	})
	t.Run("a worker joins", func(t *testing.T) {
		checkFails(t, s.worker, []string{"FileAvailable--etc-kubernetes-kubelet.conf", "FileAvailable--etc-kubernetes-pki-ca.crt"}, workerJoinCommand(kubeadm, &s.testCluster)...)
		joinExternalCA(t, s, s.worker)
	})
	must(t, awaitClusterReady(t.Context(), s.cp, len(s.controlPlanes)+1))
	for _, n := range s.Nodes() {
		if found := runShell(t, n, "find /etc /root /var/lib/kubelet -name 'ca*.key'"); found != "" {
			t.Errorf("%s has %s", n.Name(), found)
		}
	}
	if text := readFile(t, s.cp, kubernetesDir+"manifests/kube-controller-manager.yaml"); !strings.Contains(text, "--cluster-signing-key-file=\n") {
		t.Errorf("the controller manager is to sign:\n%s", text)
	}
	testRenewalSkipsExternalCA(t, s.cp, k)
	checkWorkload(t, &s.testCluster)
}

// newExternalCACluster makes the nodes and the load balancer of a cluster whose authorities are the test's.
func newExternalCACluster(t *testing.T) (*haCluster, *externalCA) {
	t.Helper()
	s, k := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}, newExternalCA(t)
	names := []string{"cp1", "cp2", "worker1"}
	if suite.full {
		names = append(names, "cp3")
	}
	added, err := s.AddAll(t.Context(), names...)
	must(t, err)
	s.cp, s.worker, s.workers = added[0], added[2], added[2:3]
	s.controlPlanes = slices.Concat(added[:2], added[3:])
	s.balancer, err = s.Balance(t.Context())
	must(t, err)
	must(t, s.balancer.Serve(s.controlPlanes...))
	for _, n := range added {
		config := nodes.Config{Address: n.Address(), Endpoint: s.balancer.Endpoint()}
		must(t, n.WriteFile(initConfigFile, []byte(nodes.InitConfig(config)), 0o600))
		if n == s.worker {
			k.supplyKubelet(t, n)
			continue
		}
		k.supplyControlPlane(t, n)
		if n != s.cp {
			run(t, n, "rm", kubernetesDir+"super-admin.conf")
		}
	}
	return s, k
}

// joinExternalCA lets a machine join that has what its kubelet needs.
func joinExternalCA(t *testing.T, s *haCluster, n *nodes.Node, more ...string) {
	t.Helper()
	before := readFile(t, n, kubernetesDir+"kubelet.conf")
	args := slices.Concat(s.workerJoin, more)
	args = append(args, "--ignore-preflight-errors="+nodes.IgnoredPreflight+",FileAvailable--etc-kubernetes-kubelet.conf,FileAvailable--etc-kubernetes-pki-ca.crt")
	result, err := n.Run(t.Context(), args...)
	must(t, err)
	t.Logf("%s joined in %s", n.Name(), result.Duration)
	if readFile(t, n, kubernetesDir+"kubelet.conf") != before {
		t.Errorf("%s has another kubelet.conf than was brought", n.Name())
	}
}

// testRenewalSkipsExternalCA checks that a renewal leaves to the keeper what is the keeper's.
func testRenewalSkipsExternalCA(t *testing.T, cp *nodes.Node, k *externalCA) {
	t.Helper()
	before := runShell(t, cp, "find /etc/kubernetes/pki /etc/kubernetes/*.conf -type f | sort | xargs sha256sum")
	said := run(t, cp, kubeadm, "certs", "renew", "all")
	if n := strings.Count(said, "is left as it is"); n != 11 {
		t.Errorf("%d certificates are left as they are:\n%s", n, said)
	}
	if after := runShell(t, cp, "find /etc/kubernetes/pki /etc/kubernetes/*.conf -type f | sort | xargs sha256sum"); after != before {
		t.Errorf("the files were%s\nand are%s", before, after)
	}
	external := run(t, cp, kubeadm, "certs", "check-expiration", "-o", "jsonpath={.certificates[*].externallyManaged} {.certificateAuthorities[*].externallyManaged}")
	if strings.Contains(external, "false") || len(strings.Fields(external)) != 11+len(k.cas) {
		t.Errorf("managed externally: %s", external)
	}
}
