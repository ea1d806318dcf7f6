package run

import (
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// certsSecret is the Secret with the uploaded certificates, for a control plane that has the
// certificate key.
func (o *offlineCluster) certsSecret(certificateKey string) ([]state.Object, error) {
	if certificateKey == "" {
		return nil, nil
	}
	key, err := pki.ParseCertificateKey(certificateKey)
	if err != nil {
		return nil, err
	}
	plain, err := o.sharedFiles()
	if err != nil {
		return nil, err
	}
	encrypted := map[string][]byte{}
	for name, data := range plain {
		if len(data) == 0 {
			encrypted[name] = []byte{}
			continue
		}
		if encrypted[name], err = key.Encrypt(o.random, data); err != nil {
			return nil, err
		}
	}
	return []state.Object{manifest.NewCertsSecret(encrypted, &corev1.Secret{})}, nil
}

// sharedFiles are the files that the control planes of the simulated cluster share, by their names
// in the Secret. An unknown key of its CA is empty, as for an external CA.
func (o *offlineCluster) sharedFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, profile := range pki.Profiles() {
		if !profile.IsCA() {
			continue
		}
		ca, err := o.ca, error(nil)
		if profile.Name != pki.ClusterCA {
			ca, err = o.newCA(profile.Name)
		}
		if err != nil {
			return nil, err
		}
		files[pki.UploadedName(profile.CertificateFile())] = pki.EncodeCertificates(ca.Certificate)
		files[pki.UploadedName(profile.KeyFile())] = nil
		if !ca.CanIssue() {
			continue
		}
		if files[pki.UploadedName(profile.KeyFile())], err = pki.EncodeKey(ca.Key); err != nil {
			return nil, err
		}
	}
	key, err := pki.NewKey(o.random, pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	if files[pki.ServiceAccountKey], err = pki.EncodeKey(key); err != nil {
		return nil, err
	}
	files[pki.ServiceAccountPublicKey], err = pki.EncodePublicKey(key.Public())
	return files, err
}
