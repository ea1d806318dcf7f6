//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/report"
)

// windowsCommand is a run of kubeadm. $JOIN in its arguments stands for those that join the cluster.
type windowsCommand struct {
	args string
	code int    // or anyCode
	want string // in what it prints
}

// anyCode is that of the doctor, which finds what Wine and the simulated kubelet lack.
const anyCode = -1

// runAll runs commands one after the other, and returns what each prints to standard output.
func (m *windowsMachine) runAll(t *testing.T, join []string, all []windowsCommand) (outputs []string) {
	t.Helper()
	for _, c := range all {
		var args []string
		for _, arg := range strings.Fields(c.args) {
			if arg == "$JOIN" {
				args = append(args, join...)
			} else {
				args = append(args, arg)
			}
		}
		cmd := m.command(t.Context(), m.program, args...)
		var failed bytes.Buffer
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		said := string(out) + failed.String()
		code := cmd.ProcessState.ExitCode()
		if code != c.code && c.code != anyCode || !strings.Contains(said, c.want) {
			t.Errorf("kubeadm %s: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, said)
		}
		isJSON := strings.Contains(c.args, "-o json")
		if isJSON && !json.Valid(out) {
			t.Errorf("kubeadm %s prints no JSON:\n%s", c.args, out)
		}
		outputs = append(outputs, string(out))
	}
	if t.Failed() {
		t.FailNow() // what follows depends on these
	}
	return outputs
}

// TestWindowsCommands runs every command that a Windows machine has: before it is a node, joined phase
// by phase, joined with a discovery file, and after a reset.
func TestWindowsCommands(t *testing.T) {
	inFullRun(t, "three minutes, and builds programs for Windows")
	s := sharedCluster(t)
	m := newWindowsMachine(t, s, "win4", buildWindowsKubeadm(t))
	join := windowsJoin(s)[1:]
	token := flagValue(t, s.workerJoin, "--token")
	for file, text := range map[string]string{
		"k/admin.conf":   readFile(t, s.cp, "/etc/kubernetes/admin.conf"),
		"k/pki/ca.crt":   readFile(t, s.cp, "/etc/kubernetes/pki/ca.crt"),
		"k/pki/ca.key":   readFile(t, s.cp, "/etc/kubernetes/pki/ca.key"),
		"k/cluster.yaml": windowsClusterFile(s), "k/old.yaml": strings.ReplaceAll(windowsClusterFile(s), "v1beta4", "v1beta3"),
		// as Notepad and PowerShell write it
		"k/join.yaml": "\ufeff" + strings.ReplaceAll(windowsJoinFile(s, token), "\n", "\r\n"),
	} {
		if err := os.MkdirAll(filepath.Dir(m.file(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.file(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := " --cri-socket " + runtimeEndpoint
	m.runAll(t, join, []windowsCommand{
		{"version -o short", 0, "v1."},
		{"version -o json", 0, `"platform": "windows/amd64"`},
		{"completion powershell", 0, "Register-ArgumentCompleter"},
		{"token generate", 0, "."},
		{"certs certificate-key", 0, ""},
		{"config print join-defaults", 0, "criSocket: npipe:////./pipe/containerd-containerd"},
		{"config print reset-defaults", 0, "criSocket: npipe:////./pipe/containerd-containerd"},
		{`config validate --config C:\k\join.yaml`, 0, "ok"},
		{`config migrate --old-config C:\k\old.yaml --new-config C:\k\new.yaml`, 0, ""},
		{`config validate --config C:\k\new.yaml`, 0, "ok"},
		{"config images list", 0, "/kube-proxy:"},
		{"certs check-expiration", 0, ""},
		{"doctor -o json", anyCode, `"kind": "Diagnosis"`},
		{"upgrade node", 1, "is not a node"},
		{"kubeconfig user --client-name jane", 1, "C:/etc/kubernetes/pki/ca.crt does not exist"},
		{"init", 1, "control planes run on Linux"},
		{"init phase certs all", 1, "control planes run on Linux"},
		{"join $JOIN --control-plane", 1, "control planes run on Linux"},
		{"join $JOIN --dry-run", 0, "C:/etc/kubernetes/bootstrap-kubelet.conf"},
		{"reset phase preflight --force", 0, ""},
	})
	if left := m.filesOf(t); len(left) > 0 {
		t.Errorf("before the join there are the files%s", indentLines(left))
	}

	m.runAll(t, join, []windowsCommand{
		{"join phase preflight $JOIN", 0, ""},
		{"join phase kubelet-start $JOIN", 0, ""},
		{`join phase kubelet-wait-bootstrap --config C:\k\join.yaml`, 0, ""},
	})
	if got := m.filesOf(t); !slices.Equal(got, workerFiles()) {
		t.Errorf("the phases left the files%s\nwant%s", indentLines(got), indentLines(workerFiles()))
	}
	await(t, "the Node", waitLimit, func() error {
		_, err := s.cp.Kubectl(t.Context(), "get", "node", "win4")
		return err
	})

	outputs := m.runAll(t, join, []windowsCommand{
		{"certs check-expiration", 0, "ca  "},
		{"certs check-expiration -o json", 0, "\"name\": \"ca\""},
		{"doctor", anyCode, "Host"},
		{"upgrade node --dry-run", 0, ""},
		{"upgrade node phase kubelet-config", 0, ""},
		{`token create --kubeconfig C:\k\admin.conf --print-join-command`, 0, "kubeadm join "},
		{`token list --kubeconfig C:\k\admin.conf`, 0, "authentication"},
		{`kubeconfig user --client-name jane --config C:\k\cluster.yaml`, 0, "client-certificate-data"},
		{"reset --force --dry-run" + socket, 0, "C:/etc/kubernetes/kubelet.conf"},
	})
	fields := strings.Fields(outputs[5])
	created := flagValue(t, fields, "--token")
	m.runAll(t, join, []windowsCommand{
		{`token delete --kubeconfig C:\k\admin.conf ` + created, 0, "deleted"},
		{`reset phase leave-cluster --kubeconfig C:\k\admin.conf`, 0, ""},
		{"reset phase cleanup-node" + socket, 0, ""},
	})
	const user = "/root/jane.conf"
	if err := s.cp.WriteFile(user, []byte(outputs[7]), 0o600); err != nil {
		t.Fatal(err)
	}
	who, err := s.cp.Run(t.Context(), "kubectl", "--kubeconfig="+user, "auth", "whoami")
	if err != nil || !strings.Contains(who.Stdout, "jane") {
		t.Errorf("with the kubeconfig of jane: %v\n%s", err, who.Stdout)
	}

	result := m.runAll(t, join, []windowsCommand{
		{`join --config C:\k\join.yaml --trace C:\k\trace.json -o json`, 0, `"outcome": "succeeded"`},
		{"reset --force --events json" + socket, 0, `"outcome":"succeeded"`},
	})[0]
	var joined report.Result
	if err := json.Unmarshal([]byte(result), &joined); err != nil {
		t.Fatal(err)
	}
	if log, ok := strings.CutPrefix(joined.LogFile, "C:/"); !ok || !fileHas(m.file(log), "kubelet-start") {
		t.Errorf("the log of the join is %q", joined.LogFile)
	}
	if !fileHas(m.file("k/trace.json"), "kubelet-start") {
		t.Error("the trace of the join is not complete")
	}
	left := slices.DeleteFunc(m.filesOf(t), func(name string) bool { return strings.HasPrefix(name, "var/log/") })
	if len(left) > 0 {
		t.Errorf("reset left%s", indentLines(left))
	}
}

func fileHas(name, text string) bool {
	data, err := os.ReadFile(name)
	return err == nil && strings.Contains(string(data), text)
}

// windowsClusterFile has the CA on a drive.
func windowsClusterFile(s *testCluster) string {
	return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.37.1\n" +
		"controlPlaneEndpoint: " + s.workerJoin[2] + "\ncertificatesDir: C:\\k\\pki\n"
}

// windowsJoinFile joins with a discovery file.
func windowsJoinFile(s *testCluster, token string) string {
	return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n" +
		"discovery:\n  file: {kubeConfigPath: 'C:\\k\\admin.conf'}\n  tlsBootstrapToken: " + token +
		"\nnodeRegistration:\n  criSocket: " + runtimeEndpoint + "\n"
}
