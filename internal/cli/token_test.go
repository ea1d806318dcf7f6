package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/memory"
)

func TestFirstExistingKubeconfigIsUsed(t *testing.T) {
	const admin = "/etc/kubernetes/admin.conf"
	for name, c := range map[string]struct {
		env   map[string]string
		files []string
		args  []string
		want  string
	}{
		"nothing at all": {want: admin},
		"admin.conf":     {files: []string{admin}, want: admin},
		"own": {env: map[string]string{"HOME": "/home/me"},
			files: []string{admin, "/home/me/.kube/config"}, want: "/home/me/.kube/config"},
		"own is missing": {env: map[string]string{"HOME": "/home/me"},
			files: []string{admin}, want: admin},
		"all are missing": {env: map[string]string{"HOME": "/home/me"},
			want: "/home/me/.kube/config"},
		"list": {env: map[string]string{"HOME": "/home/me",
			"KUBECONFIG": "/a" + string(filepath.ListSeparator) + "/b"}, files: []string{"/b", "/home/me/.kube/config"}, want: "/b"},
		"the flag outranks them": {env: map[string]string{"KUBECONFIG": "/a"},
			files: []string{"/a"}, args: []string{"--kubeconfig", "/c"}, want: "/c"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.env = c.env
			for _, f := range c.files {
				s.world.Files[f] = memory.File{Mode: 0o600}
			}
			p, o, cmd := newProgram(s.Host), &clusterOptions{kubeconfig: admin}, &cobra.Command{}
			o.bindTo(cmd)
			if err := cmd.ParseFlags(c.args); err != nil {
				t.Fatal(err)
			}
			if got := clusterIdentity(t.Context(), p, cmd, o, s.world); got.Kubeconfig != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestTokenIsReadFromSecret(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	want := node.BootstrapToken{
		ID: "abcdef", Secret: "0123456789abcdef", Description: "for tests",
		Expires: at.Add(time.Hour),
		Usages:  []string{"authentication", "signing"},
		Groups:  []string{"system:bootstrappers:a", "system:bootstrappers:b"},
	}
	got, err := tokenOf(secretOf(t, want, nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for key, value := range map[string]string{
		bootstrapapi.BootstrapTokenIDKey:         "ghijkl", // not the one in the name
		bootstrapapi.BootstrapTokenSecretKey:     "too short",
		bootstrapapi.BootstrapTokenExpirationKey: "tomorrow",
	} {
		_, err := tokenOf(secretOf(t, want, map[string]string{key: value}))
		if err == nil {
			t.Errorf("a Secret whose %s is %q goes for a token", key, value)
		} else if strings.Contains(err.Error(), "too short") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func secretOf(t *testing.T, token node.BootstrapToken, other map[string]string) map[string]any {
	t.Helper()
	s := manifest.NewTokenSecret(token, time.Time{})
	for key, value := range other {
		s.Data[key] = []byte(value)
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTokensAreListedInATable(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	err := writeTokens(&out, []node.BootstrapToken{
		{ID: "aaaaaa", Secret: "0123456789abcdef"},
		{ID: "bbbbbb", Secret: "0123456789abcdef", Expires: now.Add(90 * time.Minute),
			Usages: []string{"authentication", "signing"}, Description: "two words",
			Groups: []string{"g", "h"}},
		{ID: "cccccc", Secret: "0123456789abcdef", Expires: now.Add(-time.Hour)},
	}, now)
	want := `
TOKEN                     TTL         EXPIRES   USAGES                   DESCRIPTION                                                EXTRA GROUPS
aaaaaa.0123456789abcdef   <forever>   <never>   <none>                   <none>                                                     <none>
bbbbbb.0123456789abcdef   1h          2026-09-01T13:30:00Z   authentication,signing   two words                                                  g,h
cccccc.0123456789abcdef   <invalid>   2026-09-01T11:00:00Z   <none>                   <none>                                                     <none>
`
	if diff := cmp.Diff(want, "\n"+out.String()); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestUploadCertsUsesConfiguredDirectory(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	s.world.RemoteAPIServer = true // the cluster lives on
	for file, remedy := range map[string]string{"ca.crt": "on a control plane",
		"sa.key": "on a control plane", "etcd/ca.crt": "on a control plane",
		"ca.key": "leave out --upload-certs", "front-proxy-ca.key": "leave out --upload-certs"} {
		kept := s.world.Files["/etc/kubernetes/pki/"+file]
		delete(s.world.Files, "/etc/kubernetes/pki/"+file)
		before := s.world.Snapshot()
		err := s.run(t.Context(), "token", "create", "--print-join-command", "--upload-certs")
		if err == nil || !strings.Contains(err.Error(), "/etc/kubernetes/pki/"+file) ||
			!strings.Contains(problem.Hints(err)[0], remedy) {
			t.Errorf("without %s: %v", file, err)
		}
		if s.out.Len() > 0 || s.world.Snapshot() != before {
			t.Errorf("without %s something was made or printed: %s", file, &s.out)
		}
		s.world.Files["/etc/kubernetes/pki/"+file] = kept
	}
	delete(s.world.Files, "/etc/kubernetes/pki/etcd/ca.key") // that CA may be external
	if err := s.run(t.Context(), "token", "create", "--print-join-command",
		"--upload-certs"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(s.err.String(), "no controlPlaneEndpoint") {
		t.Errorf("no warning that the cluster has no endpoint: %s", &s.err)
	}
}
