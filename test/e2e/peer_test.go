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

// TestS199_PeerJoinsOurCluster lets upstream's kubeadm make a worker of our cluster, and compares it with a worker of ours.
func TestS199_PeerJoinsOurCluster(t *testing.T) {
	s := home(t)
	n := add(t, s.Cluster, "guest")
	t.Cleanup(func() { expel(t, s, n) })
	joined, err := n.Run(t.Context(), joinCommand(peer, s)...)
	if err != nil {
		t.Fatal(err)
	}
	holdsPhrases(t, "join", joined)
	awaitMember(t, s, n)
	if guest, worker := filesOf(t, n).names(), filesOf(t, s.worker).names(); !slices.Equal(guest, worker) {
		t.Errorf("the peer's worker has the files%s\nbut ours%s", lines("%s", guest), lines("%s", worker))
	}
	for _, name := range []string{"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env"} {
		if !same(t, s.worker, n, name) {
			t.Errorf("%s of the peer's worker is not that of ours", name)
		}
	}
}

// TestS199_PeersToolsAcceptOurCluster asks upstream's kubeadm about what ours made.
func TestS199_PeersToolsAcceptOurCluster(t *testing.T) {
	s := home(t)
	expiration := run(t, s.cp, peer, "certs", "check-expiration")
	for _, want := range []string{"admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf", "apiserver", "etcd-server", "front-proxy-ca"} {
		if !strings.Contains(expiration, want) {
			t.Errorf("the peer finds no certificate %s:\n%s", want, expiration)
		}
	}
	if strings.Contains(expiration, "MISSING") {
		t.Errorf("the peer misses a certificate:\n%s", expiration)
	}
	if list := run(t, s.cp, peer, "token", "list"); !strings.Contains(list, flagOf(t, s.command, "--token")) {
		t.Errorf("the peer does not see the token:\n%s", list)
	}
	join := run(t, s.cp, peer, "token", "create", "--print-join-command", "--ttl=1m")
	if pin := flagOf(t, s.command, "--discovery-token-ca-cert-hash"); !strings.Contains(join, pin) || !strings.Contains(join, s.command[2]) {
		t.Errorf("the peer prints %q, ours %q", join, s.command)
	}
	// It writes each manifest from the configuration in the cluster and shows where the files differ from that.
	if diff := run(t, s.cp, peer, "upgrade", "diff", "v1.37.1"); strings.Contains(diff, "\n+") || !strings.Contains(diff, "kubeadm-config") {
		t.Errorf("the peer would write other manifests:\n%s", diff)
	}
}

// TestS199_JoinCommandsAreThePeers compares what both programs print for the same token, to the last blank.
func TestS199_JoinCommandsAreThePeers(t *testing.T) {
	s := home(t)
	const token = "jjjjjj.0123456789abcdef"
	key := strings.Repeat("0a1b", 16)
	create := func(program string, flags ...string) (nodes.Result, error) {
		defer run(t, s.cp, ours, "token", "delete", token)
		return s.cp.Run(t.Context(), append([]string{program, "token", "create", token}, flags...)...)
	}
	for _, flags := range [][]string{{"--print-join-command"}, {"--print-join-command", "--certificate-key", key}} {
		mine, err := create(ours, flags...)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := create(peer, flags...)
		if err != nil {
			t.Fatal(err)
		}
		if mine.Stdout != theirs.Stdout || !strings.Contains(mine.Stdout, token) || strings.Contains(mine.Stdout, "--control-plane") != (len(flags) > 1) {
			t.Errorf("%q: ours prints\n%q, the peer\n%q", flags, mine.Stdout, theirs.Stdout)
		}
	}
	// The peer refuses a key that it would not print only after it has made the token.
	if result, err := create(peer, "--certificate-key", key); err == nil || result.Code != 1 {
		t.Errorf("the peer takes a key without a command to print: %v", err)
	}
	result, err := s.cp.Run(t.Context(), ours, "token", "create", token, "--certificate-key", key)
	if err == nil || result.Code != 1 || !strings.Contains(result.Stderr, "--print-join-command") {
		t.Errorf("ours takes a key without a command to print: %v", err)
	}
	if list := run(t, s.cp, peer, "token", "list"); strings.Contains(list, token) {
		t.Errorf("the refused token was made:\n%s", list)
	}
}

// TestS199_WeJoinThePeersCluster lets ours make a worker of upstream's cluster.
func TestS199_WeJoinThePeersCluster(t *testing.T) {
	t.Parallel()
	s := &site{Cluster: newCluster(t)}
	if err := s.add(t.Context()); err != nil {
		t.Fatal(err)
	}
	cp, worker := fingerprint(t, s.cp), fingerprint(t, s.worker)
	command := initCommand(t, s.cp)
	initial, err := s.cp.Run(t.Context(), append([]string{peer}, command[1:]...)...)
	if err != nil {
		t.Fatal(err)
	}
	holdsPhrases(t, "init without an endpoint", initial)
	if s.command, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	run(t, s.worker, joinCommand(ours, s)...)
	if err := settle(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}
	accountsAreForeseen(t, s.cp)
	if list := run(t, s.cp, ours, "token", "list"); !strings.Contains(list, flagOf(t, s.command, "--token")) {
		t.Errorf("ours does not see the peer's token:\n%s", list)
	}
	// Each undoes the other's work. The peer knows nothing of our journal, which must not stand in the way afterwards.
	const journal = "/etc/kubernetes/tmp"
	run(t, s.worker, peer, "reset", "--force")
	run(t, s.cp, ours, "reset", "--force")
	clean(t, s.worker, worker, journal)
	clean(t, s.cp, cp)
	run(t, s.cp, initCommand(t, s.cp)...)
	run(t, s.cp, peer, "reset", "--force")
	clean(t, s.cp, cp, journal)
	if err := s.form(t.Context()); err != nil {
		t.Errorf("after the peer's reset: %v", err)
	}
}

// accountsAreForeseen checks, in a cluster that the peer began, that kube-controller-manager made just the ServiceAccounts that our
// init would have made for it.
func accountsAreForeseen(t *testing.T, cp *nodes.Node) {
	t.Helper()
	bindings := get[unstructured.UnstructuredList](t, cp, "clusterrolebindings", "--selector="+manifest.ControllerBindings)
	own := get[unstructured.UnstructuredList](t, cp, "--namespace=kube-system", "rolebindings", "--selector="+manifest.ControllerBindings)
	objects, err := manifest.ControllerAccounts(append(bindings.Items, own.Items...))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"serviceaccount/coredns", "serviceaccount/default", "serviceaccount/kube-proxy"}
	for _, o := range objects {
		want = append(want, "serviceaccount/"+o.GetName())
	}
	slices.Sort(want)
	await(t, "the ServiceAccounts of the controllers", patience, func() error {
		got := strings.Fields(kubectl(t, cp, "get", "--namespace=kube-system", "--output=name", "serviceaccounts"))
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("there are%s\nbut foreseen were%s", lines("%s", got), lines("%s", want))
		}
		return nil
	})
}
