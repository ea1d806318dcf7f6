package scale

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/kube"
	"kubeadm/internal/world/worldtest/plane"
)

// clusterVersion is the version of the cluster's components.
const clusterVersion = "v1.37.0"

// command is a command whose cost is measured.
type command struct {
	line string
	// requests is the most that it sends to the API server in a cluster of 10 nodes.
	requests int
	upstream bool // whether upstream's kubeadm has it too
	// exit is its exit code here. doctor finds no kubelet, diff finds differences, and reset stops where it looks for
	// mounts, after its last request.
	exit int
}

// commands lists the commands. Those of a node run on a root directory that has the files of a control plane
// node, or of a machine that is about to join.
func commands() []command {
	return []command{
		{"--rootfs=NODE token list", 1, true, 0},
		{"--rootfs=NODE token create --dry-run", 3, true, 0},
		{"--rootfs=NODE upgrade plan v1.37.1 --ignore-preflight-errors=all", 11, false, 0},
		{"--rootfs=NODE upgrade node --dry-run --ignore-preflight-errors=all", 47, false, 0},
		{"--rootfs=MACHINE join --dry-run --discovery-file=/discovery.conf --node-name=new --ignore-preflight-errors=all", 7, false, 0},
		{"--rootfs=NODE doctor", 36, false, 2},
		{"--rootfs=NODE certs rotate-ca status", 4, false, 0},
		{"--rootfs=NODE doctor --bundle=/bundle.tar.gz", 50, false, 2},
		{"--rootfs=NODE certs approve-kubelet-serving --dry-run", 14, false, 0},
		{"--rootfs=NODE reconfigure status", 1, false, 0},
		{"--rootfs=NODE reconfigure plan --add-cert-san=new.example.com", 4, false, 0},
		{"--rootfs=NODE reconfigure apply --add-cert-san=new.example.com --yes --dry-run --ignore-preflight-errors=all", 53, false, 0},
		{"--rootfs=NODE endpoint status", 2, false, 0},
		{"--rootfs=NODE address status", 2, false, 0},
		{"--rootfs=NODE upgrade apply v1.37.1 --yes --dry-run --ignore-preflight-errors=all", 58, false, 0},
		{"--rootfs=NODE upgrade diff v1.37.1", 15, false, 1},
		{"--rootfs=NODE certs check-expiration", 1, false, 0},
		{"--rootfs=NODE certs renew all", 2, false, 0},
		{"--rootfs=NODE reset --leave-cluster --force --dry-run", 11, false, 1},
	}
}

// bench has what the commands run on.
type bench struct {
	*meter
	node, machine string // root directories
	programs      map[string]string
}

// result is what one command of one program has cost in a cluster of some size.
type result struct {
	Program string `json:"program"`
	Command string `json:"command"`
	Nodes   int    `json:"nodes"`
	cost
}

// TestScale fails if a command sends more requests than it may. KUBEADM_SCALE names other numbers of nodes
// than 10, separated by commas, KUBEADM_SCALE_BEFORE another kubeadm to compare with, KUBEADM_SCALE_JSON
// a file to which the results are added, and KUBEADM_SCALE_COMMAND a part of the commands to run.
func TestScale(t *testing.T) {
	b, sizes := newBench(t), readSizes(t)
	var results []result
	f, admin := b.start(t)
	present := 3 // control plane nodes
	f.addPendingRequests(t, 3, 4)
	for _, size := range sizes {
		f.addNodes(t, present, size)
		present = size
		waitForCaches(t, admin)
		for _, c := range commands() {
			if !strings.Contains(c.line, os.Getenv("KUBEADM_SCALE_COMMAND")) {
				continue
			}
			results = append(results, b.measure(t, c, size)...)
		}
	}
	saveResults(t, results)
}

// A cluster has 3 nodes of its own, and 2 without machines that have requested a certificate. All have a Pod CIDR.
const minSize, maxSize = 5, 8000

// readSizes returns the numbers of nodes to measure with.
func readSizes(t *testing.T) (sizes []int) {
	t.Helper()
	list := os.Getenv("KUBEADM_SCALE")
	if list == "" {
		return []int{10}
	}
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < minSize || n > maxSize {
			t.Fatalf("KUBEADM_SCALE: %q is not a number of nodes from %d to %d", text, minSize, maxSize)
		}
		if len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			t.Fatalf("KUBEADM_SCALE: %d follows %d, but nodes are only added", n, sizes[len(sizes)-1])
		}
		sizes = append(sizes, n)
	}
	return sizes
}

// saveResults adds results to the file that KUBEADM_SCALE_JSON names.
func saveResults(t *testing.T, results []result) {
	t.Helper()
	file := os.Getenv("KUBEADM_SCALE_JSON")
	if file == "" {
		return
	}
	saved := struct {
		PodsPerNode int      `json:"podsPerNode"`
		Results     []result `json:"results"`
	}{PodsPerNode: podsPerNode}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &saved)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	saved.Results = append(saved.Results, results...)
	if data, err = json.MarshalIndent(saved, "", " "); err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waitForCaches waits until the API server has all objects that were written into etcd in its caches: the first list would
// wait for that. Then it lists all Nodes, as the controllers of a cluster have done.
func waitForCaches(t *testing.T, admin state.Identity) {
	t.Helper()
	c := kube.New(os.ReadFile)
	for _, kind := range []schema.GroupVersionKind{state.NodeKind, corev1.SchemeGroupVersion.WithKind("Pod"),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"), certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")} {
		for took, tries := time.Minute, 0; took > time.Second/2 && tries < 100; tries++ {
			begun := time.Now()
			if _, err := c.List(t.Context(), state.Query{GVK: kind, As: admin, Limit: 1}); err != nil {
				t.Fatal(err)
			}
			took = time.Since(begun)
		}
	}
	if _, err := c.List(t.Context(), state.Query{GVK: state.NodeKind, As: admin}); err != nil {
		t.Fatal(err)
	}
}

// measure runs a command with each program.
func (b *bench) measure(t *testing.T, c command, size int) (results []result) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(b.programs)) {
		if name == "upstream" && !c.upstream {
			continue
		}
		line := strings.NewReplacer("NODE", b.node, "MACHINE", b.machine).Replace(c.line)
		spent, said := b.run(t, b.programs[name], strings.Fields(line)...)
		_, shown, _ := strings.Cut(c.line, " ")
		t.Logf("%5d nodes, %8s %-60s %3d requests %9d bytes %4d MB %6.2f s (CPU %.2f s) exit %d %v", size, name, shown,
			spent.Requests, spent.Bytes, spent.Memory>>20, spent.Seconds, spent.CPU, spent.Exit, spent.ByKind)
		if os.Getenv("KUBEADM_SCALE_OUTPUT") != "" {
			t.Log(said)
		}
		if name == "ours" && spent.Exit != c.exit {
			t.Errorf("the exit code of %s is %d, want %d\n%s", shown, spent.Exit, c.exit, said)
		}
		if name != "ours" && spent.Exit != 0 && spent.Requests == 0 {
			continue // it has no such command
		}
		if name == "ours" && size == 10 && spent.Requests > c.requests {
			t.Errorf("%s sent %d requests, at most %d are allowed: %v\n%s", shown, spent.Requests, c.requests,
				spent.ByKind, said)
		}
		results = append(results, result{name, shown, size, spent})
	}
	return results
}

func newBench(t *testing.T) *bench {
	t.Helper()
	bundle := plane.BundleDir(t)
	if os.Getuid() != 0 {
		t.Skip("only root can change the root directory of a process")
	}
	b := &bench{node: t.TempDir(), machine: t.TempDir(), programs: map[string]string{
		"ours": os.Getenv("KUBEADM"), "upstream": filepath.Join(bundle, "bin", "kubeadm-upstream")}}
	if peer := os.Getenv("KUBEADM_SCALE_BEFORE"); peer != "" {
		b.programs["before"] = peer
	}
	if b.programs["ours"] == "" {
		b.programs["ours"] = filepath.Join(t.TempDir(), "kubeadm")
		build := exec.Command("go", "build", "-o", b.programs["ours"], "kubeadm/cmd/kubeadm")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	return b
}

// start starts the control plane of a cluster with three control plane nodes, and returns what adds workers.
func (b *bench) start(t *testing.T) (f *filler, admin state.Identity) {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	writeFile(t, policy, auditPolicy)
	a := plane.StartAPIServer(t, "--audit-policy-file="+policy, "--audit-log-path="+log)
	opened, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	b.meter = startMeter(t, a.Server, opened)
	w := fake.New()
	if err := w.AddCluster(fake.ExistingCluster{Version: clusterVersion, Kubelet: clusterVersion,
		EtcdTag: "3.6.8-0", CoreDNSTag: "v1.14.2", ControlPlanes: []string{"cp1", "cp2", "cp3"}}); err != nil {
		t.Fatal(err)
	}
	a.Apply(t, w.AllObjects()...)
	data, err := os.ReadFile(a.Admin.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := strings.ReplaceAll(string(data), a.Server, "https://"+b.address)
	for name, file := range w.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/manifests/") || strings.HasPrefix(name, "/var/lib/kubelet/") {
			// the API server of this node is the one that is there
			writeFile(t, b.node+name, strings.ReplaceAll(string(file.Data), "192.0.2.10:6443", b.address))
		}
	}
	writeFile(t, b.node+"/etc/kubernetes/admin.conf", kubeconfig)
	kubelet, err := os.ReadFile(a.Identity(t, "system:node:cp1", "system:nodes").Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, b.node+"/etc/kubernetes/kubelet.conf", strings.ReplaceAll(string(kubelet), a.Server, "https://"+b.address))
	b.copyCertificates(t, filepath.Dir(filepath.Dir(a.Etcd.Via.CAFile)))
	writeFile(t, b.machine+"/discovery.conf", kubeconfig)
	writeFile(t, b.node+"/config.yaml", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"+
		"kubernetesVersion: "+clusterVersion+"\n")
	tls, err := transport.TLSInfo{CertFile: a.Etcd.Via.CertFile, KeyFile: a.Etcd.Via.KeyFile,
		TrustedCAFile: a.Etcd.Via.CAFile}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client := connectEtcd(t, clientv3.Config{Endpoints: a.Etcd.Via.Endpoints, TLS: tls})
	return newFiller(t, client, clusterVersion), a.Admin
}

// copyCertificates gives the control plane node the certificates of the control plane, and a service account key.
func (b *bench) copyCertificates(t *testing.T, from string) {
	t.Helper()
	for _, pattern := range []string{"*.crt", "*.key", "etcd/*.crt", "etcd/*.key"} {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, b.node+"/etc/kubernetes/pki/"+strings.TrimPrefix(file, from+"/"), string(data))
		}
	}
	command := exec.Command(b.programs["ours"], "--rootfs="+b.node, "init", "phase", "certs", "sa")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
