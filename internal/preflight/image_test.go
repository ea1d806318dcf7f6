package preflight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

func TestPullsFollowPullPolicy(t *testing.T) {
	socket := worker().CRISocket
	pulls := func(always bool) []change.Change {
		return []change.Change{
			change.PullImage{Socket: socket, Ref: "a:1", Always: always},
			change.PullImage{Socket: socket, Ref: "b:1", Always: always},
		}
	}
	for policy, want := range map[corev1.PullPolicy][]change.Change{
		corev1.PullIfNotPresent: pulls(false), corev1.PullAlways: pulls(true),
		corev1.PullNever: nil,
	} {
		l := worker()
		l.PullPolicy = policy
		got, err := Pulls(l, []string{"a:1", "b:1"})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, difference:\n%s", policy, err, diff)
		}
	}
	l := worker()
	l.PullPolicy = "Sometimes"
	if _, err := Pulls(l, nil); err == nil ||
		!strings.Contains(err.Error(), `imagePullPolicy "Sometimes"`) {
		t.Errorf("error %v", err)
	}
}

func TestSandboxNote(t *testing.T) {
	rt := state.Runtime{Name: "containerd", SandboxImage: "registry.k8s.io/pause:3.8"}
	note := SandboxImageWarning(rt, "registry.k8s.io/pause:3.10.2")
	if !strings.Contains(note, "pause:3.8") || !strings.Contains(note, "pause:3.10.2") {
		t.Errorf("note %q", note)
	}
	rt.SandboxImage = ""
	if note := SandboxImageWarning(rt,
		"registry.k8s.io/pause:3.10.2") + SandboxImageWarning(state.Runtime{SandboxImage: "x"},
		"x"); note != "" {
		t.Errorf("note %q", note)
	}
}
