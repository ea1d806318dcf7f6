package cli

import (
	"strings"
	"testing"

	"kubeadm/internal/world/fake"
)

// A dry run keeps private keys in its directory and shows none, however much it is told to tell.
func TestDryRunPrintsNoKeys(t *testing.T) {
	const dir = "/root/copies"
	for variable, args := range map[string][]string{
		"KUBEADM_INIT_DRYRUN_DIR": {"init", "--dry-run", "--upload-certs", "--kubernetes-version",
			"v1.37.1", "-v", "9"},
		"KUBEADM_JOIN_DRYRUN_DIR": {"join", "192.0.2.1:6443", "--dry-run", "--control-plane", "-v",
			"9", "--token", "abcdef.0123456789abcdef",
			"--discovery-token-unsafe-skip-ca-verification", "--certificate-key",
			strings.Repeat("5e", 32)},
	} {
		s := newTestMachine(t)
		s.env[variable] = dir
		if err := s.run(t.Context(), args...); err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, s.err.String())
			continue
		}
		shown := s.out.String() + s.err.String()
		keys := privateLines(s.world, dir)
		if len(keys) < 20 {
			t.Errorf("%s: only %d lines of keys are among the copies", args[0], len(keys))
		}
		for _, line := range keys {
			if strings.Contains(shown, line) {
				t.Errorf("%s shows a part of a private key", args[0])
				break
			}
		}
		if strings.Contains(shown, "token-secret: MD") ||
			strings.Contains(shown, "token-secret: 01") {
			t.Errorf("%s shows the Secret of a token", args[0])
		}
	}
}

// privateLines are the lines of text in the private keys and kubeconfigs of a directory.
func privateLines(w *fake.World, dir string) []string {
	var lines []string
	for name, f := range w.Files {
		if !strings.HasPrefix(name, dir) {
			continue
		}
		for _, block := range strings.Split(string(f.Data), "PRIVATE KEY-----\n")[1:] {
			body, _, _ := strings.Cut(block, "-----END")
			lines = append(lines, strings.Fields(body)...)
		}
		if _, key, ok := strings.Cut(string(f.Data), "client-key-data: "); ok {
			lines = append(lines, strings.Fields(key)[0])
		}
	}
	return lines
}
