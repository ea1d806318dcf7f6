package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/report"
)

// TestMain lets this program stand in for kubeadm, on a machine in memory, where a shell runs it
// by that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "kubeadm" {
		os.Exit(m.Run())
	}
	s := newDefaultMachine()
	s.Host.Out, s.Host.Err = os.Stdout, os.Stderr
	if err := Run(context.Background(), s.Host, os.Args[1:]); err != nil {
		report.Error(os.Stderr, nil, err)
		os.Exit(1)
	}
}

// completionRequests are shells with the commands by which a line is typed into them. They print
// what the shell offers: a word on each line, behind a tab what it says of it.
func completionRequests() map[string][]string {
	return map[string][]string{"fish": {"--no-config", "testdata/ask.fish"},
		"zsh": {"-f", "testdata/ask.zsh"}}
}

// Completion is asked of the shells themselves. PowerShell is not among them, for no Debian has
// it.
func TestShellCompletion(t *testing.T) {
	for shell, how := range completionRequests() {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("%s is not installed (apt-get install %s)", shell, shell)
			}
			script := shellScript(t, shell)
			for line, want := range map[string][]string{
				"kubeadm in": {"init"},
				"kubeadm init phase certs etcd-": {"etcd-ca",
					"etcd-healthcheck-client", "etcd-peer", "etcd-server"},
				"kubeadm init --token-t": {"--token-ttl"},
				"kubeadm init --feature-gates Root": {"RootlessControlPlane=false",
					"RootlessControlPlane=true"},
				"kubeadm init --skip-phases addon/": {"addon/coredns",
					"addon/kube-proxy"},
				"kubeadm init --skip-phases=addon/c":           {"addon/coredns"},
				"kubeadm init --skip-phases certs/ca,addon/co": {"certs/ca,addon/coredns"},
				"kubeadm init --ignore-preflight-errors NumC":  {"NumCPU"},
				"kubeadm init --cri-socket unix":               {"unix:///var/run/containerd/containerd.sock"},
				"kubeadm init --config test":                   {"testdata"},
				"kubeadm init --pod-network-cidr ":             nil,
				"kubeadm token create --usages s":              {"signing"},
				"kubeadm completion p":                         {"powershell"},
				"kubeadm nothing ":                             nil,
			} {
				t.Run(line, func(t *testing.T) {
					t.Parallel()
					if got := completionsInShell(t, shell,
						append(how, script, line)...); !slices.Equal(got, want) {
						t.Errorf("it offers %q, want %q", got, want)
					}
				})
			}
		})
	}
}

// shellScript is a file with the completion script of a shell.
func shellScript(t *testing.T, shell string) string {
	t.Helper()
	s := newTestMachine(t)
	if err := s.run(t.Context(), "completion", shell); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, s.out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// completionsInShell runs a shell that finds this program by the name of kubeadm, and returns the
// words that it prints, in order.
func completionsInShell(t *testing.T, shell string, args ...string) (words []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "kubeadm")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + bin, "LANG=C.UTF-8",
		"TERM=dumb"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	for line := range strings.Lines(string(out)) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		// what only some shells say
		words = append(words, strings.TrimSuffix(strings.TrimPrefix(word, "--skip-phases="), "/"))
	}
	slices.Sort(words)
	return slices.Compact(words)
}
