package laws

import (
	"strings"
	"testing"
)

// A file that was changed after init is no longer ours: running the same command again fails and
// does not overwrite it, since an upgrade or an administrator may have changed it.
func TestChangedFileIsNotOverwritten(t *testing.T) {
	const manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	s := findSubject("init")
	r := s.newRun(s.machine(t))
	r.mustSucceed(t)
	altered := append([]byte("# by the administrator\n"), r.machine.Files[manifest].Data...)
	overwriteFile(r.machine, manifest, altered)
	out := r.rerun().execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), manifest+" already exists") ||
		len(out.did) > 0 {
		t.Errorf("did %v: %v", describeChanges(out.did), out.err)
	}
}
