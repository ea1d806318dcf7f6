//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildDebianPackage makes a package of the program under test and returns its path.
func buildDebianPackage(t *testing.T, revision string) string {
	t.Helper()
	dir := t.TempDir()
	program, err := os.ReadFile(suite.kubeadm)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "kubeadm-linux-amd64"), program, 0o755))
	out, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "packages", "RELEASE="+dir,
		"REVISION="+revision).CombinedOutput()
	if err != nil {
		t.Fatalf("make packages: %v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("make packages made the Debian packages %q:\n%s", found, out)
	}
	return found[0]
}

// TestDebianPackage makes a cluster with what the package installs, upgrades the package and
// removes it. The cluster stays as it is.
func TestDebianPackage(t *testing.T) {
	inFullRun(t, "two minutes")
	parallel(t)
	const first, second = "/root/first.deb", "/root/second.deb"
	packages := map[string]string{first: buildDebianPackage(t, "1"), second: buildDebianPackage(t, "2")}
	o := testOptions(t)
	o.Kubeadm = ""
	s := &testCluster{Cluster: newClusterOf(t, o)}
	must(t, s.addNodes(t.Context()))
	for _, n := range s.Nodes() {
		for name, file := range packages {
			must(t, n.Copy(file, name, 0o644))
		}
		// The node's own drop-in would hide that of the package.
		runShell(t, n, "rm -r /etc/systemd/system/kubelet.service.d; systemctl stop kubelet")
		runCommand(t, n, "dpkg", "--install", first)
		if units := runCommand(t, n, "systemctl", "cat", "kubelet"); !strings.Contains(units,
			"# /lib/systemd/system/kubelet.service.d/10-kubeadm.conf") &&
			!strings.Contains(units, "# /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf") {
			t.Errorf("%s: the kubelet does not use the drop-in of the package:\n%s", n.Name(), units)
		}
	}
	t.Run("manual and completion", func(t *testing.T) {
		if page := runShell(t, s.cp, "zcat /usr/share/man/man8/kubeadm-init.8.gz"); !strings.Contains(page,
			"--pod-network-cidr") {
			t.Errorf("the manual of init is\n%s", page)
		}
		if bound := runCommand(t, s.cp, "bash", "-c",
			". /usr/share/bash-completion/completions/kubeadm && complete -p kubeadm"); !strings.Contains(bound,
			"__start_kubeadm") {
			t.Errorf("completion of bash is %q", bound)
		}
	})
	must(t, s.initAndJoin(t.Context()))
	checkControlPlaneNode(t, s.cp)

	files, kubelets := describeNodes(t, s)
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"dpkg", "--install", second}, ""},
		{[]string{"dpkg", "--remove", "kubeadm"}, `run "kubeadm reset" before you remove it`},
		{[]string{"dpkg", "--purge", "kubeadm"}, ""},
		{[]string{"dpkg", "--install", second}, ""},
	} {
		for _, n := range s.Nodes() {
			result, err := n.Run(t.Context(), step.args...)
			must(t, err)
			if !strings.Contains(result.Stdout+result.Stderr, step.says) {
				t.Errorf("%s: %s does not say %q:\n%s", n.Name(), step.args, step.says, result.Stderr)
			}
		}
		nowFiles, nowKubelets := describeNodes(t, s)
		for i, n := range s.Nodes() {
			if changed := changedFiles(files[i], nowFiles[i]); len(changed) > 0 {
				t.Errorf("%s: %s changed %s", n.Name(), step.args, changed)
			}
			if nowKubelets[i] != kubelets[i] {
				t.Errorf("%s: %s restarted the kubelet", n.Name(), step.args)
			}
		}
		must(t, s.cp.AwaitReady(t.Context(), 2))
	}
	if installed := runCommand(t, s.cp, "dpkg-query", "--show", "kubeadm"); installed != "kubeadm\t1.37.1-2" {
		t.Errorf("installed is %s", installed)
	}
	// What is installed is complete: it runs the kubelet, and again finds nothing to do.
	runCommand(t, s.worker, "systemctl", "restart", "kubelet")
	again := runCommand(t, s.cp, kubeadm, "init", "--config", "/root/kubeadm.yaml", "--upload-certs")
	if !strings.Contains(again, "kubeadm join") {
		t.Errorf("init, run again, prints\n%s", again)
	}
	must(t, s.cp.AwaitReady(t.Context(), 2))
	runCommand(t, s.worker, kubeadm, "reset", "--force")
}

// describeNodes returns the files of all nodes, and the processes of their kubelets.
func describeNodes(t *testing.T, s *testCluster) (files []fileSet, kubelets []string) {
	t.Helper()
	for _, n := range s.Nodes() {
		files = append(files, listFiles(t, n))
		kubelets = append(kubelets, runCommand(t, n, "systemctl", "show", "--property=MainPID", "kubelet"))
	}
	return files, kubelets
}
