//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestReconfigureAfterUpstream is the reverse of TestReconfigureUpstreamCluster: this program created a cluster, and a user
// changed it as upstream's documentation says, by the stored configuration and upstream's phases. That is no difference to
// be made up for; this program changes more, joins a worker and upgrades, and both changes stay.
func TestReconfigureAfterUpstream(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	upstream := olderUpstreamKubeadm(t)
	s := newOlderHAClusterOf(t, kubeadm, 1, 1)
	runShell(t, s.cp, `set -e
		export KUBECONFIG=/etc/kubernetes/admin.conf
		kubectl -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' >/root/cluster.yaml
		sed -i 's/^apiServer: {}$/apiServer:\n  certSANs: [api.example.com]\n  extraArgs: [{name: event-ttl, value: 2h}]/' /root/cluster.yaml
		grep event-ttl /root/cluster.yaml
		`+upstream+` init phase upload-config kubeadm --config /root/cluster.yaml
		rm /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key
		`+upstream+` init phase certs apiserver --config /root/cluster.yaml
		`+upstream+` init phase control-plane apiserver --config /root/cluster.yaml`)
	await(t, "an API server with the argument", waitLimit, func() error {
		_, err := s.cp.Run(t.Context(), "pgrep", "--full", "kube-apiserver.*--event-ttl=2h")
		return err
	})
	awaitAPI(t, s.cp, "")
	if plan := runReconfigure(t, s.cp, "plan"); !strings.Contains(plan, "Nothing is to be changed") {
		t.Errorf("upstream's change is taken for a difference:\n%s", plan)
	}
	runReconfigure(t, s.cp, "apply", "--set-arg=kube-scheduler:v=3")
	runReconfigure(t, s.worker, "node")
	guest := addNode(t, s.Cluster, "guest")
	useOlder(t, guest)
	runCommand(t, guest, workerJoinCommand(kubeadm, &s.testCluster)...)
	must(t, awaitClusterReady(t.Context(), s.cp, 3))
	runCommand(t, s.cp, upgradeCommand(upgradeTarget)...)
	runCommand(t, s.worker, upgradeNodeCommand()...)
	runCommand(t, guest, upgradeNodeCommand()...)
	for component, arg := range map[string]string{"kube-apiserver": "--event-ttl=2h", "kube-scheduler": "--v=3"} {
		if got := commandLine(t, s.cp, component); !strings.Contains(got, arg) {
			t.Errorf("%s runs as %s", component, got)
		}
	}
	must(t, parseOne(t, readFile(t, s.cp, certsDir+"apiserver.crt")).VerifyHostname("api.example.com"))
}
