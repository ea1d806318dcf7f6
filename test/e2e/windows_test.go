//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/test/nodes"
)

// windowsMachine is Wine in the network of a node, whose containerd it uses. Its disk is a directory.
type windowsMachine struct {
	node    *nodes.Node
	prefix  string // of Wine
	program string // kubeadm, as a path of Windows
}

// runtimeEndpoint is the TCP port of containerd: Wine hangs on named pipes.
const runtimeEndpoint = "tcp://127.0.0.1:2375"

// newWindowsMachine installs kubeadm and the service of a simulated kubelet.
func newWindowsMachine(t *testing.T, s *testCluster, name, kubeadm string) *windowsMachine {
	t.Helper()
	m := &windowsMachine{node: addNode(t, s.Cluster, name), prefix: t.TempDir(), program: `C:\k\kubeadm.exe`}
	t.Cleanup(func() { removeNode(t, s, m.node) })
	relay, err := m.node.Start(t.Context(), "socat", "TCP-LISTEN:2375,bind=127.0.0.1,fork,reuseaddr",
		"UNIX-CONNECT:/run/containerd/containerd.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Kill() })
	t.Cleanup(func() { // the services of this prefix, and Wine's own
		_ = m.command(context.Background(), "wineserver", "--kill").Run()
	})
	m.mustRun(t, "cmd.exe", "/c", "ver") // creates the prefix
	// Drive Z is the disk of this machine, and upstream's kubeadm writes to the current drive.
	for _, drive := range []string{"z:", "z::"} {
		if err := os.Remove(filepath.Join(m.prefix, "dosdevices", drive)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{kubeadm: "kubeadm.exe",
		filepath.Join(windowsPrograms(t), "kubelet.exe"): "kubelet.exe"} {
		runOnHost(t, "install", "-D", from, m.file("k/"+to))
	}
	m.mustRun(t, "sc.exe", "create", "kubelet", "binPath=", `C:\k\kubelet.exe --windows-service`, "start=", "auto")
	return m
}

// windowsPrograms builds what the tests run beside our program.
func windowsPrograms(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(runOnHost(t, "go", "-C", "../../components", "run", "./build-windows"))
}

func buildWindowsKubeadm(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubeadm.exe")
	runOnHost(t, "env", "GOOS=windows", "CGO_ENABLED=0", "go", "build", "-o", program, "../../cmd/kubeadm")
	return program
}

func runOnHost(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, failed.String())
	}
	return string(out)
}

// file is the path on this machine of a file of drive C.
func (m *windowsMachine) file(name string) string { return filepath.Join(m.prefix, "drive_c", name) }

// command prepares a program in the network of the node, with the node's host name.
func (m *windowsMachine) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	pid, _ := m.node.PID() // nsenter reports that there is none
	runner := []string{program}
	if program != "wineserver" {
		script, _ := filepath.Abs("../windows/wine") // fails only without a working directory
		runner = []string{script, program}
	}
	cmd := exec.CommandContext(ctx, "nsenter",
		slices.Concat([]string{"--target", strconv.Itoa(pid), "--net", "--uts", "--"}, runner, args)...)
	cmd.Env = append(os.Environ(), "WINEPREFIX="+m.prefix, `WINEPATH=C:\k`)
	if cmd.Dir = m.file(""); !isDir(cmd.Dir) {
		cmd.Dir = m.prefix
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// mustRun runs a program that must succeed, and returns what it prints.
func (m *windowsMachine) mustRun(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := m.command(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		kubelet, _ := os.ReadFile(m.file("var/log/kubelet/kubelet.log"))
		t.Fatalf("%s %q: %v:\n%s\nthe kubelet's log:\n%s", program, args, err, out, kubelet)
	}
	return string(out)
}

// list returns the files of kubeadm and the kubelet, with their modes.
func (m *windowsMachine) list(t *testing.T) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	for _, top := range []string{"etc", "var"} {
		err := filepath.WalkDir(m.file(top), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return ignoreAbsent(err)
			}
			info, err := d.Info()
			if err == nil {
				rel, _ := filepath.Rel(m.file(""), name)
				found[rel] = info.Mode().Perm()
			}
			return ignoreAbsent(err)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func ignoreAbsent(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// workerFiles are what a join leaves, but for the journal and the log of the run.
func workerFiles() []string {
	return []string{"etc/kubernetes/kubelet.conf", "etc/kubernetes/pki/ca.crt", "var/lib/kubelet/config.yaml",
		"var/lib/kubelet/instance-config.yaml", "var/lib/kubelet/kubeadm-flags.env",
		"var/lib/kubelet/pki/kubelet-client-current.pem", "var/log/kubelet/kubelet.log"}
}

// filesOf are the names that do not belong to our runs alone.
func (m *windowsMachine) filesOf(t *testing.T) []string {
	t.Helper()
	var names []string
	for name := range m.list(t) {
		if !strings.HasPrefix(name, "etc/kubernetes/tmp/") && !strings.HasPrefix(name, "var/log/kubeadm/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func windowsJoin(s *testCluster) []string {
	return append(slices.Clone(s.workerJoin[1:]), "--cri-socket", runtimeEndpoint)
}

// TestWindowsWorker runs kubeadm.exe under Wine against a real control plane.
func TestWindowsWorker(t *testing.T) {
	inFullRun(t, "three minutes, and builds programs for Windows")
	s := sharedCluster(t)
	m := newWindowsMachine(t, s, "win1", buildWindowsKubeadm(t))

	kills := m.joinKilledAtEveryChange(t, windowsJoin(s))
	if kills < 4 {
		t.Errorf("the join was killed at %d changes only", kills)
	}
	if got := m.filesOf(t); !slices.Equal(got, workerFiles()) {
		t.Errorf("it left the files%s\nwant%s", indentLines(got), indentLines(workerFiles()))
	}
	for name, mode := range m.list(t) {
		isPublic := name == "etc/kubernetes/pki/ca.crt" || strings.HasPrefix(name, "var/lib/kubelet/k") ||
			strings.HasSuffix(name, "config.yaml")
		byKubelet := strings.Contains(name, "kubelet.") || strings.Contains(name, "kubelet-client")
		if !byKubelet && isPublic != (mode&0o004 != 0) || !byKubelet && mode&0o002 != 0 {
			t.Errorf("%s has mode %o", name, mode)
		}
	}
	config, err := os.ReadFile(m.file("var/lib/kubelet/config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"staticPodPath: C:/etc/kubernetes/manifests", "clientCAFile: C:/etc/kubernetes/pki/ca.crt",
		`resolvConf: ""`, "containerRuntimeEndpoint: " + runtimeEndpoint} {
		if !strings.Contains(string(config), want) {
			t.Errorf("%q is missing in config.yaml:\n%s", want, config)
		}
	}
	await(t, "the Node", waitLimit, func() error { // the join does not wait for it
		_, err := s.cp.Kubectl(t.Context(), "get", "node", "win1")
		return err
	})
	n := readObject[corev1.Node](t, s.cp, "node", "win1")
	if n.Labels[corev1.LabelOSStable] != "windows" {
		t.Errorf("the Node has the labels %v", n.Labels)
	}

	before := m.list(t)
	again := m.mustRun(t, m.program, windowsJoin(s)...)
	if !strings.Contains(again, "node") || len(m.filesOf(t)) != len(workerFiles()) {
		t.Errorf("join again: %s\n%v, before %v", again, m.list(t), before)
	}
	m.mustRun(t, m.program, "upgrade", "node")
	if after, err := os.ReadFile(m.file("var/lib/kubelet/config.yaml")); err != nil || !bytes.Equal(after, config) {
		t.Errorf("upgrade node changed config.yaml: %v\n%s", err, after)
	}
	for _, args := range [][]string{{"init"}, append(windowsJoin(s), "--control-plane")} {
		out, err := m.command(t.Context(), m.program, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "control planes run on Linux") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}

	m.mustRun(t, m.program, "reset", "--force", "--cri-socket", runtimeEndpoint)
	left := slices.DeleteFunc(m.filesOf(t), func(name string) bool { return strings.HasPrefix(name, "var/log/") })
	if len(left) > 0 {
		t.Errorf("reset left%s", indentLines(left))
	}
	if state := m.mustRun(t, "sc.exe", "query", "kubelet"); !strings.Contains(state, "STOPPED") {
		t.Errorf("the kubelet after reset:\n%s", state)
	}
}

// joinKilledAtEveryChange kills each run at its first change, until one has nothing left to change. It
// returns how many were killed.
func (m *windowsMachine) joinKilledAtEveryChange(t *testing.T, join []string) int {
	t.Helper()
	const most = 40
	for kills := range most {
		cmd := m.command(t.Context(), m.program, append(slices.Clone(join), "--events=json")...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var failed bytes.Buffer
		cmd.Stderr = &failed
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		atFirst, killed := atChange(0), false
		var said []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said = append(said, lines.Text())
			if !killed && atFirst(lines.Text()) {
				killed = cmd.Process.Kill() == nil
				t.Logf("killed at: %s", lines.Text())
			}
		}
		err = cmd.Wait()
		if err == nil {
			return kills
		}
		if !killed {
			kubelet, _ := os.ReadFile(m.file("var/log/kubelet/kubelet.log"))
			t.Fatalf("%v\n%s%s\nthe kubelet's log:\n%s", err, indentLines(said), failed.String(), kubelet)
		}
		if info, err := os.Stat(m.file("etc/kubernetes/bootstrap-kubelet.conf")); err == nil && info.Mode().Perm()&0o007 != 0 { // Administrators are its group
			t.Errorf("bootstrap-kubelet.conf has mode %o", info.Mode().Perm())
		}
	}
	t.Fatalf("after %d kills the join has not finished", most)
	return most
}

// TestWindowsWorkerBesideUpstream joins one machine with our program and one with upstream's.
func TestWindowsWorkerBesideUpstream(t *testing.T) {
	inFullRun(t, "two minutes, and builds programs for Windows")
	s := sharedCluster(t)
	ours := newWindowsMachine(t, s, "win2", buildWindowsKubeadm(t))
	theirs := newWindowsMachine(t, s, "win3", filepath.Join(windowsPrograms(t), "kubeadm-upstream.exe"))
	machines := []*windowsMachine{ours, theirs}
	for _, m := range machines {
		m.mustRun(t, m.program, windowsJoin(s)...)
	}
	if a, b := ours.filesOf(t), theirs.filesOf(t); !slices.Equal(a, b) {
		t.Errorf("our worker has the files%s\nbut upstream's%s", indentLines(a), indentLines(b))
	}
	for _, name := range []string{"etc/kubernetes/pki/ca.crt", "var/lib/kubelet/instance-config.yaml",
		"var/lib/kubelet/kubeadm-flags.env", "var/lib/kubelet/config.yaml"} {
		var texts []string
		for _, m := range machines {
			text, err := os.ReadFile(m.file(name))
			if err != nil {
				t.Error(err)
			}
			// Upstream's takes every endpoint for a named pipe, and writes paths without a drive.
			texts = append(texts, strings.NewReplacer(`C:\`, "/", `\`, "/", "C:/", "/", "npipe://tcp:", "tcp:", `"`, "").Replace(string(text)))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s is\n%s\nbut upstream's is\n%s", name, texts[0], texts[1])
		}
	}
	for _, args := range [][]string{{"upgrade", "node", "--ignore-preflight-errors=all"}, {"version", "-o", "short"}, {"token", "generate"},
		{"join"}, {"join", "--no-such-flag"}, {"reset", "--force", "--cri-socket", runtimeEndpoint}} {
		var codes []int
		var said []string
		for _, m := range machines {
			cmd := m.command(t.Context(), m.program, args...)
			out, _ := cmd.CombinedOutput() // the code is compared
			codes, said = append(codes, cmd.ProcessState.ExitCode()), append(said, string(out))
		}
		if codes[0] != codes[1] {
			t.Errorf("%q: exit code %d, but upstream's is %d:\n%s\n%s", args, codes[0], codes[1], said[0], said[1])
		}
	}
	// Upstream's removes trees with a call that Wine does not have, so it leaves more.
	for _, name := range ours.filesOf(t) {
		if !slices.Contains(theirs.filesOf(t), name) {
			t.Errorf("after reset our worker still has %s", name)
		}
	}
}
