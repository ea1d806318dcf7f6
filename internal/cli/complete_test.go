package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
)

// completionsOf is what a shell would show of a command line that is being typed.
func completionsOf(t *testing.T, s *testMachine, args ...string) []string {
	t.Helper()
	if err := s.run(t.Context(), append([]string{"__complete"}, args...)...); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	var words []string
	for line := range strings.Lines(s.out.String()) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		words = append(words, word)
	}
	return words
}

// What a shell is told to do besides, as the last line of an answer.
const (
	noFiles   = ":4"
	anyFile   = ":0"
	anyFolder = ":16"
)

func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"in": {"init", noFiles},
		"init phase certs etcd-": {"etcd-ca", "etcd-healthcheck-client",
			"etcd-peer", "etcd-server", noFiles},
		"init --skip-phases addon": {"addon", "addon/coredns", "addon/kube-proxy",
			noFiles},
		"init --skip-phases certs/ca,addon/co":    {"certs/ca,addon/coredns", noFiles},
		"join --skip-phases et":                   {"etcd-join", noFiles},
		"reset --skip-phases pre":                 {"preflight", noFiles},
		"init --ignore-preflight-errors NumC":     {"NumCPU", noFiles},
		"init --ignore-preflight-errors NumCPU,N": {noFiles},
		"init --ignore-preflight-errors a":        {"all", noFiles},
		"init --cri-socket ": {"unix:///var/run/containerd/containerd.sock",
			noFiles},
		"init --kubernetes-version s": {"stable-1", "stable-1.37", noFiles},
		"init --feature-gates Root": {"RootlessControlPlane=true",
			"RootlessControlPlane=false", noFiles},
		"init --config ":                  {anyFile},
		"init phase certs ca --cert-dir ": {anyFolder},
		"config migrate --old-config ":    {anyFile},
		"config print init-defaults --component-configs KubeletConfiguration,K": {"KubeletConfiguration,KubeProxyConfiguration", noFiles},
		"token create --usages s":  {"signing", noFiles},
		"token list -o k":          {"kyaml", noFiles},
		"version --output s":       {"short", noFiles},
		"completion p":             {"powershell", noFiles},
		"help token cr":            {"create", noFiles},
		"init --pod-network-cidr ": {noFiles},
		"join 192.0.2.1:6443 ":     {noFiles},
		"upg":                      {"upgrade", noFiles},
		"upgrade ":                 {"apply", "diff", "node", "plan", noFiles},
		"upgrade apply v":          {"v1.37.1", noFiles},
		"upgrade diff v":           {"v1.37.1", noFiles},
		"upgrade node ":            {"phase", noFiles},
		"upgrade apply --skip-phases upload-config/k": {"upload-config/kubeadm",
			"upload-config/kubelet", noFiles},
		"upgrade node phase addon ": {"all", "coredns", "kube-proxy", noFiles},
		"upgrade plan v":            {"v1.37.1", noFiles},
	} {
		typed := strings.Split(line, " ")
		if got := completionsOf(t, newTestMachine(t), typed...); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

func TestTokenIDsAreCompleted(t *testing.T) {
	s := newTestMachine(t)
	s.world.RemoteAPIServer = true
	for _, id := range []string{"aaaaaa", "bbbbbb"} {
		token := node.BootstrapToken{ID: id, Secret: "0123456789abcdef", Description: "for " + id}
		if err := s.world.World.Do(t.Context(),
			change.ApplyObject{Object: manifest.NewTokenSecret(token, s.world.Now())}); err != nil {
			t.Fatal(err)
		}
	}
	if got := completionsOf(t, s, "token", "delete", "aaaaaa", ""); !slices.Equal(got,
		[]string{"bbbbbb", noFiles}) {
		t.Errorf("got %q", got)
	}
	if all := s.out.String() + s.err.String(); strings.Contains(all, "0123456789abcdef") ||
		!strings.Contains(all, "for bbbbbb") {
		t.Errorf("it shows %s", all)
	}
}

// Each script is one that its shell can read, where that shell is there.
func TestCompletionScriptsParse(t *testing.T) {
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		s := newTestMachine(t)
		if err := s.run(t.Context(), "completion", shell); err != nil ||
			!strings.Contains(s.out.String(), "__complete") {
			t.Errorf("%s: %v", shell, err)
			continue
		}
		program, err := exec.LookPath(map[string]string{"powershell": "pwsh"}[shell])
		if err != nil {
			program, err = exec.LookPath(shell)
		}
		if err != nil || shell == "powershell" { // pwsh cannot only read
			continue
		}
		script := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(script, s.out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.CommandContext(t.Context(), program, "-n",
			script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, text)
		}
	}
}
