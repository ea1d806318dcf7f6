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

// TestUpstreamJoinsOurCluster joins a worker to our cluster with upstream's kubeadm, and compares
// it with one of ours.
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
	if guest, worker := listFiles(t, n).list(),
		listFiles(t, s.worker).list(); !slices.Equal(guest, worker) {
		t.Errorf("upstream's worker has the files%s\nbut ours%s", indentLines(guest),
			indentLines(worker))
	}
	for _, name := range []string{"/var/lib/kubelet/config.yaml",
		"/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env"} {
		if !isSameFile(t, s.worker, n, name) {
			t.Errorf("%s of upstream's worker differs from ours", name)
		}
	}
}

// TestUpstreamToolsAcceptOurCluster runs read-only commands of upstream's kubeadm on our cluster.
func TestUpstreamToolsAcceptOurCluster(t *testing.T) {
	s := sharedCluster(t)
	expiration := runCommand(t, s.cp, upstreamKubeadm, "certs", "check-expiration")
	for _, want := range []string{"admin.conf", "super-admin.conf", "controller-manager.conf",
		"scheduler.conf", "apiserver", "etcd-server", "front-proxy-ca"} {
		if !strings.Contains(expiration, want) {
			t.Errorf("upstream's kubeadm lists no certificate %s:\n%s", want, expiration)
		}
	}
	if strings.Contains(expiration, "MISSING") {
		t.Errorf("upstream's kubeadm misses a certificate:\n%s", expiration)
	}
	if list := runCommand(t, s.cp, upstreamKubeadm, "token", "list"); !strings.Contains(list,
		flagValue(t, s.workerJoin, "--token")) {
		t.Errorf("upstream's kubeadm does not list the token:\n%s", list)
	}
	join := createToken(t, s.cp, upstreamKubeadm, "--print-join-command").Stdout
	if pin := flagValue(t, s.workerJoin, "--discovery-token-ca-cert-hash"); !strings.Contains(join,
		pin) || !strings.Contains(join, s.workerJoin[2]) {
		t.Errorf("upstream's kubeadm prints %q, ours %q", join, s.workerJoin)
	}
	// It renders each manifest from the configuration in the cluster and prints how the file
	// differs.
	if diff := runCommand(t, s.cp, upstreamKubeadm, "upgrade", "diff",
		"v1.37.1"); strings.Contains(diff, "\n+") || !strings.Contains(diff, "kubeadm-config") {
		t.Errorf("upstream's kubeadm renders other manifests:\n%s", diff)
	}
}

// TestJoinCommandMatchesUpstream compares what both programs print for the same token, byte by
// byte.
func TestJoinCommandMatchesUpstream(t *testing.T) {
	s := sharedCluster(t)
	const token = "jjjjjj.0123456789abcdef"
	key := strings.Repeat("0a1b", 16)
	create := func(program string, flags ...string) (nodes.Result, error) {
		defer runCommand(t, s.cp, kubeadm, "token", "delete", token)
		return s.cp.Run(t.Context(),
			append([]string{program, "token", "create", token}, flags...)...)
	}
	for _, flags := range [][]string{{"--print-join-command"},
		{"--print-join-command", "--certificate-key", key}} {
		mine, err := create(kubeadm, flags...)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := create(upstreamKubeadm, flags...)
		if err != nil {
			t.Fatal(err)
		}
		if mine.Stdout != theirs.Stdout || !strings.Contains(mine.Stdout, token) ||
			strings.Contains(mine.Stdout, "--control-plane") != (len(flags) > 1) {
			t.Errorf("%q: ours prints\n%q, upstream's\n%q", flags, mine.Stdout, theirs.Stdout)
		}
	}
	// Upstream's kubeadm refuses a key that it would not print only after it has created the
	// token.
	if result, err := create(upstreamKubeadm, "--certificate-key", key); err == nil ||
		result.Code != 1 {
		t.Errorf("upstream's kubeadm accepts a key without a command to print: %v", err)
	}
	result, err := s.cp.Run(t.Context(), kubeadm, "token", "create", token, "--certificate-key",
		key)
	if err == nil || result.Code != 1 || !strings.Contains(result.Stderr, "--print-join-command") {
		t.Errorf("ours accepts a key without a command to print: %v", err)
	}
	if list := runCommand(t, s.cp, upstreamKubeadm, "token", "list"); strings.Contains(list,
		token) {
		t.Errorf("the refused command created the token:\n%s", list)
	}
}

// TestJoinUpstreamCluster joins a worker to upstream's cluster with our kubeadm.
func TestJoinUpstreamCluster(t *testing.T) {
	parallel(t)
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
	if list := runCommand(t, s.cp, kubeadm, "token", "list"); !strings.Contains(list,
		flagValue(t, s.workerJoin, "--token")) {
		t.Errorf("ours does not list upstream's token:\n%s", list)
	}
	// Each resets what the other created. Upstream's reset leaves our journal, which must not
	// disturb a later init.
	const journal = "/etc/kubernetes/tmp"
	runCommand(t, s.worker, upstreamKubeadm, "reset", "--force")
	runCommand(t, s.cp, kubeadm, "reset", "--force")
	awaitRestored(t, s.worker, worker, journal)
	awaitRestored(t, s.cp, cp)
	runCommand(t, s.cp, initCommand(t, s.cp)...)
	runCommand(t, s.cp, upstreamKubeadm, "reset", "--force")
	awaitRestored(t, s.cp, cp, journal)
	if err := s.initAndJoin(t.Context()); err != nil {
		t.Errorf("after upstream's reset: %v", err)
	}
}

// checkControllerAccounts checks, in a cluster that upstream's kubeadm created, that
// kube-controller-manager created exactly the ServiceAccounts that our init creates for it.
func checkControllerAccounts(t *testing.T, cp *nodes.Node) {
	t.Helper()
	bindings := readObject[unstructured.UnstructuredList](t, cp, "clusterrolebindings",
		"--selector="+manifest.ControllerBindingSelector)
	own := readObject[unstructured.UnstructuredList](t, cp, "--namespace=kube-system",
		"rolebindings", "--selector="+manifest.ControllerBindingSelector)
	objects, err := manifest.ControllerAccounts(append(bindings.Items, own.Items...))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"serviceaccount/coredns", "serviceaccount/default",
		"serviceaccount/kube-proxy"}
	for _, o := range objects {
		want = append(want, "serviceaccount/"+o.GetName())
	}
	slices.Sort(want)
	await(t, "the ServiceAccounts of the controllers", waitLimit, func() error {
		got := strings.Fields(kubectl(t, cp, "get", "--namespace=kube-system", "--output=name",
			"serviceaccounts"))
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("there are%s\nbut init creates%s", indentLines(got),
				indentLines(want))
		}
		return nil
	})
}
