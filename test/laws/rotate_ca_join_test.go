package laws

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/rotation"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// withCertificateKey is the command of a stage with --certificate-key.
func withCertificateKey(s rotation.Stage) subject {
	command := rotateCA(s, rotation.Options{})
	setUp := command.setUp
	command.setUp = func(t testing.TB, e *engine.Env) error {
		if err := setUp(t, e); err != nil {
			return err
		}
		n, err := e.Node(t.Context())
		if err == nil {
			n.CertificateKey = strings.Repeat("5e", 32)
		}
		return err
	}
	return command
}

// A control plane node that joins in the middle of a stage has the keys that sign in it. "trust" on
// it brings the others, so that the rotation can be finished and undone there.
func TestNodeThatJoinsDuringRotationGetsAllKeys(t *testing.T) {
	for name, before := range map[string][]rotation.Stage{
		"trust":     {rotation.Trust},
		"sign":      {rotation.Trust, rotation.Sign},
		"undo-sign": {rotation.Trust, rotation.Sign, rotation.Undo},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRotatingMachine(t)
			rotate(t, w, before...)
			if err := w.PutObject(newPlaneNode("cp2")); err != nil {
				t.Fatal(err)
			}
			command := withCertificateKey(rotation.Trust)
			command.newRun(w).mustSucceed(t) // uploads the keys
			want := sideFiles(w)
			for file := range want {
				delete(w.Files, file)
			}
			w.Clock = memory.NewTickingClock(w.Now().Add(time.Minute))
			mustFail(t, rotateCA(rotation.Trust, rotation.Options{}).newRun(w),
				"the keys of the rotation are not on this machine")
			command.newRun(w).mustSucceed(t)
			if got := sideFiles(w); !maps.Equal(got, want) || len(got) != 16 {
				t.Errorf("%d files, want %d", len(got), len(want))
			}
		})
	}
}

// newPlaneNode is the Node of a control plane that has not begun the rotation.
func newPlaneNode(name string) *corev1.Node {
	n := &corev1.Node{}
	n.APIVersion, n.Kind, n.Name = "v1", "Node", name
	n.Labels = map[string]string{node.ControlPlaneLabel: ""}
	return n
}

// sideFiles are the old and new pairs that a control plane keeps during a rotation.
func sideFiles(w *fake.World) map[string]string {
	all := map[string]string{}
	for name, f := range w.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/pki/ca-rotation/") && !f.Mode.IsDir() &&
			!strings.Contains(name, "/signing.") {
			all[name] = string(f.Data)
		}
	}
	return all
}
