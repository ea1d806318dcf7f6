//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/manifest"
	"kubeadm/test/nodes"
)

// TestUpstreamJoinsOurCluster lets upstream's kubeadm make a worker of our cluster, and compares it with a worker of ours.
func TestUpstreamJoinsOurCluster(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "guest")
	t.Cleanup(func() { removeNode(t, s, n) })
	joined, err := n.Run(t.Context(), workerJoinCommand(upstreamKubeadm, s)...)
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "join", joined)
	awaitJoined(t, s, n)
	if guest, worker := listFiles(t, n).list(), listFiles(t, s.worker).list(); !slices.Equal(guest, worker) {
		t.Errorf("the peer's worker has the files%s\nbut ours%s", indentLines(guest), indentLines(worker))
	}
	for _, name := range []string{"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env"} {
		if !isSameFile(t, s.worker, n, name) {
			t.Errorf("%s of the peer's worker is not that of ours", name)
		}
	}
}

// TestUpstreamToolsAcceptOurCluster asks upstream's kubeadm about what ours made.
func TestUpstreamToolsAcceptOurCluster(t *testing.T) {
	s := sharedCluster(t)
	expiration := runCommand(t, s.cp, upstreamKubeadm, "certs", "check-expiration")
	for _, want := range []string{"admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf", "apiserver", "etcd-server", "front-proxy-ca"} {
		if !strings.Contains(expiration, want) {
			t.Errorf("the peer finds no certificate %s:\n%s", want, expiration)
		}
	}
	if strings.Contains(expiration, "MISSING") {
		t.Errorf("the peer misses a certificate:\n%s", expiration)
	}
	if list := runCommand(t, s.cp, upstreamKubeadm, "token", "list"); !strings.Contains(list, flagValue(t, s.workerJoin, "--token")) {
		t.Errorf("the peer does not see the token:\n%s", list)
	}
	join := runCommand(t, s.cp, upstreamKubeadm, "token", "create", "--print-join-command", "--ttl=1m")
	if pin := flagValue(t, s.workerJoin, "--discovery-token-ca-cert-hash"); !strings.Contains(join, pin) || !strings.Contains(join, s.workerJoin[2]) {
		t.Errorf("the peer prints %q, ours %q", join, s.workerJoin)
	}
	// It writes each manifest from the configuration in the cluster and shows where the files differ from that.
	if diff := runCommand(t, s.cp, upstreamKubeadm, "upgrade", "diff", "v1.37.1"); strings.Contains(diff, "\n+") || !strings.Contains(diff, "kubeadm-config") {
		t.Errorf("the peer would write other manifests:\n%s", diff)
	}
}

// TestJoinCommandMatchesUpstream compares what both programs print for the same token, to the last blank.
func TestJoinCommandMatchesUpstream(t *testing.T) {
	s := sharedCluster(t)
	const token = "jjjjjj.0123456789abcdef"
	key := strings.Repeat("0a1b", 16)
	create := func(program string, flags ...string) (nodes.Result, error) {
		defer runCommand(t, s.cp, kubeadm, "token", "delete", token)
		return s.cp.Run(t.Context(), append([]string{program, "token", "create", token}, flags...)...)
	}
	for _, flags := range [][]string{{"--print-join-command"}, {"--print-join-command", "--certificate-key", key}} {
		mine, err := create(kubeadm, flags...)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := create(upstreamKubeadm, flags...)
		if err != nil {
			t.Fatal(err)
		}
		if mine.Stdout != theirs.Stdout || !strings.Contains(mine.Stdout, token) || strings.Contains(mine.Stdout, "--control-plane") != (len(flags) > 1) {
			t.Errorf("%q: ours prints\n%q, the peer\n%q", flags, mine.Stdout, theirs.Stdout)
		}
	}
	// The peer refuses a key that it would not print only after it has made the token.
	if result, err := create(upstreamKubeadm, "--certificate-key", key); err == nil || result.Code != 1 {
		t.Errorf("the peer takes a key without a command to print: %v", err)
	}
	result, err := s.cp.Run(t.Context(), kubeadm, "token", "create", token, "--certificate-key", key)
	if err == nil || result.Code != 1 || !strings.Contains(result.Stderr, "--print-join-command") {
		t.Errorf("ours takes a key without a command to print: %v", err)
	}
	if list := runCommand(t, s.cp, upstreamKubeadm, "token", "list"); strings.Contains(list, token) {
		t.Errorf("the refused token was made:\n%s", list)
	}
}

// TestJoinUpstreamCluster lets ours make a worker of upstream's cluster.
func TestJoinUpstreamCluster(t *testing.T) {
	t.Parallel()
	s := &testCluster{Cluster: newCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	cp, worker := takeFingerprint(t, s.cp), takeFingerprint(t, s.worker)
	command := initCommand(t, s.cp)
	initial, err := s.cp.Run(t.Context(), append([]string{upstreamKubeadm}, command[1:]...)...)
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "init without an endpoint", initial)
	if s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	runCommand(t, s.worker, workerJoinCommand(kubeadm, s)...)
	if err := awaitClusterReady(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}
	checkControllerAccounts(t, s.cp)
	if list := runCommand(t, s.cp, kubeadm, "token", "list"); !strings.Contains(list, flagValue(t, s.workerJoin, "--token")) {
		t.Errorf("ours does not see the peer's token:\n%s", list)
	}
	// Each undoes the other's work. The peer knows nothing of our journal, which must not stand in the way afterwards.
	const journal = "/etc/kubernetes/tmp"
	runCommand(t, s.worker, upstreamKubeadm, "reset", "--force")
	runCommand(t, s.cp, kubeadm, "reset", "--force")
	awaitRestored(t, s.worker, worker, journal)
	awaitRestored(t, s.cp, cp)
	runCommand(t, s.cp, initCommand(t, s.cp)...)
	runCommand(t, s.cp, upstreamKubeadm, "reset", "--force")
	awaitRestored(t, s.cp, cp, journal)
	if err := s.initAndJoin(t.Context()); err != nil {
		t.Errorf("after the peer's reset: %v", err)
	}
}

// checkControllerAccounts checks, in a cluster that the peer began, that kube-controller-manager made just the ServiceAccounts that our
// init would have made for it.
func checkControllerAccounts(t *testing.T, cp *nodes.Node) {
	t.Helper()
	bindings := getObject[unstructured.UnstructuredList](t, cp, "clusterrolebindings", "--selector="+manifest.ControllerBindings)
	own := getObject[unstructured.UnstructuredList](t, cp, "--namespace=kube-system", "rolebindings", "--selector="+manifest.ControllerBindings)
	objects, err := manifest.ControllerAccounts(append(bindings.Items, own.Items...))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"serviceaccount/coredns", "serviceaccount/default", "serviceaccount/kube-proxy"}
	for _, o := range objects {
		want = append(want, "serviceaccount/"+o.GetName())
	}
	slices.Sort(want)
	await(t, "the ServiceAccounts of the controllers", waitLimit, func() error {
		got := strings.Fields(kubectl(t, cp, "get", "--namespace=kube-system", "--output=name", "serviceaccounts"))
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("there are%s\nbut foreseen were%s", indentLines(got), indentLines(want))
		}
		return nil
	})
}
