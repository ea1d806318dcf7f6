package manifest_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/untrusted"
)

// FuzzPatches checks that a patch gives the same result each time, or an error that names the
// file. The input Pod is not modified, and skipped patches and those of another target change
// nothing.
func FuzzPatches(f *testing.F) {
	for name, text := range map[string]string{
		"etcd.yaml": label, "etcd0+json.json": `[{"op": "add", "path": "/metadata/labels/x", "value": "y"}]`,
		"etcd+json.yaml":       "- {op: test, path: /a~1b/0, value: null}\n- {op: copy, from: /spec, path: /spec/containers/-}\n- {op: move, from: /metadata, path: /metadata/a}\n",
		"etcd+merge.yaml":      "metadata: null\nspec: {containers: [null]}\n---\n---\nspec: 3\n",
		"etcd+strategic.yaml":  "spec: {containers: [{name: etcd, $patch: delete}], $setElementOrder/containers: [{name: x}], $retainKeys: [a]}\n",
		"etcd1.yaml":           "$patch: replace\nmetadata: {$patch: delete}\n$deleteFromPrimitiveList/x: [1]\n",
		"kube-apiserver.yaml":  label,
		"etcd+unknown.yaml":    "a: &a [*a]\n",
		"etcd2.yaml":           "spec: {containers: [{name: etcd, command: null, livenessProbe: {httpGet: {port: []}}}]}\n",
		"kubeletconfiguration": "x",
	} {
		f.Add(name, []byte(text))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		patches, notes, err := manifest.ParsePatches([]manifest.PatchFile{{Name: name, Data: data}})
		if err != nil {
			namesFile(t, name, err)
			return
		}
		pod, untouched := podToPatch(), podToPatch()
		after, err := patches.PatchPod(pod)
		if !reflect.DeepEqual(pod, untouched) {
			t.Errorf("the input Pod was modified: %v", pod)
		}
		again, second := patches.PatchPod(pod)
		if (err == nil) != (second == nil) || !reflect.DeepEqual(again, after) {
			t.Errorf("the second result is %v, %v, the first %v, %v", again, second, after, err)
		}
		if err != nil {
			namesFile(t, name, err)
			return
		}
		if len(notes) > 0 || len(patches.Origins(manifest.Etcd)) == 0 {
			if !reflect.DeepEqual(after, untouched) {
				t.Errorf("etcd changed without a patch for it: %v", after)
			}
		}
		if _, err := json.Marshal(after); err != nil {
			t.Errorf("the Pod cannot be encoded: %v", err)
		}
	})
}

func podToPatch() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: manifest.Etcd,
			Labels: map[string]string{"tier": "control-plane"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "etcd", Image: "etcd:1",
				Command: []string{"etcd", "--data-dir=/var/lib/etcd"}}},
			Volumes: []corev1.Volume{{Name: "data"}},
		},
	}
}

func namesFile(t *testing.T, name string, err error) {
	t.Helper()
	quoted := untrusted.Quote(name)
	if !strings.Contains(err.Error(), quoted) {
		t.Errorf("the error does not name the file %s: %v", quoted, err)
	}
}
