package localkubelet

import (
	"context"
	"crypto"
	"fmt"
	"path"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
)

// ClientPair is a new client certificate of the kubelet and its key.
type ClientPair struct {
	Key         crypto.Signer
	Certificate []byte // PEM
	CA          []byte // CAs to trust, PEM; nil keeps those of kubelet.conf
}

// newKey generates a key of the type that the kubelet generates for itself.
func newKey(e *engine.Env) (crypto.Signer, error) {
	return pki.NewKey(e.Rand("kubelet-client/key"), pki.ECDSAP256)
}

// SignClientCert generates a key and signs its certificate.
func SignClientCert(e *engine.Env, ca pki.CA, s pki.Spec) (ClientPair, error) {
	key, err := newKey(e)
	if err != nil {
		return ClientPair{}, err
	}
	cert, err := ca.Issue(e.Rand("kubelet-client/certificate"), s, key.Public())
	if err != nil {
		return ClientPair{}, err
	}
	return ClientPair{Key: key, Certificate: pki.EncodeCertificates(cert)}, nil
}

// Install writes the pair as the kubelet does: a new file with certificate and key, and the link to
// it that kubelet.conf names. A certificate that is embedded in kubelet.conf and in use is replaced
// there. It does not restart the kubelet, which goes on to use the certificate before.
func (c *ClientCert) Install(ctx context.Context, e *engine.Env, p ClientPair) error {
	use, err := c.prepare(ctx, e, p)
	if err != nil {
		return err
	}
	return e.Do(ctx, use)
}

// prepare writes the new file, if there is to be one, and returns the change by which a kubelet
// that is started uses the pair.
func (c *ClientCert) prepare(ctx context.Context, e *engine.Env,
	p ClientPair) (use change.Change, err error) {
	key, err := pki.EncodeKey(p.Key)
	if err != nil {
		return nil, err
	}
	if c.File != "" {
		if err := c.UseFile(ctx, e); err != nil {
			return nil, err
		}
		dir := path.Dir(c.File)
		file := path.Join(dir, filePrefix+e.World.Now().Format(fileTime)+fileSuffix)
		return change.MakeLink{Path: c.File, To: file}, e.Do(ctx,
			change.MakeDir{Path: dir, Mode: 0o755}, change.WriteFile{Path: file,
				Data: slices.Concat(p.Certificate, key), Mode: 0o600, Secret: true})
	}
	ca := p.CA
	if ca == nil {
		cluster, err := c.Config.CurrentCluster()
		if err != nil {
			return nil, err
		}
		ca = cluster.CertificateAuthorityData
	}
	if err := c.Config.Renew(ca, p.Certificate, key); err != nil {
		return nil, fmt.Errorf("renewing the certificate in %s: %w", c.Path, err)
	}
	data, err := c.Config.Encode()
	return change.WriteFile{Path: c.Path, Data: data, Mode: 0o600, Secret: true}, err
}
