package doctor

import (
	"strings"
	"testing"
)

// Manifests that are no Pods are reported beside what the checks of other components find.
func TestEachDamagedManifestIsReported(t *testing.T) {
	s := newHealthyNode(t)
	s.world.CrashLog = func(string, []byte) string { return "panic: boom" }
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		writeFile("/etc/kubernetes/manifests/"+component+".yaml", "kind: Pod\n")(t, s)
	}
	d := s.diagnose(t)
	for _, says := range []string{"kube-controller-manager.yaml is not a Pod", "kube-scheduler.yaml is not a Pod"} {
		if !strings.Contains(describeFindings(d), says) {
			t.Errorf("nothing says that %s:\n%s", says, describeFindings(d))
		}
	}
}
