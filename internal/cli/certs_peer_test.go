package cli

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/pki"
	"kubeadm/internal/world/memory"
)

// upstreamPair is upstream's kubeadm at work in a directory, and ours on a machine in memory that
// has the same files.
type upstreamPair struct {
	*testMachine
	program, dir string
}

// newUpstreamPair skips the test unless KUBEADM_PEER names upstream's kubeadm.
func newUpstreamPair(t *testing.T) upstreamPair {
	t.Helper()
	b := upstreamPair{testMachine: newTestMachine(t), program: os.Getenv("KUBEADM_PEER"),
		dir: t.TempDir()}
	if b.program == "" {
		t.Skip("KUBEADM_PEER names no upstream kubeadm to compare with")
	}
	if _, err := os.Stat("/etc/kubernetes/admin.conf"); err == nil {
		t.Skip("this machine has a cluster that the peer would look at")
	}
	config := strings.NewReplacer("DIR", b.dir).Replace(besideConfig)
	if err := os.WriteFile(b.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	b.peer(t, "init", "phase", "certs", "all", "--config", b.config())
	b.world.Clock = memory.NewTickingClock(time.Now())
	b.share(t)
	return b
}

const besideConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 10.0.0.4, bindPort: 6443}
nodeRegistration: {name: cp1, criSocket: unix:///x.sock}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
encryptionAlgorithm: ECDSA-P384
certificatesDir: DIR/pki
controlPlaneEndpoint: api.example.com:8443
apiServer: {certSANs: [z.example.com, 192.0.2.7]}
`

func (b upstreamPair) config() string { return filepath.Join(b.dir, "config.yaml") }

// share gives our machine the files of the peer's directory.
func (b upstreamPair) share(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		b.world.Files[path] = memory.File{Data: data, Mode: 0o600}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (b upstreamPair) lose(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(b.dir, file)); err != nil {
		t.Fatal(err)
	}
	delete(b.world.Files, filepath.Join(b.dir, file))
}

func (b upstreamPair) peer(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(b.program, args...).Output()
	if err != nil {
		t.Fatalf("the peer's %v: %v", args, err)
	}
	return string(out)
}

func (b upstreamPair) ours(t *testing.T, args ...string) string {
	t.Helper()
	if err := b.run(t.Context(), args...); err != nil {
		t.Fatalf("our %v: %v", args, err)
	}
	return b.out.String()
}

// seconds that pass between the two programs are none of theirs.
var passing = regexp.MustCompile(`(residualTime"?: *)\d+`)

func TestCheckExpirationMatchesUpstream(t *testing.T) {
	b := newUpstreamPair(t)
	for _, lost := range []string{"", "pki/ca.key", "pki/etcd/ca.key",
		"pki/front-proxy-client.crt"} {
		if lost != "" {
			b.lose(t, lost)
		}
		for _, format := range []string{"text", "json", "yaml", "kyaml",
			"jsonpath={.certificates[*].caName}",
			"go-template={{range .certificates}}{{.name}} {{.missing}}{{end}}"} {
			args := []string{"certs", "check-expiration", "--config", b.config(), "-o", format}
			theirs, ours := b.peer(t, args...), b.ours(t, args...)
			if diff := cmp.Diff(passing.ReplaceAllString(theirs, "$1"),
				passing.ReplaceAllString(ours, "$1")); diff != "" {
				t.Errorf("without %q as %s: the peer (-) and we (+):\n%s", lost, format, diff)
			}
		}
	}
}

func TestRenewedCertificatesMatchUpstream(t *testing.T) {
	b := newUpstreamPair(t)
	args := []string{"certs", "renew", "all", "--config", b.config()}
	b.ours(t, args...)
	b.peer(t, args...)
	for _, r := range pki.Renewables() {
		if r.File != "" {
			continue
		}
		path := filepath.Join(b.dir, "pki", r.Base+".crt")
		theirs, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(renewedAs(t, r, theirs),
			renewedAs(t, r, b.world.Files[path].Data)); diff != "" {
			t.Errorf("%s: the peer's (-) and ours (+):\n%s", r.Name, diff)
		}
	}
}

// renewedAs is all that a certificate says but for what is new each time. How long a certificate
// is good for is told roughly: it begins with its CA, and either program took its time.
func renewedAs(t *testing.T, r pki.Renewable, file []byte) string {
	t.Helper()
	c, err := r.Certificate(file)
	if err != nil {
		t.Fatal(err)
	}
	var extensions []string
	for _, x := range c.Extensions {
		extensions = append(extensions, fmt.Sprintf("%v %v %x", x.Id, x.Critical, x.Value))
	}
	return fmt.Sprintf("%s by %s\n%s\n%s\n%+v\n%s", c.Subject, c.Issuer, c.SignatureAlgorithm,
		c.NotAfter.Sub(c.NotBefore).Round(10*time.Minute), keptOf(c),
		strings.Join(extensions, "\n"))
}

func TestCSRsMatchUpstream(t *testing.T) {
	b := newUpstreamPair(t)
	args := func(who string) []string {
		return []string{"certs", "generate-csr", "--config", b.config(), "--cert-dir",
			filepath.Join(b.dir, who, "pki"), "--kubeconfig-dir", filepath.Join(b.dir, who)}
	}
	b.peer(t, args("theirs")...)
	b.ours(t, args("ours")...)
	seen := 0
	err := filepath.WalkDir(filepath.Join(b.dir, "theirs"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			seen++
			theirs, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			ours, there := b.world.Files[strings.Replace(path, "/theirs/", "/ours/", 1)]
			if !there || ours.Mode != 0o600 {
				t.Errorf("ours is lacking %s, or has the mode %v", path, ours.Mode)
				return nil
			}
			if diff := cmp.Diff(csrDetails(t, path, theirs),
				csrDetails(t, path, ours.Data)); diff != "" {
				t.Errorf("%s: the peer's (-) and ours (+):\n%s", path, diff)
			}
			return nil
		})
	if err != nil || seen != 24 {
		t.Errorf("compared %d files: %v", seen, err)
	}
}

// csrDetails is what a request asks for, or where a kubeconfig leads.
func csrDetails(t *testing.T, path string, data []byte) string {
	t.Helper()
	switch filepath.Ext(path) {
	case ".csr":
		r, err := pki.ParseRequest(data)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := pki.AlgorithmOf(r.PublicKey)
		return fmt.Sprintf("%s %v %v %v %s", r.Subject, r.DNSNames, r.IPAddresses,
			r.SignatureAlgorithm, kind)
	case ".key":
		key, err := pki.ParseKey(data)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := pki.AlgorithmOf(key.Public())
		return string(kind)
	}
	return withoutSecrets.ReplaceAllString(string(data), "$1")
}

var withoutSecrets = regexp.MustCompile(`(client-certificate-data: |client-key-data: ).+`)

func TestUserKubeconfigsMatchUpstream(t *testing.T) {
	b := newUpstreamPair(t)
	for _, args := range [][]string{{"--org", "a,b", "--org", "c"}, {"--validity-period", "1h"},
		{"--token", "secret"}} {
		args = append([]string{"kubeconfig", "user", "--client-name", "somebody", "--config",
			b.config()}, args...)
		theirs, ours := b.peer(t, args...), b.ours(t, args...)
		if diff := cmp.Diff(withoutSecrets.ReplaceAllString(theirs, "$1"),
			withoutSecrets.ReplaceAllString(ours, "$1")); diff != "" {
			t.Errorf("%v: the peer (-) and we (+):\n%s", args, diff)
		}
		inside := pki.Renewable{Name: "user", File: "user.conf"}
		if strings.Contains(ours, "token") {
			continue
		}
		if diff := cmp.Diff(renewedAs(t, inside, []byte(theirs)),
			renewedAs(t, inside, []byte(ours))); diff != "" {
			t.Errorf("%v: the peer's certificate (-) and ours (+):\n%s", args, diff)
		}
	}
}
