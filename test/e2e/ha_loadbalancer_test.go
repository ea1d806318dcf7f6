//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestJoinThroughFlappingLoadBalancer delays the first connections of a worker and a control plane
// that join, and then cuts connections at random until they have joined.
func TestJoinThroughFlappingLoadBalancer(t *testing.T) {
	inFullRun(t, "two minutes")
	s := sharedHACluster(t)
	const late = time.Minute
	added, err := s.AddAll(t.Context(), "late-plane", "late-worker")
	if err != nil {
		t.Fatal(err)
	}
	plane, worker := added[0], added[1]
	s.balancer.Delay(late)
	flap := time.AfterFunc(late, func() { s.balancer.Flap(true) })
	results, err := joinAtOnce(t.Context(),
		map[*nodes.Node][]string{plane: s.controlPlaneJoin, worker: s.workerJoin})
	early := flap.Stop()
	s.balancer.Flap(false)
	if err != nil {
		t.Fatal(err)
	}
	if early {
		t.Error("both had joined before the load balancer forwarded connections")
	}
	for n, result := range results {
		t.Logf("%s joined in %s", n.Name(), result.Duration.Round(100*time.Millisecond))
	}
	awaitJoined(t, &s.testCluster, worker)
	addControlPlane(t, s, plane)
	resetAndDestroy(t, s, kubeadm, plane)
	destroyNode(t, s, worker)
}

// TestExpiredCertificateKey deletes the Secret that the certificate key decrypts, as the cluster
// itself does after two hours.
func TestExpiredCertificateKey(t *testing.T) {
	s := sharedHACluster(t)
	const remedy = "kubeadm token create --print-join-command --upload-certs"
	n := addNode(t, s.Cluster, "too-late")
	t.Run("another key", func(t *testing.T) {
		wrong := append(withoutFlag(controlPlaneJoinCommand(kubeadm, s), "--certificate-key"),
			"--certificate-key="+strings.Repeat("a", 64))
		result := checkFails(t, n, []string{"key", remedy}, wrong...)
		t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
			strings.Join(lastLines(result.Stderr, 4), "\n"))
	})
	kubectl(t, s.cp, "--namespace=kube-system", "delete", "secret", "kubeadm-certs")
	result := checkFails(t, n, []string{remedy}, controlPlaneJoinCommand(kubeadm, s)...)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 4), "\n"))
	s.controlPlaneJoin = strings.Fields(runCommand(t, s.cp, strings.Fields(remedy)...))
	checkUploadedCertificates(t, s.cp, flagValue(t, s.controlPlaneJoin, "--certificate-key"))
	if left := listFiles(t, n); len(left) > 0 {
		t.Errorf("the failed joins left files:%s", indentLines(left.list()))
	}
	destroyNode(t, s, n)
}
