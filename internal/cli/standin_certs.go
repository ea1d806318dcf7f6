package cli

import (
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// standInLent is the Secret that the simulated cluster holds for a control plane that knows the certificate key, with the
// CA that it shows; there is none for others.
func (p *program) standInLent(e *flow.Env, n *node.Node, cluster pki.CA) ([]state.Object, error) {
	if e.Local.CertificateKey == "" {
		return nil, nil
	}
	key, err := pki.ParseCertificateKey(e.Local.CertificateKey)
	if err != nil {
		return nil, err
	}
	plain, err := p.standInShared(e, n, cluster)
	if err != nil {
		return nil, err
	}
	sealed := map[string][]byte{}
	for name, data := range plain {
		if len(data) == 0 {
			sealed[name] = []byte{}
			continue
		}
		if sealed[name], err = key.Seal(p.Random("stand-in"), data); err != nil {
			return nil, err
		}
	}
	return []state.Object{manifest.Certs(sealed, &corev1.Secret{})}, nil
}

// standInShared are the files that the control planes of the simulated cluster share, by their names in the Secret. A key
// of its CA that is not known is empty, as for an external CA.
func (p *program) standInShared(e *flow.Env, n *node.Node, cluster pki.CA) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, profile := range pki.Profiles() {
		if !profile.IsCA() {
			continue
		}
		ca, err := cluster, error(nil)
		if profile.Name != pki.ClusterCA {
			ca, err = p.standInCA(e, n, profile.Name)
		}
		if err != nil {
			return nil, err
		}
		files[pki.SealedName(profile.CertificateFile())] = pki.EncodeCertificates(ca.Certificate)
		files[pki.SealedName(profile.KeyFile())] = nil
		if !ca.CanIssue() {
			continue
		}
		if files[pki.SealedName(profile.KeyFile())], err = pki.EncodeKey(ca.Key); err != nil {
			return nil, err
		}
	}
	key, err := pki.NewKey(p.Random("stand-in"), pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	if files[pki.ServiceAccountKey], err = pki.EncodeKey(key); err != nil {
		return nil, err
	}
	files[pki.ServiceAccountPublicKey], err = pki.EncodePublicKey(key.Public())
	return files, err
}
