package doctor

import (
	"slices"
	"strings"
	"testing"
)

// Which of several runtimes init is to use is for the user to say, and nothing is wrong before.
func TestChoiceOfRuntimeIsLeftToUser(t *testing.T) {
	s := newVacantMachine()
	s.world.Sockets = []string{"unix:///run/containerd/containerd.sock", "unix:///run/cri-dockerd.sock"}
	d := s.diagnose(t)
	if len(d.Findings) > 0 {
		t.Errorf("found:\n%s", describeFindings(d))
	}
	isCRI := func(n NotChecked) bool { return n.Check == "CRI" }
	i := slices.IndexFunc(d.NotChecked, isCRI)
	if i < 0 || !strings.Contains(d.NotChecked[i].Reason, "/run/cri-dockerd.sock") ||
		!strings.Contains(d.NotChecked[i].Reason, "kubeadm init") {
		t.Errorf("not checked: %+v", d.NotChecked)
	}
}
