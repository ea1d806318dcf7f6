package manifest_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/manifest"
)

const label = `{"metadata": {"labels": {"x": "y"}}}`

// The expectations are the behaviour of upstream's kubeadm v1.37.1.
func TestPatchFileNames(t *testing.T) {
	for name, want := range map[string]string{
		"etcd.yaml":                 "applied",
		"etcd0.json":                "applied",
		"deep/below/etcd-x.yaml":    "applied",
		"etcd.foo+bar.yaml":         "applied",
		"etcd0+mergefoo.yaml":       "applied",
		"etcd-x+strategic+y.json":   "applied",
		"etcd.yaml+bad.yaml":        "applied",
		"etcd+bar.yml":              "ignored",
		"foo+bar.yaml":              "ignored",
		"etcd.yaml.bak":             "ignored",
		"etcd+merge":                "ignored",
		".yaml":                     "ignored",
		"myetcd.yaml":               "ignored",
		"etcd.YAML":                 "ignored",
		"etcd+.yaml":                "refused",
		"kube-apiserver+other.json": "refused",
	} {
		patches, notes, err := manifest.ParsePatches(
			[]manifest.PatchFile{{Name: name, Data: []byte(label)}})
		got := "applied"
		switch {
		case err != nil && strings.Contains(err.Error(), name):
			got = "refused"
		case len(notes) == 1 && strings.Contains(notes[0], name):
			got = "ignored"
		case len(patches.Origins(manifest.Etcd)) != 1:
			got = "lost"
		}
		if got != want {
			t.Errorf("%s is %s, want %s (%v, %q)", name, got, want, err, notes)
		}
	}
}

func patchPod(t *testing.T, files ...manifest.PatchFile) (*corev1.Pod, error) {
	t.Helper()
	patches, _, err := manifest.ParsePatches(files)
	if err != nil {
		return nil, err
	}
	return patches.PatchPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: manifest.Etcd},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd:1",
			Command: []string{"etcd"}}}},
	})
}

func TestPatchesApplyInOrder(t *testing.T) {
	pod, err := patchPod(t,
		manifest.PatchFile{Name: "etcd0.yaml",
			Data: []byte("# nothing\n---\n" + label + "\n---\n---\nmetadata: {labels: {z: a}}\n")},
		manifest.PatchFile{Name: "etcd1+json.yaml",
			Data: []byte("- {op: replace, path: /metadata/labels/x, value: second}\n")},
		manifest.PatchFile{Name: "etcd2+merge.yaml",
			Data: []byte("metadata: {labels: {z: null}}\n")},
		manifest.PatchFile{Name: "etcd3.yaml",
			Data: []byte("spec: {containers: [{name: more, image: x}]}\n")},
		manifest.PatchFile{Name: "kube-scheduler.yaml", Data: []byte(label)},
		manifest.PatchFile{Name: "etcd4.yaml"},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Labels; len(got) != 1 || got["x"] != "second" {
		t.Errorf("labels %v", got)
	}
	if got := pod.Spec.Containers; len(got) != 2 {
		t.Errorf("a strategic patch replaced the containers: %v", got)
	}
}

func TestPatchErrorNamesFile(t *testing.T) {
	for name, text := range map[string]string{
		"etcd.yaml":       "a: [",
		"etcd0.yaml":      "- 1\n",
		"etcd+json.yaml":  label,
		"etcd1+json.yaml": "- {op: remove, path: /metadata/labels/none}\n",
		"etcd+merge.json": "3",
		"etcd2.yaml":      "spec: {containers: 7}\n",
	} {
		_, err := patchPod(t, manifest.PatchFile{Name: "dir/" + name, Data: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), "dir/"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
