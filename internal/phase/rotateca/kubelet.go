package rotateca

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"path"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// bringWorker brings a node without a control plane to a stage, as its kubelet.
func (m machine) bringWorker(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	if err := m.writeClientCAs(ctx, s); err != nil {
		return err
	}
	if err := m.writeKubeconfigCA(ctx, m.node.Paths.KubeletKubeconfig(), s); err != nil {
		return err
	}
	client, err := readKubeletClient(ctx, m.e, m.node)
	if err != nil {
		return err
	}
	if m.needsRenewal(client.Certificate, s) {
		if err := m.requestKubeletClient(ctx, client, s); err != nil {
			return err
		}
	}
	return m.restartKubelet(ctx, s)
}

// writeClientCAs writes the CAs of a stage to the file of the kubelet, unless that is the CA of the
// control plane on this node, which is written with its authorities.
func (m machine) writeClientCAs(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	file, err := m.clientCAFile(ctx)
	if err != nil {
		return err
	}
	if m.node.Role == node.ControlPlane && path.Clean(file) == m.node.Paths.Cert("ca") {
		return nil
	}
	data, err := m.newClientCAs(ctx, file, s)
	if err != nil {
		return err
	}
	return m.e.Do(ctx, change.WriteFile{Path: file, Data: data, Mode: 0o644})
}

// clientCAFile is the file with the CAs whose client certificates the kubelet accepts.
func (m machine) clientCAFile(ctx context.Context) (string, error) {
	file := m.node.Paths.KubeletConfig()
	data, err := state.ReadRequired(ctx, m.e.World, file)
	if err != nil {
		return "", err
	}
	var config kubeletconfig.KubeletConfiguration
	if err := yaml.Unmarshal(data, &config); err != nil {
		return "", problem.During("reading "+file, untrusted.Error(err), "correct the file")
	}
	if set := config.Authentication.X509.ClientCAFile; path.IsAbs(set) {
		return set, nil
	}
	return m.node.Paths.Cert("ca"), nil
}

// newClientCAs returns the CAs of a stage, and those of the file that are not of the rotation.
func (m machine) newClientCAs(ctx context.Context, file string, s rotation.Stage) ([]byte, error) {
	trusted := m.trusted(s, rotation.ClusterAuthority)
	data, err := state.ReadOptional(ctx, m.e.World, file)
	if err != nil || data == nil {
		return trusted, err
	}
	others, err := pki.WithoutCertificates(data, m.bothCAs())
	if err != nil {
		return nil, problem.During("reading "+file, err, "correct the file, or remove it")
	}
	return append(trusted, others...), nil
}

// readKubeletClient reads the client certificate of the kubelet. It is an error if the certificate
// cannot be used or replaced.
func readKubeletClient(ctx context.Context, e *engine.Env,
	n *node.Node) (*localkubelet.ClientCert, error) {
	c, err := localkubelet.ReadManagedClientCert(ctx, e.World, n.Paths)
	if err != nil {
		return nil, err
	}
	return c, c.CheckUsable()
}

// needsRenewal reports whether the side that does not sign in a stage has signed the certificate.
func (m machine) needsRenewal(cert *x509.Certificate, s rotation.Stage) bool {
	return !isSignedBy(cert, []byte(m.active(s)[rotation.ClusterAuthority])) &&
		isSignedBy(cert, []byte(m.other(s)[rotation.ClusterAuthority]))
}

// requestKubeletClient asks the cluster for a client certificate, as the kubelet does when it
// rotates its own: the request is approved automatically.
func (m machine) requestKubeletClient(ctx context.Context, c *localkubelet.ClientCert, s rotation.Stage) error {
	p, err := c.Request(ctx, m.e, localkubelet.RequestOptions{Name: "ca-rotation-" + m.node.Name, As: m.as,
		Timeout: m.node.Timeouts.TLSBootstrap})
	if err != nil {
		return err
	}
	if p.Certificate != nil { // but for a dry run, in which nothing is issued
		certs, err := pki.ParseCertificates(p.Certificate)
		if err != nil {
			return err
		}
		if !isSignedBy(certs[0], []byte(m.active(s)[rotation.ClusterAuthority])) {
			return problem.New(errors.New("the kubelet's client certificate is not signed by the CA of "+
				"this stage"),
				"check --cluster-signing-cert-file of kube-controller-manager on all control "+
					"plane nodes", "then re-run the command")
		}
	}
	return c.Install(ctx, m.e, p)
}

// restartKubelet restarts the kubelet if one of its files is newer, and waits until it is healthy.
func (m machine) restartKubelet(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	err := localkubelet.CheckService(ctx, m.e.World)
	if localkubelet.IsUnmanaged(err) {
		m.e.Warn("restart the kubelet of this node manually: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	ca, err := m.clientCAFile(ctx)
	if err != nil {
		return err
	}
	client, err := localkubelet.ReadManagedClientCert(ctx, m.e.World, m.node.Paths)
	if err != nil {
		return err
	}
	reads := []string{client.Path, ca}
	if client.File != "" {
		reads = append(reads, client.File)
	}
	if err := localkubelet.Start(ctx, m.e, reads...); err != nil {
		return err
	}
	if err := m.e.Await(ctx, health.Kubelet(ctx, m.e.World, m.node)); err != nil {
		return health.WithKubeletHints(m.node.Platform, err)
	}
	return m.warnOfServingCertificate(ctx, s)
}

// warnOfServingCertificate warns if the kubelet serves a certificate that the cluster has signed with
// the CA that does not sign in this stage.
func (m machine) warnOfServingCertificate(ctx context.Context, s rotation.Stage) error {
	file := path.Join(m.node.Paths.Kubelet, "pki", "kubelet-server-current.pem")
	data, err := state.ReadOptional(ctx, m.e.World, file)
	if err != nil || data == nil {
		return err
	}
	certs, err := pki.ParseCertificates(data)
	if err == nil && isSignedBy(certs[0], []byte(m.other(s)[rotation.ClusterAuthority])) {
		m.e.Warn("%s is signed by the CA that is being removed: to get a new one, remove the "+
			"file, restart the kubelet and approve its CertificateSigningRequest", file)
	}
	return nil
}

// keyID is the ID by which kube-apiserver names a public key in the tokens that it signs.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(digest[:]), nil
}
