package kubelet

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestRemoveFlags(t *testing.T) {
	const pause = "--pod-infra-container-image=registry.k8s.io/pause:3.10"
	for name, c := range map[string]struct {
		text, kubelet, want string
		removed, unknown    []string
	}{
		"a flag of an older kubeadm": {
			text:    `KUBELET_KUBEADM_ARGS="` + pause + ` --node-ip=192.0.2.1"` + "\n",
			want:    `KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.1"` + "\n",
			removed: []string{"pod-infra-container-image"}},
		"that the kubelet still has": {kubelet: "1.34.2",
			text: `KUBELET_KUBEADM_ARGS="` + pause + `"` + "\n"},
		"no other flag": {text: `KUBELET_KUBEADM_ARGS="` + pause + `"` + "\n",
			want:    `KUBELET_KUBEADM_ARGS=""` + "\n",
			removed: []string{"pod-infra-container-image"}},
		"without quotation marks, one dash": {
			text: "KUBELET_KUBEADM_ARGS=-v=2 " + pause[1:], want: `KUBELET_KUBEADM_ARGS="-v=2"` + "\n",
			removed: []string{"pod-infra-container-image"}},
		"other lines stay": {
			text:    "# mine\nA=\"" + pause + "\"\nKUBELET_KUBEADM_ARGS=\"" + pause + "\"\n\nB=1",
			want:    "# mine\nA=\"" + pause + "\"\nKUBELET_KUBEADM_ARGS=\"\"\n\nB=1",
			removed: []string{"pod-infra-container-image"}},
		"a flag of the user": {text: `KUBELET_KUBEADM_ARGS="--storage-driver-db=x --v=2"`,
			unknown: []string{"storage-driver-db"}},
		"both": {text: `KUBELET_KUBEADM_ARGS="--storage-driver-db=x ` + pause + `"` + "\n",
			want:    `KUBELET_KUBEADM_ARGS="--storage-driver-db=x"` + "\n",
			removed: []string{"pod-infra-container-image"}, unknown: []string{"storage-driver-db"}},
		"a value like a flag's name": {
			text: `KUBELET_KUBEADM_ARGS="--node-labels a pod-infra-container-image"`},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			kubelet := "1.37.1"
			if c.kubelet != "" {
				kubelet = c.kubelet
			}
			if c.removed == nil {
				c.want = c.text
			}
			got, removed, unknown := removeFlags(c.text, version.MustParseSemantic(kubelet))
			if got != c.want || !slices.Equal(removed, c.removed) ||
				!slices.Equal(unknown, c.unknown) {
				t.Errorf("got  %q, removed %q, unknown %q\nwant %q, removed %q, unknown %q", got,
					removed, unknown, c.want, c.removed, c.unknown)
			}
		})
	}
}
