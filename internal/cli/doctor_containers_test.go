package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/doctor"
)

// A list of containers that cannot be read is no evidence of an old certificate.
func TestDoctorDoesNotJudgeUnreadableContainers(t *testing.T) {
	s := newHealthyNode(t)
	s.world.ContainersError = errors.New("i/o timeout")
	d, _ := s.diagnose(t)
	if i := slices.IndexFunc(d.Findings, func(f doctor.Finding) bool { return f.Check == "ServedCertificates" }); i >= 0 {
		t.Errorf("it found %v", d.Findings[i])
	}
	if !slices.ContainsFunc(d.NotChecked, func(n doctor.NotChecked) bool {
		return n.Check == "ServedCertificates" && strings.Contains(n.Reason, "i/o timeout")
	}) {
		t.Errorf("not checked: %v", d.NotChecked)
	}
}

// Manifests that are no Pods are reported beside what the checks of other components find.
func TestDoctorReportsEachDamagedManifest(t *testing.T) {
	s := newHealthyNode(t)
	s.world.CrashLog = func(string, []byte) string { return "panic: boom" }
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		writeFile("/etc/kubernetes/manifests/"+component+".yaml", "kind: Pod\n")(t, s)
	}
	d, _ := s.diagnose(t)
	for _, says := range []string{"kube-controller-manager.yaml is not a Pod", "kube-scheduler.yaml is not a Pod"} {
		if !strings.Contains(describeFindings(d), says) {
			t.Errorf("nothing says that %s:\n%s", says, describeFindings(d))
		}
	}
}
