//go:build e2e

package e2e

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/conformance"
	"kubeadm/test/nodes"
)

// TestConformance runs Kubernetes' conformance suite on a cluster of one control plane and two workers that init and join
// made, or upstream's kubeadm, if CONFORMANCE_OF is "upstream". CONFORMANCE_PARTS names the parts to run.
func TestConformance(t *testing.T) {
	parts := strings.Fields(os.Getenv("CONFORMANCE_PARTS"))
	if len(parts) == 0 {
		t.Skip("takes an hour: make conformance")
	}
	selections := map[string]conformance.Selection{"parallel": conformance.Parallel(), "serial": conformance.Serial(),
		"quick": conformance.Quick()}
	program := kubeadm
	if os.Getenv("CONFORMANCE_OF") == "upstream" {
		program = upstreamKubeadm
	}
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createNodes(t.Context(), 1, 2))
	s.create(t, program, nodes.Config{})
	tests := installConformance(t, s)
	for _, part := range parts {
		which, ok := selections[part]
		if !ok {
			t.Fatalf("CONFORMANCE_PARTS: there is no part %q", part)
		}
		checkConformance(t, tests, which)
	}
}

// TestConformanceAfterOperations runs a quick part of the suite on a cluster that has been upgraded, whose CAs have been
// replaced, that has been reconfigured and restored, and whose nodes have got other addresses, after each of these.
func TestConformanceAfterOperations(t *testing.T) {
	inFullRun(t, "half an hour")
	s := &haCluster{testCluster: testCluster{Cluster: newOlderCluster(t)}}
	must(t, s.createNodes(t.Context(), 1, 2))
	r := &rotatedCluster{haCluster: s}
	useOlder(t, r.everyone()...)
	s.create(t, kubeadm, nodes.Config{Version: olderVersion(t)})
	var tests *conformance.Suite
	for _, operation := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"upgrade", r.upgrade}, {"rotate-ca", r.replaceCAs}, {"reconfigure", r.reconfigure}, {"etcd restore", r.restore},
		{"address change", r.changeAddresses},
	} {
		if !t.Run(operation.name, operation.run) {
			return
		}
		must(t, awaitClusterReady(t.Context(), s.cp, 3))
		if tests == nil { // the suite is of the release after the upgrade
			tests = installConformance(t, s)
		}
		t.Run("tests after "+operation.name, func(t *testing.T) { checkConformance(t, tests, conformance.Quick()) })
	}
}

// upgrade upgrades all nodes with their kubelets.
func (r *rotatedCluster) upgrade(t *testing.T) {
	t.Helper()
	runCommand(t, r.cp, upgradeCommand(upgradeTarget)...)
	for _, n := range r.workers {
		runCommand(t, n, upgradeNodeCommand()...)
	}
	for _, n := range r.everyone() {
		for _, name := range []string{"kubelet", "kubectl"} {
			must(t, n.Copy(suite.bundle+"/bin/"+name, "/usr/bin/"+name, 0o755))
		}
		runCommand(t, n, "systemctl", "restart", "kubelet")
	}
}

// replaceCAs replaces all CAs and the key of service accounts.
func (r *rotatedCluster) replaceCAs(t *testing.T) {
	t.Helper()
	for _, stage := range []string{"trust", "sign", "finish"} {
		r.run(t, stage, r.everyone()...)
		time.Sleep(2 * time.Second) // start times have whole seconds
		r.restartAddons(t)
	}
	r.run(t, "finish", r.cp)
}

// reconfigure changes an argument and the certificate of the API server.
func (r *rotatedCluster) reconfigure(t *testing.T) {
	t.Helper()
	runReconfigure(t, r.cp, "apply", "--set-arg=kube-apiserver:audit-log-maxage=7", "--add-cert-san=conformance.example.com")
	for _, n := range r.workers {
		runReconfigure(t, n, "node")
	}
}

// restore restores etcd from a snapshot.
func (r *rotatedCluster) restore(t *testing.T) {
	t.Helper()
	runCommand(t, r.cp, kubeadm, "etcd", "snapshot", "save", snapshotFile)
	runCommand(t, r.cp, kubeadm, "etcd", "restore", snapshotFile, "--yes", "-v=1")
}

// changeAddresses gives every node another address in place of its own, the control plane node last.
func (r *rotatedCluster) changeAddresses(t *testing.T) {
	t.Helper()
	for _, n := range slices.Backward(r.everyone()) {
		first := n.Address()
		second, err := n.AddAddress(t.Context())
		must(t, err)
		runAddress(t, n, "change", second)
		must(t, n.MoveTo(t.Context(), second))
		runCommand(t, n, "ss", "--kill", "--tcp", "src", first) // or clients use them until they notice
	}
	must(t, r.balancer.SetBackends(r.controlPlanes...))
	must(t, awaitClusterReady(t.Context(), r.cp, len(r.everyone())))
	r.restartAddons(t)
	runAddress(t, r.cp, "finish")
}

// create makes a Kubernetes cluster of the nodes with one program.
func (s *haCluster) create(t *testing.T, program string, config nodes.Config) {
	t.Helper()
	s.initProgram = program
	must(t, s.initFirst(t.Context(), config))
	s.workerJoin[0] = program
	must(t, s.joinNodes(t.Context(), s.workers...))
	must(t, awaitClusterReady(t.Context(), s.cp, 1+len(s.workers)))
}

// installConformance builds the suite, copies it to the nodes of a cluster, and serves its images.
func installConformance(t *testing.T, s *haCluster) *conformance.Suite {
	t.Helper()
	dir := strings.TrimSpace(runOnHost(t, "go", "-C", "../../components", "run", "./build-extra", "conformance"))
	tests, err := conformance.Install(t.Context(), dir, s.cp, s.workers...)
	must(t, err)
	serveConformanceImages(t, s.workers)
	return tests
}

// serveConformanceImages serves the suite's images to the workers in place of registry.k8s.io: the pull policy of some
// Pods is Always.
func serveConformanceImages(t *testing.T, workers []*nodes.Node) {
	t.Helper()
	const trusted = "/etc/containerd/certs.d/"
	newTestRegistry(t, workers[0])
	ca := readFile(t, workers[0], trusted+registryHost+"/ca.crt")
	for _, n := range workers {
		writeFile(t, n, trusted+"registry.k8s.io/ca.crt", ca)
		writeFile(t, n, trusted+"registry.k8s.io/hosts.toml", "server = 'https://"+registryHost+"'\n[host.'https://"+registryHost+
			"']\nca = '"+trusted+"registry.k8s.io/ca.crt'\n")
		runShell(t, n, "cat >>/etc/containerd/config.toml <<END\n[plugins.'io.containerd.cri.v1.images'.registry]\n"+
			"config_path = '"+trusted+"'\nEND\nsystemctl restart containerd")
	}
	runShell(t, workers[0], "for i in $(ctr --namespace=k8s.io images ls --quiet | grep ^registry.k8s.io/e2e-test-images/); do "+
		"ctr --namespace=k8s.io images push --hosts-dir="+trusted+" $i >/dev/null || exit 1; done")
}

// checkConformance runs tests of the suite, and checks that all pass but the exceptions. The output of the suite is appended
// to the file CONFORMANCE_LOG, if that is set.
func checkConformance(t *testing.T, tests *conformance.Suite, which conformance.Selection) {
	t.Helper()
	exceptions, err := conformance.Exceptions()
	must(t, err)
	var log strings.Builder
	said := io.Writer(&log)
	if name := os.Getenv("CONFORMANCE_LOG"); name != "" {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		must(t, err)
		defer f.Close()
		said = io.MultiWriter(f, &log)
	}
	begun := time.Now()
	report, err := tests.Run(t.Context(), which, said)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	t.Logf("%s: %s in %s\n%s", which.Labels, report, time.Since(begun).Round(time.Second),
		strings.Join(lines[max(0, len(lines)-8):], "\n"))
	must(t, err)
	for name, why := range report.Failed {
		t.Logf("%s: %s", name, why)
	}
	for _, name := range report.Retried {
		t.Logf("passed when run again: %s", name)
	}
	if failed := report.Unexpected(exceptions); len(failed) > 0 {
		t.Errorf("these tests of the suite failed:\n%s", strings.Join(failed, "\n"))
	}
	if len(report.Passed) < len(which.Focus) {
		t.Errorf("only %d tests passed, of %d that are named", len(report.Passed), len(which.Focus))
	}
}
