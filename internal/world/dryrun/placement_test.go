package dryrun_test

import (
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
)

// Files of other machines are not copied to the directory of a dry run: one may have the name of another file there,
// and get its mode.
func TestPlacedFileIsNotCopied(t *testing.T) {
	real := fake.New()
	w := dryrun.New(real, "/tmp/dry-run", dryrun.Paths{Certificates: "/etc/kubernetes/pki"})
	for _, c := range []change.WriteFile{{Path: "/etc/kubernetes/config.yaml", Data: []byte("public"), Mode: 0o644},
		{Path: "/srv/secret/config.yaml", Data: []byte("secret"), Mode: 0o600, Secret: true,
			Placement: &change.Placement{DirMode: 0o700}}} {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got, err := w.ReadFile(t.Context(), c.Path); err != nil || string(got) != string(c.Data) {
			t.Errorf("%s is %q, %v", c.Path, got, err)
		}
	}
	if got := real.Files["/tmp/dry-run/config.yaml"]; string(got.Data) != "public" {
		t.Errorf("the copy is %q", got.Data)
	}
}
