//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// The programs on each node: the one under test, and upstream's.
const (
	kubeadm         = "kubeadm"
	upstreamKubeadm = "kubeadm-upstream"
)

// testCluster is a Kubernetes cluster and how it was created.
type testCluster struct {
	*nodes.Cluster
	cp, worker *nodes.Node
	initResult nodes.Result // of init -v=1
	joinResult nodes.Result // of the worker's join -v=1
	workerJoin []string     // for workers to join, as init printed it
	uploadedAt time.Time    // when the certificates were last uploaded
}

// newCluster creates a cluster for one test, without nodes.
func newCluster(t *testing.T) *nodes.Cluster {
	t.Helper()
	return newClusterOf(t, testOptions(t))
}

// testOptions are the options of clusters that are removed with their test.
func testOptions(t *testing.T) nodes.Options {
	return nodes.Options{Bundle: suite.bundle, Kubeadm: suite.kubeadm, Log: t.Logf,
		Keep: nodes.KeepFailed(t)}
}

// newClusterOf creates a cluster with other options.
func newClusterOf(t *testing.T, o nodes.Options) *nodes.Cluster {
	t.Helper()
	c, err := nodes.NewCluster(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func addNode(t *testing.T, c *nodes.Cluster, name string) *nodes.Node {
	t.Helper()
	n, err := c.Add(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// addNodes creates the nodes cp1 and worker1.
func (s *testCluster) addNodes(ctx context.Context) error {
	both, err := s.AddAll(ctx, "cp1", "worker1")
	if err == nil {
		s.cp, s.worker = both[0], both[1]
	}
	return err
}

// initAndJoin runs init with its certificates uploaded, joins the worker, and waits until both are
// Ready.
func (s *testCluster) initAndJoin(ctx context.Context) (err error) {
	s.uploadedAt = time.Now()
	s.initResult, err = s.cp.Init(ctx, nodes.InitConfig(nodes.Config{Address: s.cp.Address()}),
		io.Discard, "--upload-certs", "-v=1")
	if err != nil {
		return err
	}
	if s.workerJoin, _, err = nodes.JoinCommands(s.initResult.Stdout); err != nil {
		return err
	}
	if s.joinResult, err = s.worker.Join(ctx, append(slices.Clone(s.workerJoin), "-v=1"),
		io.Discard); err != nil {
		return err
	}
	return awaitClusterReady(ctx, s.cp, 2)
}

// awaitClusterReady sets up the Pod network and waits until that many nodes are Ready and DNS
// works.
func awaitClusterReady(ctx context.Context, cp *nodes.Node, count int) error {
	// join returns before its kubelet registers.
	if err := cp.AwaitNodes(ctx, count); err != nil {
		return err
	}
	if err := cp.Cluster().PodNetwork(ctx, cp); err != nil {
		return err
	}
	if err := cp.AwaitReady(ctx, count); err != nil {
		return err
	}
	return cp.AwaitDNS(ctx)
}

// refreshUploadedCertificates uploads the certificates with the same key again if they are older
// than an hour: they expire after two, and a shared cluster may live longer.
func (s *testCluster) refreshUploadedCertificates(t *testing.T, key string) {
	t.Helper()
	if time.Since(s.uploadedAt) < time.Hour {
		return
	}
	s.uploadedAt = time.Now()
	createToken(t, s.cp, kubeadm, "--print-join-command", "--upload-certs", "--certificate-key", key)
}

var tokenPattern = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// createToken runs "token create" of a program, and deletes the token when the test has ended:
// were it left to expire, it would change the cluster during another test.
func createToken(t *testing.T, cp *nodes.Node, program string, flags ...string) nodes.Result {
	t.Helper()
	result, err := cp.Run(t.Context(), append([]string{program, "token", "create"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	token := tokenPattern.FindString(result.Stdout)
	if token == "" {
		t.Fatalf("it prints no token:\n%s", result.Stdout)
	}
	runAfterTest(t, cp, "kubeadm token delete "+token)
	return result
}

// runCommand runs a command that must succeed and returns its standard output.
func runCommand(t *testing.T, n *nodes.Node, args ...string) string {
	t.Helper()
	result, err := n.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(result.Stdout)
}

func runShell(t *testing.T, n *nodes.Node, script string) string {
	t.Helper()
	return runCommand(t, n, "sh", "-ec", script)
}

// transientError matches errors of kubectl while the API server or etcd is unavailable, or the API server has not
// read the RBAC rules yet, which it may say without a reason.
var transientError = regexp.MustCompile(
	`connection re(fused|set)|was refused|EOF|i/o timeout|handshake timeout|connection lost|etcdserver: |currently unable to handle|deadline exceeded|time allotted|GOAWAY|code = Unavailable|no route to host|` +
		`[Ff]orbidden: User "kubernetes-admin" cannot|\(Forbidden\): unknown`)

// kubectl runs kubectl on a control plane; it must succeed once an API server is available.
func kubectl(t *testing.T, cp *nodes.Node, args ...string) string {
	t.Helper()
	var result nodes.Result
	await(t, "an answer to kubectl "+strings.Join(args, " "), waitLimit, func() (err error) {
		result, err = cp.Kubectl(t.Context(), args...)
		if err != nil && !transientError.MatchString(err.Error()) {
			t.Fatal(err)
		}
		return err
	})
	return strings.TrimSpace(result.Stdout)
}

// readObject reads an object, or a list of objects, with kubectl.
func readObject[T any](t *testing.T, cp *nodes.Node, args ...string) T {
	t.Helper()
	var object T
	text := kubectl(t, cp, append([]string{"get", "--output=json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("reading %s: %v", strings.Join(args, " "), err)
	}
	return object
}

// waitLimit is how long tests wait for other programs: many times what they need on an idle
// machine.
const waitLimit = 3 * time.Minute

// await polls until check returns nil. Whatever a kubelet, a controller or another program does by
// itself must be awaited.
func await(t *testing.T, name string, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s, given up after %s: %v", name, limit, err)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// workerJoinCommand returns a command that joins a machine as a worker and ignores the preflight
// checks that nodes cannot pass. The program is kubeadm or upstreamKubeadm.
func workerJoinCommand(program string, s *testCluster) []string {
	args := slices.Clone(s.workerJoin)
	args[0] = program
	return append(args, "--ignore-preflight-errors="+nodes.IgnoredPreflight)
}

// flagValue returns the value of a flag in a command.
func flagValue(t *testing.T, command []string, flag string) string {
	t.Helper()
	i := slices.Index(command, flag)
	if i < 0 || i+1 == len(command) {
		t.Fatalf("%s is not in %q", flag, command)
	}
	return command[i+1]
}

var certificateKeyPattern = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// certificateKeyIn finds the certificate key that init printed.
func certificateKeyIn(t *testing.T, output string) string {
	t.Helper()
	// CA pins have as many digits, but follow "sha256:".
	keys := certificateKeyPattern.FindAllString(strings.ReplaceAll(output, "sha256:", "pin_"), -1)
	if len(keys) == 0 {
		t.Fatalf("init printed no certificate key:\n%s", output)
	}
	return keys[0]
}

// removeNode powers a machine off and deletes its Node, unless the nodes of a failed test are
// kept.
func removeNode(t *testing.T, s *testCluster, n *nodes.Node) {
	t.Helper()
	if nodes.KeepFailed(t)() {
		return
	}
	// The test's own context may be over.
	ctx := context.WithoutCancel(t.Context())
	if err := n.Kill(ctx); err != nil {
		t.Error(err)
	}
	// Only now: a running kubelet would register again.
	await(t, "deletion of node "+n.Name(), waitLimit, func() error {
		_, err := s.cp.Kubectl(ctx, "delete", "node", "--ignore-not-found",
			strings.ToLower(n.Name()))
		return err
	})
}

// awaitJoined waits until the node is registered and Ready, and sets up the Pod network for it.
func awaitJoined(t *testing.T, s *testCluster, n *nodes.Node) {
	t.Helper()
	awaitRegistered(t, s, n)
	if err := s.PodNetwork(t.Context(), s.cp); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, s, n)
}

// awaitRegistered waits until the Node exists: join returns before its kubelet registers.
func awaitRegistered(t *testing.T, s *testCluster, n *nodes.Node) {
	t.Helper()
	await(t, n.Name()+" to register", waitLimit, func() error {
		_, err := s.cp.Kubectl(t.Context(), "get", "node", strings.ToLower(n.Name()))
		return err
	})
}

// awaitReady waits until a node is Ready.
func awaitReady(t *testing.T, s *testCluster, n *nodes.Node) {
	t.Helper()
	await(t, n.Name()+" to be Ready", waitLimit, func() error {
		const condition = `--output=jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status}: {.message}{end}`
		result, err := s.cp.Kubectl(t.Context(), "get", "node", strings.ToLower(n.Name()),
			condition)
		if err == nil && !strings.HasPrefix(result.Stdout, "True:") {
			err = fmt.Errorf("it says %q", result.Stdout)
		}
		return err
	})
}

// indentLines shows each string on a line of its own, below the text before it.
func indentLines(list []string) string {
	return "\n  " + strings.Join(list, "\n  ")
}
