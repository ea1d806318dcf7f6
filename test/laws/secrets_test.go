package laws

import (
	"bytes"
	"encoding/base64"
	"path"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/pki"
	"kubeadm/internal/report"
	"kubeadm/internal/world/fake"
)

// The output, the dry run and the journal of a run hold no secret, unless the user asks to print
// tokens and keys.
func TestOutputHoldsNoSecrets(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		before := s.machine(t)
		for _, dryRun := range []bool{true, false} {
			r := s.newRun(before.Clone())
			r.dryRun = dryRun
			out := r.mustSucceed(t)
			journal, err := r.store.Load("journal")
			if err != nil {
				t.Fatal(err)
			}
			said := renderAll(t, s.name, out) + string(journal)
			secrets := slices.Concat(listMachineSecrets(before), listMachineSecrets(r.machine),
				out.secrets)
			for _, secret := range secrets {
				if strings.Contains(said, secret) {
					t.Errorf("dryRun %v: the output holds a secret: %.12s…", dryRun, secret)
				}
			}
			if s.name == "init" && len(secrets) < 20 {
				t.Errorf("dryRun %v: only %d secrets were searched for", dryRun, len(secrets))
			}
		}
	})
}

// renderAll returns everything that any renderer may print of a run.
func renderAll(t *testing.T, name string, out outcome) string {
	var text bytes.Buffer
	for _, conditional := range []bool{false, true} {
		to := &report.Text{Out: &text, Err: &text, Verbosity: 9}
		for _, e := range out.events {
			e.Preview = conditional
			to.Emit(e)
		}
		to.Close()
	}
	text.WriteString(renderOutput(t, name, out, false).text(t))
	for _, e := range out.events {
		text.WriteString(e.Text + "\n")
		if e.Change != nil {
			text.WriteString(e.Change.String() + e.Change.Target() + "\n")
		}
	}
	return text.String()
}

// listMachineSecrets lists the keys and tokens on a machine and in its cluster.
func listMachineSecrets(m *fake.World) (all []string) {
	for name, f := range m.Files {
		switch path.Ext(name) {
		case ".key":
			all = append(all, findableKeyParts(f.Data)...)
		case ".conf":
			if config, err := pki.ParseKubeconfig(f.Data); err == nil {
				user, _ := config.CurrentUser()
				all = append(all, findableKeyParts(user.ClientKeyData)...)
			}
		}
	}
	for _, o := range m.Objects {
		value, ok, _ := unstructured.NestedString(o.Object, "data", "token-secret")
		if plain, err := base64.StdEncoding.DecodeString(value); err == nil && ok {
			all = append(all, value, string(plain))
		}
	}
	return all
}

// findableKeyParts returns parts of a key that a leak would show: a line of its PEM, and of the
// PEM in base64.
func findableKeyParts(data []byte) []string {
	lines := strings.Split(string(data), "\n")
	if len(lines) < 3 {
		return nil
	}
	return []string{lines[1], base64.StdEncoding.EncodeToString(data)[60:120]}
}
