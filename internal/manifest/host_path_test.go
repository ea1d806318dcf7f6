package manifest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHostPath(t *testing.T) {
	host := func(name, path string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver"}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{host("pki", "/etc/kubernetes/pki"), host("enc", "/secure/encryption"),
			host("file", "/etc/audit-policy.yaml"), {Name: "empty"}, host("sub", "/data")},
		Containers: []corev1.Container{{Name: "sidecar", VolumeMounts: []corev1.VolumeMount{{Name: "pki", MountPath: "/enc"}}},
			{Name: "kube-apiserver", VolumeMounts: []corev1.VolumeMount{
				{Name: "pki", MountPath: "/etc/kubernetes/pki"}, {Name: "enc", MountPath: "/enc/"},
				{Name: "file", MountPath: "/audit.yaml"}, {Name: "empty", MountPath: "/enc/tmp"},
				{Name: "sub", MountPath: "/sub", SubPath: "a/b"}, {Name: "lost", MountPath: "/lost"}}}}}}
	for file, want := range map[string]string{
		"/etc/kubernetes/pki/ca.crt": "/etc/kubernetes/pki/ca.crt",
		"/enc/keys/enc.yaml":         "/secure/encryption/keys/enc.yaml",
		"/enc/../enc/enc.yaml":       "/secure/encryption/enc.yaml",
		"/audit.yaml":                "/etc/audit-policy.yaml",
		"/sub/x":                     "/data/a/b/x",
		"/enc/tmp/x":                 "", // not on the node
		"/encoded/x":                 "",
		"/lost/x":                    "",
		"/etc/enc.yaml":              "", // in the image
	} {
		if got, ok := HostPath(pod, file); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", file, got, ok, want)
		}
	}
}
