package config

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/state"
)

// verdict is a document's body, or a whole file without a kind, and its expected result.
type verdict struct {
	Kind, Text string
	Fault      string // what the error must name; empty if the document is taken
	Peer       string // why upstream's kubeadm decides otherwise
	Migrated   string // why it makes something else of the document
}

func (v verdict) document() string {
	if v.Kind == "" {
		return v.Text
	}
	text := "apiVersion: " + v1beta4.APIVersion + "\nkind: " + v.Kind + "\n"
	if v.Text != "{}" {
		text += v.Text + "\n"
	}
	return text
}

func verdicts(t *testing.T) (list []verdict) {
	t.Helper()
	data, err := os.ReadFile("testdata/verdicts.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(data, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestVerdicts(t *testing.T) {
	for _, v := range verdicts(t) {
		_, _, err := Migrate(fileOf(v.document()), testFacts(t))
		switch {
		case err == nil && v.Fault != "":
			t.Errorf("%s\nis taken, but has a fault at %s", v.document(), v.Fault)
		case err != nil && v.Fault == "":
			t.Errorf("%s\nis refused: %v", v.document(), err)
		case err != nil && !strings.Contains(err.Error(), v.Fault):
			t.Errorf("%s\nhas a fault at %s, which the error does not name: %v", v.document(),
				v.Fault, err)
		}
	}
}

// TestVerdictsMatchUpstream is skipped unless KUBEADM_PEER names upstream's kubeadm.
func TestVerdictsMatchUpstream(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	for _, v := range verdicts(t) {
		said, err := p.ask(t, "config", "validate", "--config", p.write(t, v.document()))
		if agreed := (err == nil) == (v.Fault == ""); agreed != (v.Peer == "") {
			t.Errorf("%s\nours finds a fault at %q, and upstream's kubeadm should differ because %q; its output is %s, %v", v.document(), v.Fault, v.Peer, said, err)
		}
	}
}

// TestMigratedFilesMatchUpstream compares the files that both programs accept. It is skipped as
// above.
func TestMigratedFilesMatchUpstream(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	facts := p.facts(t)
	for _, v := range verdicts(t) {
		if v.Fault != "" || v.Peer != "" || v.Migrated != "" {
			continue
		}
		theirs, err := p.ask(t, "config", "migrate", "--old-config", p.write(t, v.document()))
		if err != nil {
			t.Errorf("%s\nupstream's kubeadm refuses it: %v", v.document(), err)
			continue
		}
		facts.Random = testFacts(t).Random
		ours, _ := migrated(t, fileOf(v.document()), facts)
		ours = componentDocument.ReplaceAllString(ours, "") // upstream drops them
		if diff := cmp.Diff(anyToken.ReplaceAllString(theirs, "token: SOME"),
			anyToken.ReplaceAllString(ours, "token: SOME")); diff != "" {
			t.Errorf("%s\nmigrated (-peer +ours):\n%s", v.document(), diff)
		}
	}
}

// componentDocument matches the configuration of a component in a migrated file.
var componentDocument = regexp.MustCompile(
	`(?ms)(^---\n|\A)apiVersion: kube(let|proxy)\.config\.k8s\.io/.*?(^---\n|\z)`)

var anyToken = regexp.MustCompile(`token: [a-z0-9]{6}\.[a-z0-9]{16}`)

// peer is upstream's kubeadm, with a directory for its files.
type peer struct{ program, dir string }

func newPeer(t *testing.T) peer {
	t.Helper()
	p := peer{os.Getenv("KUBEADM_PEER"), t.TempDir()}
	if p.program == "" {
		t.Skip("KUBEADM_PEER names no upstream kubeadm to compare with")
	}
	return p
}

func (p peer) write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(p.dir, "kubeadm.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ask returns the program's standard output; an error has its standard error.
func (p peer) ask(t *testing.T, args ...string) (string, error) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), p.program, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = errors.New(string(exit.Stderr))
	}
	return string(said), err
}

// facts are the facts that upstream's kubeadm finds on this machine.
func (p peer) facts(t *testing.T) Facts {
	t.Helper()
	said, err := p.ask(t, "config", "migrate", "--old-config", p.write(t, initHead))
	if err != nil {
		t.Fatal(err)
	}
	in := &initDocuments{}
	if err := fileOf(said).read(&RunOptions{}, &documentTarget{kind: v1beta4.KindInit, into: &in.init},
		&documentTarget{kind: v1beta4.KindCluster, into: &in.cluster}); err != nil {
		t.Fatal(err)
	}
	f := testFacts(t)
	f.Hostname, f.Runtimes = in.init.NodeRegistration.Name,
		[]string{in.init.NodeRegistration.CRISocket}
	f.Addresses = []state.Address{{IP: in.init.LocalAPIEndpoint.AdvertiseAddress,
		DefaultRoute: true}}
	f.Fetch = func(string) (string, error) { return in.cluster.KubernetesVersion, nil }
	return f
}
