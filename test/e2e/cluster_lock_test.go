//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

const clusterLease = "kubeadm-node-change"

// newTwoControlPlanes is a cluster of two control plane nodes.
func newTwoControlPlanes(t *testing.T) *haCluster {
	t.Helper()
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createFirst(t.Context(), 2, 0, nodes.Config{}))
	must(t, s.joinNodes(t.Context(), s.controlPlanes[1:]...))
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	return s
}

// runUpgradePhase starts the phase of "kubeadm upgrade node" that takes the lock of the cluster, also
// if nothing is to be upgraded. The function that it returns waits for its end.
func runUpgradePhase(t *testing.T, n *nodes.Node) (done chan struct{}, wait func() nodes.Result) {
	t.Helper()
	p, err := n.Start(t.Context(), kubeadm, "upgrade", "node", "phase", "control-plane", "-v=1")
	must(t, err)
	done = make(chan struct{})
	var result nodes.Result
	go func() {
		defer close(done)
		result, err = p.Wait()
	}()
	return done, func() nodes.Result {
		<-done
		if err != nil {
			t.Fatalf("%v\n%s", err, result.Stdout)
		}
		return result
	}
}

// TestLiveClusterLockIsNotStolen has a node wait for another one whose clock is hours off, as long
// as that renews its Lease, and no longer than 90 seconds after the last renewal.
func TestLiveClusterLockIsNotStolen(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	s := newTwoControlPlanes(t)
	renew := func(ahead time.Duration) {
		writeFile(t, s.cp, "/root/lease.yaml", fmt.Sprintf(`apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: %s, namespace: kube-system}
spec: {holderIdentity: cp1, leaseDurationSeconds: 90, acquireTime: "2026-01-01T00:00:00.000000Z", renewTime: %q}
`, clusterLease, time.Now().Add(ahead).UTC().Format("2006-01-02T15:04:05.000000Z")))
		kubectl(t, s.cp, "apply", "--filename=/root/lease.yaml")
	}
	renew(-2 * time.Hour)
	done, wait := runUpgradePhase(t, s.controlPlanes[1])
	var last time.Time
	for i := range 12 {
		ahead := -2 * time.Hour
		if i > 6 {
			ahead = 2 * time.Hour
		}
		last = time.Now()
		renew(ahead)
		select {
		case <-done:
			t.Fatalf("it did not wait for the lock:\n%s", wait().Stdout)
		case <-time.After(9 * time.Second):
		}
		if holder := kubectl(t, s.cp, "-n", "kube-system", "get", "lease", clusterLease,
			"--output=jsonpath={.spec.holderIdentity}"); holder != "cp1" {
			t.Fatalf("%s has stolen the lock", holder)
		}
	}
	result := wait()
	if waited := time.Since(last); waited < 85*time.Second {
		t.Errorf("it took over the lock %s after the last renewal", waited)
	}
	for _, word := range []string{"node cp1 holds the cluster's lock",
		"kubectl -n kube-system delete lease " + clusterLease, "this node takes it over in",
		"taking over the expired Lease"} {
		if !strings.Contains(result.Stdout, word) {
			t.Errorf("it does not say %q:\n%s", word, result.Stdout)
		}
	}
}

// TestSuspendedHolderOfClusterLock stops a run that holds the lock for longer than its Lease lasts.
// When it is continued, another node has taken the lock and released it: the run changes nothing.
func TestSuspendedHolderOfClusterLock(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	s := newTwoControlPlanes(t)
	holds := make(chan struct{})
	cmd := s.cp.Command(kubeadm, "certs", "rotate-ca", "trust", "-v=1")
	var p *nodes.Process
	started := make(chan struct{})
	cmd.Stdout = writerFunc(func(data []byte) (int, error) {
		if bytes.Contains(data, []byte(clusterLease)) {
			<-started
			select {
			case <-holds:
			default:
				if err := p.Signal(unix.SIGSTOP); err != nil {
					t.Error(err)
				}
				close(holds)
			}
		}
		return len(data), nil
	})
	p, err := cmd.Start(t.Context())
	must(t, err)
	close(started)
	select {
	case <-holds:
	case <-time.After(2 * waitLimit):
		t.Fatal("it did not take the lock")
	}
	const digest = "find /etc/kubernetes /var/lib/kubelet/config.yaml -type f " +
		"-not -path '*/tmp/*' | sort | xargs sha256sum"
	frozen := time.Now()
	_, wait := runUpgradePhase(t, s.controlPlanes[1])
	if result := wait(); time.Since(frozen) < 85*time.Second ||
		!strings.Contains(result.Stdout, "taking over the expired Lease") {
		t.Errorf("the other node did not wait: %s\n%s", time.Since(frozen), result.Stdout)
	}
	before := runShell(t, s.cp, digest)
	must(t, p.Signal(unix.SIGCONT))
	result, _ := p.Wait()
	if result.Code != 1 {
		t.Errorf("exit code %d:\n%s", result.Code, result.Stdout)
	}
	checkError(t, result, []string{"this node has lost the cluster's lock",
		"re-run the command"})
	if after := runShell(t, s.cp, digest); after != before {
		t.Errorf("it has changed files:\n%s\n%s", before, after)
	}
	if left := kubectl(t, s.cp, "-n", "kube-system", "get", "configmap,lease",
		"--ignore-not-found", "--output=name"); strings.Contains(left, "kubeadm-ca-rotation") ||
		strings.Contains(left, clusterLease) {
		t.Errorf("it has changed the cluster: %s", left)
	}
}

type writerFunc func(data []byte) (int, error)

func (w writerFunc) Write(data []byte) (int, error) { return w(data) }
