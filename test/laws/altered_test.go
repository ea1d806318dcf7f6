package laws

import (
	"strings"
	"testing"
)

// A file that somebody has altered since is no longer ours: the same command refuses the machine rather than put it
// back, as an upgrade or an administrator may have had good reasons.
func TestChangedFileIsNotOverwritten(t *testing.T) {
	const manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	s := findSubject("init")
	r := s.newRun(s.machine(t))
	r.mustSucceed(t)
	altered := append([]byte("# by the administrator\n"), r.machine.Files[manifest].Data...)
	overwriteFile(r.machine, manifest, altered)
	out := r.rerun().execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), manifest+" already exists") || len(out.did) > 0 {
		t.Errorf("did %v: %v", describeChanges(out.did), out.err)
	}
}
