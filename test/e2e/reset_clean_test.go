//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// cleanRemains are the differences that a machine may have after a reset with --clean=all, each
// with its reason.
var cleanRemains = []struct{ line, reason string }{
	{`^\+ files: /(etc/kubeadm\.yaml|root/(kubeadm|web)\.yaml|root/admin\.conf|root/\.kube) `, "the test's own"},
	{`^\+ files: /etc/kubernetes(/manifests|/pki)? d`,
		"directories stay, their contents are removed"},
	{`^\+ files: /var/lib/(kubelet|etcd) d`, "the same"},
	{`^\+ routes: 10\.244\.\S+ via 10\.77\.`, "the test's own, to the Pods of other nodes"},
	{`^[+-] (units|processes): kubelet`, "stopped; whether it starts at boot is unchanged"},
}

// bridgeNetwork is the CNI configuration of a bridge, which is used before that of the test nodes.
const bridgeNetwork = `{"cniVersion": "1.0.0", "name": "cbr", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "ipam": {
    "type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

// foreignNetwork is what another program has set up: an interface, rules, a chain and a table.
const foreignNetwork = `
ip link add mine0 type bridge
ip netns add mine
iptables-nft -t nat -N MINE
iptables-nft -t nat -A POSTROUTING -s 192.0.2.0/24 -m comment --comment "not -j KUBE-SERVICES" -j MINE
iptables-legacy -A INPUT -p tcp --dport 9 -j ACCEPT
iptables-legacy -t nat -S
nft add table inet mine
nft add chain inet mine input '{ type filter hook input priority 10 ; }'
nft add rule inet mine input tcp dport 9 accept`

// flannelNetwork is what flannel sets up beside its DaemonSet's Pods.
const flannelNetwork = `
ip link add flannel.1 type vxlan id 1 dstport 8472 dev eth0 local %s
ip link set flannel.1 up
mkdir -p /run/flannel
echo FLANNEL_MTU=1450 > /run/flannel/subnet.env
iptables-nft -N FLANNEL-FWD
iptables-nft -A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
iptables-nft -A FLANNEL-FWD -s 10.244.0.0/16 -j ACCEPT
iptables-legacy -t nat -N FLANNEL-POSTRTG
iptables-legacy -t nat -A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
nft add table ip flannel-ipv4`

// cleanManifest has a Pod with a host port on each node, and a Deployment that a drain evicts.
const cleanManifest = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ports}
spec:
  selector: {matchLabels: {app: ports}}
  template:
    metadata: {labels: {app: ports}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers:
      - name: web
        image: kubeadm.test/agnhost:1
        imagePullPolicy: Never
        args: [serve-hostname]
        ports: [{containerPort: 9376, hostPort: 8080}]
---
`

// TestCleanResetRestoresMachines resets a worker, one of three control planes whose API server
// cannot be reached, and the last control plane. With --clean=all each is as it was before init and
// join, and what other programs had set up is still there.
func TestCleanResetRestoresMachines(t *testing.T) {
	inFullRun(t, "two minutes")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createNodes(t.Context(), 3, 1); err != nil {
		t.Fatal(err)
	}
	before := map[*nodes.Node]nodes.Fingerprint{}
	for _, n := range append(slices.Clone(s.controlPlanes), s.worker) {
		runShell(t, n, foreignNetwork)
		before[n] = takeWholeFingerprint(t, n)
	}
	if err := s.initFirst(t.Context(), nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range append(slices.Clone(s.controlPlanes[1:]), s.worker) {
		if err := s.joinNodes(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := awaitClusterReady(t.Context(), s.cp, 4); err != nil {
		t.Fatal(err)
	}
	usePodNetwork(t, s)
	cp3, admin := s.controlPlanes[2], readFile(t, s.cp, "/etc/kubernetes/admin.conf")

	if err := s.worker.WriteFile("/root/admin.conf", []byte(admin), 0o600); err != nil {
		t.Fatal(err)
	}
	checkLeaves(t, s)
	awaitClean(t, s.worker, before[s.worker])

	runShell(t, cp3, "systemctl stop kubelet; kill -9 $(pgrep --exact --oldest kube-apiserver)")
	s.balancer.Refuse()
	cleanReset(t, cp3)
	if err := s.balancer.Open(); err != nil {
		t.Fatal(err)
	}
	setControlPlanes(t, s, s.controlPlanes[:2]...)
	checkVotingMembers(t, s.controlPlanes...)
	awaitClean(t, cp3, before[cp3])

	cleanReset(t, s.controlPlanes[1])
	for range 2 { // the second one finds nothing to do
		cleanReset(t, s.cp)
		awaitClean(t, s.cp, before[s.cp])
	}
}

// usePodNetwork runs Pods in a bridge on all nodes, beside what flannel sets up.
func usePodNetwork(t *testing.T, s *haCluster) {
	for _, n := range append(slices.Clone(s.controlPlanes), s.worker) {
		cidr := kubectl(t, s.cp, "get", "node", strings.ToLower(n.Name()),
			"--output=jsonpath={.spec.podCIDR}")
		if err := n.WriteFile("/etc/cni/net.d/05-bridge.conflist",
			fmt.Appendf(nil, bridgeNetwork, cidr), 0o644); err != nil {
			t.Fatal(err)
		}
		runShell(t, n, fmt.Sprintf(flannelNetwork, n.Address()))
		// The user of a control plane has a kubeconfig, as init recommends.
		runShell(t, n, "[ ! -e /etc/kubernetes/admin.conf ] || install -D --mode=600 /etc/kubernetes/admin.conf /root/.kube/config")
	}
	if err := s.cp.WriteFile("/root/web.yaml", []byte(cleanManifest+webManifest),
		0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, s.cp, "apply", "-f", "/root/web.yaml")
	kubectl(t, s.cp, "rollout", "status", "--timeout=180s", "daemonset/ports")
	for _, n := range append(slices.Clone(s.controlPlanes), s.worker) {
		rules := runShell(t, n, "ip link show cni0; iptables-nft-save; iptables-legacy-save; nft list ruleset")
		for _, want := range []string{"CNI-HOSTPORT-DNAT", "KUBE-", "FLANNEL-FWD", "mine"} {
			if !strings.Contains(rules, want) {
				t.Fatalf("%s has no %s to remove:\n%s", n.Name(), want, rules)
			}
		}
	}
}

// checkLeaves checks that the worker's reset names what is missing to delete its Node, and then
// drains and deletes it.
func checkLeaves(t *testing.T, s *haCluster) {
	checkFails(t, s.worker, []string{"/etc/kubernetes/admin.conf does not exist", "--kubeconfig"},
		kubeadm, "reset", "--force", "--leave-cluster")
	checkFails(t, s.worker, []string{"belongs to the kubelet of node worker1"},
		kubeadm, "reset", "--force", "--leave-cluster", "--kubeconfig=/etc/kubernetes/kubelet.conf")
	const budget = `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web},
  spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}`
	if err := s.cp.WriteFile("/root/kubeadm.yaml", []byte(budget), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, s.cp, "rollout", "status", "--timeout=180s", "deployment/web")
	kubectl(t, s.cp, "apply", "-f", "/root/kubeadm.yaml")
	leave := []string{kubeadm, "reset", "--force", "--leave-cluster", "--clean=all",
		"--kubeconfig=/root/admin.conf"}
	await(t, "the budget to be known", waitLimit, func() error {
		if kubectl(t, s.cp, "get", "pdb", "web", "--output=jsonpath={.status.currentHealthy}") != "2" {
			return fmt.Errorf("it has no status")
		}
		return nil
	})
	checkFails(t, s.worker, []string{"do not allow the eviction of default/web-",
		"nothing was removed", "kubectl uncordon worker1"}, append(leave, "--drain-timeout=3s")...)
	kubectl(t, s.cp, "get", "node", "worker1")
	kubectl(t, s.cp, "delete", "pdb", "web")
	dry := runCommand(t, s.worker, append(leave, "--dry-run")...)
	for _, want := range []string{"evict", "delet", "cni0", "05-bridge.conflist"} {
		if !strings.Contains(dry, want) {
			t.Errorf("the dry run does not name %s:\n%s", want, dry)
		}
	}
	kubectl(t, s.cp, "get", "node", "worker1")
	result, err := s.worker.Run(t.Context(), leave...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s%s", result.Duration.Round(time.Millisecond), result.Stdout, result.Stderr)
	if _, err := s.cp.Kubectl(t.Context(), "get", "node", "worker1"); err == nil ||
		!strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the Node of worker1: %v", err)
	}
}

func cleanReset(t *testing.T, n *nodes.Node) {
	t.Helper()
	result, err := n.Run(t.Context(), kubeadm, "reset", "--force", "--clean=all")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s\n%s%s", n.Name(), result.Duration.Round(time.Millisecond), result.Stdout,
		result.Stderr)
	if strings.Contains(result.Stderr, "not removed") {
		t.Errorf("something of %s was not removed:\n%s", n.Name(), result.Stderr)
	}
}

// awaitClean waits until a machine has the fingerprint of before, except for cleanRemains.
func awaitClean(t *testing.T, n *nodes.Node, before nodes.Fingerprint) {
	t.Helper()
	await(t, n.Name()+" to be clean", waitLimit, func() error {
		after := takeWholeFingerprint(t, n)
		left := slices.DeleteFunc(before.Diff(after), func(line string) bool {
			for _, remains := range cleanRemains {
				if regexp.MustCompile(remains.line).MatchString(line) {
					return true
				}
			}
			return false
		})
		if len(left) > 0 {
			return fmt.Errorf("it differs:%s", indentLines(left))
		}
		return nil
	})
}

// takeWholeFingerprint is takeFingerprint with the named network namespaces, the logs of Pods, the
// control groups of Kubernetes and the names of processes.
func takeWholeFingerprint(t *testing.T, n *nodes.Node) nodes.Fingerprint {
	t.Helper()
	f := takeFingerprint(t, n)
	for subject, script := range map[string]string{
		"files":      "find /run/netns /run/flannel /var/log/pods /var/log/containers 2>/dev/null || true",
		"containers": "find /sys/fs/cgroup -type d -name '*kubepods*'",
		"processes":  "ps -e -o comm= | sort -u | grep -v -e '^ps$' -e '^sort$' -e '^sh$' -e '^grep$' -e systemd -e kworker",
	} {
		f[subject] = append(f[subject], strings.Fields(runShell(t, n, script))...)
	}
	return f
}
