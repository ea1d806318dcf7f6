package manifest

import (
	"strings"

	"kubeadm/internal/pki"
)

// JoinCommand is the command that joins a machine to the cluster of the kubeconfig admin: as a
// worker, or as a control plane, with the key of the uploaded certificates if there is one.
// Tools parse it: one option to a line, each line but the last ending in a backslash, and a
// blank after every pin.
func JoinCommand(admin *pki.Kubeconfig, token string, controlPlane bool,
	certificateKey string) (string, error) {
	endpoint, err := admin.Endpoint()
	if err != nil {
		return "", err
	}
	trusted, err := admin.EmbeddedCAs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("kubeadm join " + endpoint + " --token " + token + " \\\n\t")
	for _, ca := range trusted {
		b.WriteString("--discovery-token-ca-cert-hash " + pki.PinOf(ca).String() + " ")
	}
	if controlPlane {
		b.WriteString("\\\n\t--control-plane ")
		if certificateKey != "" {
			b.WriteString("--certificate-key " + certificateKey)
		}
	}
	return b.String(), nil
}
