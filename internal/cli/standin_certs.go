package cli

import (
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

// standInLent is what a make-believe cluster lends to a control plane that knows the certificate key; nothing to others.
func (p *program) standInLent(e *flow.Env, n *node.Node) ([]change.Object, error) {
	if e.Local.CertificateKey == "" {
		return nil, nil
	}
	key, err := pki.ParseCertificateKey(e.Local.CertificateKey)
	if err != nil {
		return nil, err
	}
	plain, err := p.standInShared(e, n)
	if err != nil {
		return nil, err
	}
	sealed := map[string][]byte{}
	for name, data := range plain {
		if sealed[name], err = key.Seal(p.Random("stand-in"), data); err != nil {
			return nil, err
		}
	}
	return []change.Object{manifest.Certs(sealed, &corev1.Secret{})}, nil
}

// standInShared are the files that the control planes of the make-believe cluster share, by the names under which they travel.
func (p *program) standInShared(e *flow.Env, n *node.Node) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, profile := range pki.Profiles() {
		if !profile.IsCA() {
			continue
		}
		ca, err := p.standInCA(e, n, profile.Name)
		if err != nil {
			return nil, err
		}
		key, err := pki.EncodeKey(ca.Key)
		if err != nil {
			return nil, err
		}
		files[pki.SealedName(profile.CertificateFile())] = pki.EncodeCertificates(ca.Certificate)
		files[pki.SealedName(profile.KeyFile())] = key
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
