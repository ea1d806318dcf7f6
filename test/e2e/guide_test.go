//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/guides"
	"kubeadm/test/nodes"
)

// TestGuides follows every guide in docs/guide: it runs its commands on nodes and compares what
// they print. Some guides are only followed in a full run.
func TestGuides(t *testing.T) {
	t.Parallel()
	all, err := guides.Load("../../docs/guide")
	must(t, err)
	for _, g := range all {
		t.Run(g.Name, func(t *testing.T) {
			parallel(t)
			if !suite.full && !g.HasOption("always") {
				t.Skip("followed in a full run: make e2e-full RUN=TestGuides/" + g.Name)
			}
			newGuideReader(t, g).follow(t)
		})
	}
}

// guideReader follows a guide.
type guideReader struct {
	*nodes.Cluster
	guide    guides.Guide
	balancer *nodes.Balancer
	secrets  map[string]string // that were printed last, by the text in a guide for them
	printed  string            // by the last block of commands
	load     *load             // nil: no client writes through the load balancer
}

// newGuideReader boots the nodes of a guide.
func newGuideReader(t *testing.T, g guides.Guide) *guideReader {
	t.Helper()
	o := testOptions(t)
	if g.HasOption("older") {
		o.Older = []string{suite.older}
	}
	if g.HasOption("dual-stack") {
		o.Families = nodes.DualStack
	}
	if g.HasOption("package") {
		o.Kubeadm = ""
	}
	r := &guideReader{Cluster: newClusterOf(t, o), guide: g, secrets: map[string]string{}}
	added, err := r.AddAll(t.Context(), g.Nodes...)
	must(t, err)
	if g.HasOption("balancer") {
		r.balancer, err = r.StartBalancer(t.Context())
		must(t, err)
		must(t, r.balancer.SetBackends(added[0]))
		host, _, err := net.SplitHostPort(r.balancer.Endpoint())
		must(t, err)
		must(t, r.SetNameAt("cluster.example", host))
	}
	for _, n := range added {
		r.prepareNode(t, n)
	}
	return r
}

// sandboxedKubeadm is what a guide's "kubeadm" runs: a node needs a few settings that a machine of
// the reader does not.
const sandboxedKubeadm = `#!/bin/sh
case "$1 $2 $3" in
"init phase preflight" | "join phase preflight") set -- "$@" --ignore-preflight-errors=%[1]s ;;
"init phase "* | "join phase "* | "upgrade diff "*) ;;
init* | join* | "upgrade "* | "reconfigure apply"* | "reconfigure undo"* | "reconfigure node"* | "address change"* | "address finish"* | "endpoint change"* | "endpoint finish"* | "endpoint follow"* | "node-name keep"* | "node-name change"*) set -- "$@" --ignore-preflight-errors=%[1]s ;;
esac
/usr/bin/kubeadm "$@" || exit
if [ "$1" = init ] && [ -e /etc/kubernetes/admin.conf ]; then
	kubectl() { /usr/bin/kubectl --kubeconfig=/etc/kubernetes/admin.conf --namespace=kube-system "$@"; }
	proxy=$(kubectl get configmap kube-proxy --output=yaml 2>/dev/null) || exit 0
	echo "$proxy" | sed 's/maxPerCore: null/maxPerCore: 0/' | kubectl replace --filename=- >/dev/null
	kubectl delete pod --selector=k8s-app=kube-proxy --wait=false >/dev/null
fi
exit 0
`

// sandboxedKubelet are the arguments that a kubelet on a sandboxed node needs.
const sandboxedKubelet = "KUBELET_EXTRA_ARGS=--cgroup-driver=cgroupfs --fail-cgroupv1=false " +
	"--eviction-hard=memory.available<50Mi,nodefs.available<1%,imagefs.available<1% " +
	"--image-gc-high-threshold=100 --image-gc-low-threshold=99\n"

func (r *guideReader) prepareNode(t *testing.T, n *nodes.Node) {
	t.Helper()
	must(t, n.WriteFile("/usr/local/bin/kubeadm",
		fmt.Appendf(nil, sandboxedKubeadm, nodes.IgnoredPreflight), 0o755))
	writeFile(t, n, "/etc/default/kubelet", sandboxedKubelet)
	if r.guide.HasOption("package") {
		must(t, n.Copy(buildDebianPackage(t, "1"), "/root/kubeadm_1.37.1-1_amd64.deb", 0o644))
	}
	if r.guide.HasOption("older") {
		useOlder(t, n)
	}
	must(t, n.Copy(suite.kubeadm, "/root/kubeadm", 0o755))
}

// follow does what the guide says, from the top to the bottom.
func (r *guideReader) follow(t *testing.T) {
	t.Helper()
	for _, b := range r.guide.Blocks {
		at := fmt.Sprintf("docs/guide/%s.md:%d", r.guide.Name, b.Line)
		switch b.Kind {
		case guides.File:
			for _, name := range b.Nodes {
				writeFile(t, r.Node(name), b.File, r.fill(b.Text))
			}
		case guides.Command:
			r.printed = ""
			for _, name := range b.Nodes {
				r.runBlock(t, at, b, r.Node(name))
			}
		case guides.Output:
			if line, ok := guides.FindMissing(b.Text, r.printed); !ok {
				t.Fatalf("%s: the commands before it do not print %q after the other lines, but:\n%s",
					at, line, r.printed)
			}
		case guides.Sandbox:
			if err := r.runStep(t, at, b); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
		}
	}
	if r.load != nil {
		r.load.end(t, r.Nodes()[0])
	}
}

// The addresses of nodes in a guide are those that RFC 5737 and RFC 3849 keep for documents.
var (
	toNode  = strings.NewReplacer("192.0.2.", "10.77.0.", "2001:db8::", "fd00:77::")
	toGuide = strings.NewReplacer("10.77.0.", "192.0.2.", "fd00:77::", "2001:db8::")
)

// secretPatterns find what a guide cannot know in the output of commands. The guide has an ellipsis
// in the place of the first group.
var secretPatterns = map[string]*regexp.Regexp{
	"--token …":           regexp.MustCompile(`--token ([a-z0-9]{6}\.[a-z0-9]{16})`),
	"sha256:…":            regexp.MustCompile(`sha256:([0-9a-f]{64})`),
	"--certificate-key …": regexp.MustCompile(`--certificate-key ([0-9a-f]{64})`),
}

// fill replaces addresses and ellipses of a guide by those of this cluster.
func (r *guideReader) fill(text string) string {
	for mark, secret := range r.secrets {
		text = strings.ReplaceAll(text, mark, strings.Replace(mark, "…", secret, 1))
	}
	return toNode.Replace(text)
}

// runBlock runs commands as a user with the kubeconfig of the administrator would.
func (r *guideReader) runBlock(t *testing.T, at string, b guides.Block, n *nodes.Node) {
	t.Helper()
	c := n.Command("bash", "-c", "cd /root\nset -e\n"+r.fill(b.Text))
	c.Env = []string{"KUBECONFIG=/etc/kubernetes/admin.conf"}
	result, err := c.Run(t.Context())
	output := result.Stdout + result.Stderr
	t.Logf("%s: on %s, %.1f s:\n%s", at, n.Name(), result.Duration.Seconds(), b.Text)
	if b.Fails {
		t.Log(output)
	}
	if (err != nil) != b.Fails {
		t.Fatalf("%s: on %s: it fails: %t, want %t: %v\n%s%s", at, n.Name(), err != nil, b.Fails, err,
			b.Text, output)
	}
	for mark, pattern := range secretPatterns {
		for _, m := range pattern.FindAllStringSubmatch(output, -1) { // a dry run prints others before
			r.secrets[mark] = m[1]
		}
	}
	r.printed += toGuide.Replace(output)
}

// runStep does what a guide cannot: it stands for what the reader has done before, for what happens
// to a machine, or for a command that needs a registry, a repository of packages or SSH.
func (r *guideReader) runStep(t *testing.T, at string, b guides.Block) error {
	t.Helper()
	name, args := b.Step[0], b.Step[1:]
	members := slices.Concat(b.Nodes, args)
	switch name {
	case "run":
		members = args[:1]
	case "load-step", "load-step-without-failure":
		r.endLoadStep(t, name == "load-step", strings.Join(args, " "))
		return nil
	}
	var on []*nodes.Node
	for _, m := range members {
		n := r.Node(m)
		if n == nil {
			return fmt.Errorf("step %s: there is no node %q", name, m)
		}
		on = append(on, n)
	}
	switch name {
	case "run": // commands of the reader, before the guide begins
		r.runBlock(t, at, guides.Block{Text: strings.Join(args[1:], " ")}, on[0])
		return nil
	case "join", "join-control-plane": // by the command that was printed last
		r.joinNodes(t, at, on, name == "join-control-plane")
		return nil
	case "pod-network": // on all nodes that have joined
		r.awaitRegistered(t)
		return r.PodNetwork(t.Context(), r.Nodes()[0])
	case "balance": // the load balancer forwards to these
		err := r.balancer.SetBackends(on...)
		if r.load != nil {
			r.load.awaitRequest() // which may be at another one
		}
		return err
	case "load": // a client on this node begins to write through the load balancer
		r.load = startBalancedLoad(t, r.balancer, r.Nodes()[0], on[0])
		t.Cleanup(r.load.stop)
		return nil
	case "windows": // TestWindowsWorker runs the same commands under Wine
		return nil
	case "copy":
		return r.copyFiles(b.Text)
	case "etcd":
		etcd, err := nodes.StartEtcd(t.Context(), on...)
		if err != nil {
			return err
		}
		return etcd.InstallClientCertificate(r.Nodes()[0])
	case "expire": // all certificates of a control plane node and of all kubelets
		if err := on[0].AwaitReady(t.Context(), len(r.Nodes())); err != nil {
			return err
		}
		expireCluster(t, &haCluster{testCluster: testCluster{Cluster: r.Cluster, cp: on[0]},
			controlPlanes: on[:1]})
		time.Sleep(25 * time.Second) // a kubelet whose Lease is younger than 20 s still reports
		return nil
	}
	return r.runMachineStep(t, name, on)
}

// runMachineStep does what happens to machines, and what their packages bring.
func (r *guideReader) runMachineStep(t *testing.T, name string, on []*nodes.Node) error {
	t.Helper()
	switch name {
	case "add-address": // the new one, beside the previous one
		_, err := on[0].AddAddress(t.Context())
		return err
	case "move": // the previous one is gone
		address, err := on[0].AddAddress(t.Context())
		if err != nil {
			return err
		}
		return on[0].MoveTo(t.Context(), address)
	case "reboot": // all at once
		for _, n := range on {
			if err := n.Kill(t.Context()); err != nil {
				return err
			}
		}
		for _, n := range on {
			if err := n.Boot(t.Context()); err != nil {
				return err
			}
		}
		return nil
	case "poweroff":
		return on[0].Kill(t.Context())
	case "kubelet": // and kubectl of the newest release, as its packages would
		for _, program := range []string{"kubelet", "kubectl"} {
			if err := on[0].Copy(r.Bundle()+"/bin/"+program, "/usr/bin/"+program,
				0o755); err != nil {
				return err
			}
		}
		return nil
	case "units": // that the packages bring
		for _, unit := range []string{"kubeadm-certs-renew.service", "kubeadm-certs-renew.timer",
			"kubeadm-etcd-snapshot.service", "kubeadm-etcd-snapshot.timer"} {
			if err := on[0].Copy("../../docs/systemd/"+unit, "/etc/systemd/system/"+unit,
				0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("there is no step %q", name)
}

// endLoadStep logs what the client has seen since the last step.
func (r *guideReader) endLoadStep(t *testing.T, mayFail bool, step string) {
	t.Helper()
	if mayFail {
		r.load.endStep(t, step)
	} else {
		r.load.endStepWithoutFailure(t, step)
	}
}

// joinNodes joins nodes by the command that was printed last, and waits until they are registered.
func (r *guideReader) joinNodes(t *testing.T, at string, on []*nodes.Node, controlPlane bool) {
	t.Helper()
	endpoint := r.Nodes()[0].Address() + ":6443"
	if r.balancer != nil {
		endpoint = "cluster.example:6443"
	}
	command := "kubeadm join " + endpoint + " --token … --discovery-token-ca-cert-hash sha256:…"
	if controlPlane {
		command += " --control-plane --certificate-key …"
	}
	for _, n := range on {
		r.runBlock(t, at, guides.Block{Text: command}, n)
	}
	r.awaitRegistered(t)
}

// awaitRegistered waits until the nodes that have joined are registered.
func (r *guideReader) awaitRegistered(t *testing.T) {
	t.Helper()
	for _, n := range r.Nodes() {
		if _, err := n.ReadFile("/etc/kubernetes/kubelet.conf"); err == nil {
			awaitRegistered(t, &testCluster{Cluster: r.Cluster, cp: r.Nodes()[0]}, n)
		}
	}
}

// copyFiles does what lines such as "scp cp1:/etc/a worker1:/etc/b" do.
func (r *guideReader) copyFiles(commands string) error {
	for line := range strings.Lines(commands) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "scp" {
			return fmt.Errorf("cannot copy by %q: use scp HOST:FILE HOST:FILE", line)
		}
		fromHost, from, _ := strings.Cut(words[1], ":")
		toHost, to, _ := strings.Cut(words[2], ":")
		if r.Node(fromHost) == nil || r.Node(toHost) == nil {
			return fmt.Errorf("cannot copy by %q: no such node", line)
		}
		data, err := r.Node(fromHost).ReadFile(from)
		if err != nil {
			return err
		}
		if err := r.Node(toHost).WriteFile(to, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
