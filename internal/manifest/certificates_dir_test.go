package manifest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/manifest"
)

// The directory of the certificates is that on the node, whatever files users have given the API server.
func TestCertificatesDir(t *testing.T) {
	const mounted = "volumeMounts: [{name: pki, mountPath: /certs}]"
	for name, c := range map[string]struct{ args, mounts, want string }{
		"as it is":             {"--client-ca-file=/opt/pki/ca.crt", "", "/opt/pki"},
		"mounted elsewhere":    {"--client-ca-file=/certs/ca.crt", mounted, "/opt/pki"},
		"a bundle of the user": {"--client-ca-file=/etc/clients.pem, --kubelet-client-certificate=/opt/pki/apiserver-kubelet-client.crt", "", "/opt/pki"},
		"a bundle of the user with the same name": {"--client-ca-file=/etc/clients/ca.crt, --kubelet-client-certificate=/opt/pki/apiserver-kubelet-client.crt", "", "/opt/pki"},
		"a relative file":                         {"--client-ca-file=ca.crt", "", ""},
		"nothing":                                 {"--secure-port=6443", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			text := "metadata: {name: kube-apiserver}\nspec: {volumes: [{name: pki, hostPath: {path: /opt/pki}}], " +
				"containers: [{name: kube-apiserver, command: [kube-apiserver, " + c.args + "]"
			if c.mounts != "" {
				text += ", " + c.mounts
			}
			if err := yaml.Unmarshal([]byte(text+"}]}"), pod); err != nil {
				t.Fatal(err)
			}
			if dir, ok := manifest.CertificatesDir(pod); dir != c.want || ok != (c.want != "") {
				t.Errorf("got %q, %t", dir, ok)
			}
		})
	}
}
