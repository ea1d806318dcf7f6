//go:build e2e

package scale

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"kubeadm/test/nodes"
)

// commandLimit is how long a command may take.
const commandLimit = 10 * time.Minute

// measuredGroup is the group of the programs whose bytes are counted.
const measuredGroup = "4242"

// byteRules count the bytes of answers of API servers to programs of measuredGroup, on the loopback interface too.
const byteRules = `table inet measured {
	chain output { type filter hook output priority 0; meta skgid ` + measuredGroup + ` tcp dport 6443 ct mark set 42; }
	chain input { type filter hook input priority 0; ct mark 42 ct direction reply counter; }
}`

// auditDir is the directory on a control plane with the API server's audit policy and log.
const auditDir = "/var/audit"

// nodeAuditPolicy leaves out the other components: there are many of them.
const nodeAuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: None
  users: ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager"]
- level: None
  userGroups: ["system:serviceaccounts"]
- level: Metadata
`

// nodeClusterConfig is part of ClusterConfiguration.
const nodeClusterConfig = `apiServer:
  extraArgs:
  - {name: audit-policy-file, value: ` + auditDir + `/policy.yaml}
  - {name: audit-log-path, value: ` + auditDir + `/log}
  extraVolumes:
  - {name: audit, hostPath: ` + auditDir + `, mountPath: ` + auditDir + `, pathType: Directory}
controllerManager:
  extraArgs:
  - {name: node-monitor-grace-period, value: 24h}
  - {name: node-cidr-mask-size, value: "29"}
etcd:
  local:
    extraArgs:
    - {name: quota-backend-bytes, value: "8000000000"}
`

// nodeBench measures commands on nodes with a container runtime, kubelet and etcd.
type nodeBench struct {
	cluster             *nodes.Cluster
	balancer            *nodes.Balancer
	cp, cp2             *nodes.Node
	worker, worker2     *nodes.Node
	older               string // version that the cluster has at first
	program             string // name
	size                int
	objects             simulated
	workerJoin, cp2Join []string
	read                map[string]int // how much of the audit log of each control plane is read
	results             []result
}

// measure runs a command on a node and records its cost under a name. The command must succeed, unless
// the program is an earlier one.
func (b *nodeBench) measure(t *testing.T, n *nodes.Node, name string, args ...string) {
	t.Helper()
	b.readAudit(t, nil)
	before := b.countBytes(t, n)
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	p, err := n.Start(ctx, append([]string{"setpriv", "--regid=" + measuredGroup, "--clear-groups"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	c := cost{ByKind: map[string]int{}}
	exited, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		c.Memory, c.Anonymous = watchProcess(p, exited)
	}()
	r, err := p.Wait()
	close(exited)
	<-watched
	c.Seconds, c.CPU = r.Duration.Seconds(), r.CPU.Seconds()
	if err != nil && b.program == "before" {
		t.Logf("not measured, as an earlier program may lack the command: %v", err)
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Stdout)
	}
	c.Bytes = b.countBytes(t, n) - before
	time.Sleep(time.Second) // until the last event is in the log
	b.readAudit(t, &c)
	t.Logf("%5d nodes, %8s %-50s %3d requests %9d bytes %4d MB (%d MB without mapped files) %6.2f s (CPU %.2f s) %v", b.size, b.program, name,
		c.Requests, c.Bytes, c.Memory>>20, c.Anonymous>>20, c.Seconds, c.CPU, c.ByKind)
	if os.Getenv("KUBEADM_SCALE_OUTPUT") != "" {
		t.Logf("%s%s", r.Stdout, r.Stderr)
	}
	if c.Memory == 0 || (c.Requests == 0) != (c.Bytes == 0) {
		t.Errorf("not all of this was measured, so it is not saved: %s", name)
		return
	}
	b.results = append(b.results, result{b.program, name, b.size, c})
}

// watchProcess returns the largest resident set of a program, and the largest part of it seen that is no mapped file.
func watchProcess(p *nodes.Process, exited <-chan struct{}) (peak, anonymous int64) {
	for {
		if now, err := p.PeakMemory(); err == nil {
			peak = now
		}
		if now, err := p.AnonymousMemory(); err == nil {
			anonymous = max(anonymous, now)
		}
		select {
		case <-exited:
			return peak, anonymous
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// prepareNode lets a node count bytes, and gives a control plane the audit policy.
func (b *nodeBench) prepareNode(t *testing.T, n *nodes.Node) {
	t.Helper()
	for name, data := range map[string]string{"/root/measured.nft": byteRules, auditDir + "/policy.yaml": nodeAuditPolicy} {
		if err := n.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.on(t, n, "nft", "-f", "/root/measured.nft")
}

// countBytes returns how many bytes the programs of measuredGroup have received from API servers.
func (b *nodeBench) countBytes(t *testing.T, n *nodes.Node) int64 {
	t.Helper()
	count, err := readByteCounter(b.on(t, n, "nft", "list", "chain", "inet", "measured", "input"))
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// readAudit adds the requests of kubeadm since the last call to a cost; nil for none.
func (b *nodeBench) readAudit(t *testing.T, c *cost) {
	t.Helper()
	for _, n := range []*nodes.Node{b.cp, b.cp2} {
		log, err := n.ReadFile(auditDir + "/log")
		if errors.Is(err, os.ErrNotExist) {
			continue // not a control plane yet, or no longer
		}
		if err != nil {
			t.Fatal(err)
		}
		from, to := b.read[n.Name()], bytes.LastIndexByte(log, '\n')+1 // a line may be incomplete yet
		if to < from {
			t.Fatalf("the audit log of %s was rotated: requests are lost", n.Name())
		}
		b.read[n.Name()] = to
		if c != nil {
			countRequests(t, bytes.NewReader(log[from:to]), c)
		}
	}
}

// on runs a command on a node whose cost does not matter.
func (b *nodeBench) on(t *testing.T, n *nodes.Node, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	r, err := n.Run(ctx, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Stdout)
	}
	return r.Stdout
}

func (b *nodeBench) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return b.on(t, b.cp, append([]string{"kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"}, args...)...)
}

// awaitReady waits until a node that has joined is Ready.
func (b *nodeBench) awaitReady(t *testing.T, n *nodes.Node) {
	t.Helper()
	b.kubectl(t, "wait", "--for=create", "--timeout=120s", "node/"+n.Name())
	if err := b.cluster.PodNetwork(t.Context(), b.cp); err != nil {
		t.Fatal(err)
	}
	b.kubectl(t, "wait", "--for=condition=Ready", "--timeout=300s", "node/"+n.Name())
}

// newNodeFiller returns what writes into etcd with the certificates that it has now.
func (b *nodeBench) newNodeFiller(t *testing.T) *filler {
	t.Helper()
	const pki = "/etc/kubernetes/pki/etcd/"
	var files [3][]byte
	for i, name := range []string{"server.crt", "server.key", "ca.crt"} {
		data, err := b.cp.ReadFile(pki + name)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = data
	}
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(files[2])
	address := net.JoinHostPort(b.cp.Address(), "2379")
	f := newFiller(t, connectEtcd(t, clientv3.Config{Endpoints: []string{"https://" + address},
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return b.cluster.Dial(ctx, "tcp", address)
		})}}), b.older)
	f.adapt = b.objects.adapt
	return f
}

// firstSimulated is the number of the first simulated Node: at most 3 other nodes exist at a time.
const firstSimulated = 3

// fill adds the simulated Nodes, and what belongs to them.
func (b *nodeBench) fill(t *testing.T) {
	t.Helper()
	begun := time.Now()
	f := b.newNodeFiller(t)
	f.addNodes(t, firstSimulated, b.size)
	f.addPendingRequests(t, firstSimulated, firstSimulated+1)
	last := b.size - 1
	b.awaitCached(t, "/api/v1/nodes/"+nodeName(last), nodeName(last))
	pod := newPod("", last*podsPerNode+podsPerNode-1)
	b.awaitCached(t, "/api/v1/namespaces/default/pods/"+pod.Name, pod.Name)
	b.awaitCached(t, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+nodeName(last), nodeName(last))
	pending := "pending-" + nodeName(firstSimulated+1)
	b.awaitCached(t, "/apis/certificates.k8s.io/v1/certificatesigningrequests/"+pending, pending)
	// kube-controller-manager reads all of it, too.
	time.Sleep(10*time.Second + time.Duration(b.size)*4*time.Millisecond)
	t.Logf("%d nodes: filled in %s", b.size, time.Since(begun).Round(time.Second))
}

// followRotation lets the simulated Nodes report the stage of a rotation that a worker has reached.
func (b *nodeBench) followRotation(t *testing.T) {
	t.Helper()
	b.objects.rotation = b.kubectl(t, "get", "node", b.worker.Name(),
		`--output=jsonpath={.metadata.annotations.kubeadm\.kubernetes\.io/ca-rotation}`)
	if b.objects.rotation == "" {
		t.Fatalf("%s has not reached a stage", b.worker.Name())
	}
	b.newNodeFiller(t).putNodes(t, firstSimulated, b.size)
	b.awaitCached(t, "/api/v1/nodes/"+nodeName(b.size-1), fmt.Sprintf("%q", b.objects.rotation))
}

// awaitCached waits until the API server has an object with some text in its cache.
func (b *nodeBench) awaitCached(t *testing.T, path, text string) {
	t.Helper()
	var last nodes.Result
	for begun := time.Now(); time.Since(begun) < 3*time.Minute; time.Sleep(time.Second) {
		last, _ = b.cp.Kubectl(t.Context(), "get", "--raw", path+"?resourceVersion=0")
		if strings.Contains(last.Stdout, text) {
			return
		}
	}
	t.Fatalf("%s lacks %s: %s%s", path, text, last.Stdout, last.Stderr)
}
