//go:build e2e

package scale

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// upgradeTarget is the version that the cluster is upgraded to.
const upgradeTarget = "v1.37.1"

// ignored lets a command run on a sandboxed node.
const ignored = "--ignore-preflight-errors=" + nodes.IgnoredPreflight

// TestScaleOnNodes measures the commands that need a container runtime, a kubelet or members of etcd, on nodes
// that have them, in a cluster whose other Nodes have no machines.
func TestScaleOnNodes(t *testing.T) {
	bundle, older := os.Getenv("KUBEADM_BUNDLE"), os.Getenv("KUBEADM_BUNDLE_OLDER")
	if bundle == "" || older == "" || os.Getenv("KUBEADM") == "" {
		t.Skip("KUBEADM_BUNDLE, KUBEADM_BUNDLE_OLDER and KUBEADM name no bundles and program: make bench-scale sets them")
	}
	if part := os.Getenv("KUBEADM_SCALE_COMMAND"); part != "" {
		t.Skip("the commands on nodes are measured together, not only those with " + part)
	}
	version, err := nodes.ReleaseOf(older)
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{"ours": os.Getenv("KUBEADM"), "upstream": filepath.Join(bundle, "bin", "kubeadm-upstream")}
	if peer := os.Getenv("KUBEADM_SCALE_BEFORE"); peer != "" {
		programs["before"] = peer
	}
	for _, size := range readSizes(t) {
		for _, name := range slices.Sorted(maps.Keys(programs)) {
			t.Run(fmt.Sprintf("%d nodes, %s", size, name), func(t *testing.T) {
				cluster, err := nodes.NewCluster(t.Context(), nodes.Options{Bundle: bundle, Older: []string{older},
					Kubeadm: programs[name], Keep: nodes.KeepFailed(t), Log: t.Logf})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := cluster.Close(); err != nil {
						t.Error(err)
					}
				})
				b := &nodeBench{cluster: cluster, older: version, program: name, size: size,
					objects: simulated{nodes: size}, read: map[string]int{}}
				defer func() { saveResults(t, b.results) }() // those before a failure, too
				b.run(t)
			})
		}
	}
}

// run measures all commands, of upstream's program those that it has too. Their order keeps the cluster usable.
func (b *nodeBench) run(t *testing.T) {
	t.Helper()
	b.create(t)
	b.fill(t)
	b.measureJoin(t)
	if b.program != "upstream" {
		b.measureWorker(t)
	}
	b.measureUpgrade(t)
	if b.program == "upstream" {
		return
	}
	b.measureControlPlane(t)
	b.measureRotation(t)
	b.measureRestore(t)
}

// create creates a cluster of the older release with one control plane and one worker. Two more machines are running.
func (b *nodeBench) create(t *testing.T) {
	t.Helper()
	added, err := b.cluster.AddAll(t.Context(), "cp1", "cp2", "worker1", "worker2")
	if err != nil {
		t.Fatal(err)
	}
	b.cp, b.cp2, b.worker, b.worker2 = added[0], added[1], added[2], added[3]
	for _, n := range added {
		if err := n.UseRelease(t.Context(), b.older); err != nil {
			t.Fatal(err)
		}
		b.prepareNode(t, n)
	}
	if b.balancer, err = b.cluster.StartBalancer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.balancer.SetBackends(b.cp); err != nil {
		t.Fatal(err)
	}
	config := nodes.InitConfig(nodes.Config{Address: b.cp.Address(), Endpoint: b.balancer.Endpoint(), Version: b.older,
		Cluster: nodeClusterConfig})
	if err := b.cp.WriteFile("/root/kubeadm.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	said := b.on(t, b.cp, "kubeadm", "init", "--config=/root/kubeadm.yaml", "--upload-certs")
	if b.workerJoin, b.cp2Join, err = nodes.JoinCommands(said); err != nil {
		t.Fatal(err)
	}
	b.on(t, b.worker, append(b.workerJoin, ignored)...)
	b.awaitReady(t, b.cp)
	b.awaitReady(t, b.worker)
	if err := b.cp.AwaitDNS(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// measureJoin lets a worker join.
func (b *nodeBench) measureJoin(t *testing.T) {
	t.Helper()
	b.measure(t, b.worker2, "join", append(b.workerJoin, ignored)...)
	b.awaitReady(t, b.worker2)
}

// measureWorker lets that worker change its address and leave.
func (b *nodeBench) measureWorker(t *testing.T) {
	t.Helper()
	second, err := b.worker2.AddAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.measure(t, b.worker2, "address change", "kubeadm", "address", "change", second, "--yes", ignored)
	admin, err := b.cp.ReadFile("/etc/kubernetes/admin.conf")
	if err == nil {
		err = b.worker2.WriteFile("/root/admin.conf", admin, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.measure(t, b.worker2, "reset --leave-cluster (worker)", "kubeadm", "reset", "--force", "--leave-cluster",
		"--kubeconfig=/root/admin.conf")
}

// measureUpgrade lets a second control plane join, and upgrades the cluster.
func (b *nodeBench) measureUpgrade(t *testing.T) {
	t.Helper()
	b.measure(t, b.cp2, "join --control-plane", append(b.cp2Join, ignored)...)
	b.awaitReady(t, b.cp2)
	if err := b.balancer.SetBackends(b.cp, b.cp2); err != nil {
		t.Fatal(err)
	}
	b.balancer.CheckReadiness()
	b.measure(t, b.cp, "upgrade apply "+upgradeTarget, "kubeadm", "upgrade", "apply", upgradeTarget, "--yes", ignored)
	b.measure(t, b.cp2, "upgrade node (control plane)", "kubeadm", "upgrade", "node", ignored)
	b.measure(t, b.worker, "upgrade node (worker)", "kubeadm", "upgrade", "node", ignored)
}

// measureControlPlane changes the cluster, and lets the second control plane leave.
func (b *nodeBench) measureControlPlane(t *testing.T) {
	t.Helper()
	b.measure(t, b.cp, "etcd members", "kubeadm", "etcd", "members")
	b.measure(t, b.cp, "etcd defrag", "kubeadm", "etcd", "defrag")
	b.measure(t, b.cp, "reconfigure apply --add-cert-san", "kubeadm", "reconfigure", "apply", "--add-cert-san=new.example.com",
		"--yes", ignored)
	b.measure(t, b.cp, "reconfigure undo", "kubeadm", "reconfigure", "undo", "--yes", ignored)
	b.measure(t, b.cp, "certs renew all --restart", "kubeadm", "certs", "renew", "all", "--restart")
	b.measure(t, b.cp, "certs approve-kubelet-serving", "kubeadm", "certs", "approve-kubelet-serving")
	b.measure(t, b.cp2, "reset --leave-cluster (control plane)", "kubeadm", "reset", "--force", "--leave-cluster")
	if err := b.balancer.SetBackends(b.cp); err != nil {
		t.Fatal(err)
	}
}

// measureRotation begins a rotation of the CAs and undoes it, then completes one.
func (b *nodeBench) measureRotation(t *testing.T) {
	t.Helper()
	stage := func(name string) []string { return []string{"kubeadm", "certs", "rotate-ca", name} }
	measure := func(name string) {
		b.measure(t, b.cp, strings.Join(stage(name)[1:], " "), stage(name)...)
		b.on(t, b.worker, stage(name)...)
		b.followRotation(t)
	}
	b.measure(t, b.cp, "certs rotate-ca trust", stage("trust")...)
	measure("undo")
	b.on(t, b.cp, stage("undo")...) // completes it, as all nodes have followed

	b.on(t, b.cp, stage("trust")...)
	b.on(t, b.worker, stage("trust")...)
	b.followRotation(t)
	measure("sign")
	time.Sleep(2 * time.Second) // start times have whole seconds
	for _, addon := range []string{"daemonset/kube-proxy", "deployment/coredns"} {
		b.kubectl(t, "--namespace=kube-system", "rollout", "restart", addon)
		b.kubectl(t, "--namespace=kube-system", "rollout", "status", "--timeout=180s", addon)
	}
	measure("finish")
	b.on(t, b.cp, stage("finish")...)
}

// measureRestore saves a snapshot and restores it.
func (b *nodeBench) measureRestore(t *testing.T) {
	t.Helper()
	const file = "/root/etcd.db"
	b.measure(t, b.cp, "etcd snapshot save", "kubeadm", "etcd", "snapshot", "save", file)
	b.measure(t, b.cp, "etcd restore", "kubeadm", "etcd", "restore", file, "--yes")
}
