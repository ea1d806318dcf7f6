package localkubelet

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// ClientCert is the client certificate that the kubelet uses: the one that kubelet.conf names, or
// embeds. The kubelet rotates it by itself until it expires. It stores an embedded certificate when it
// starts, and prefers what it has stored until that expires (k8s.io/client-go/util/certificate).
type ClientCert struct {
	Path string // of kubelet.conf
	// Config is kubelet.conf; it names File, even where the file still embeds another certificate.
	Config *pki.Kubeconfig
	// File is the file with certificate and key, which the kubelet replaces; empty if it uses those
	// that kubelet.conf embeds.
	File string
	// Certificate is nil if the file does not exist or cannot be read.
	Certificate *x509.Certificate
	embedded    []byte // PEM, that kubelet.conf embeds although the kubelet uses File
	unusable    error  // why the certificate or its key cannot be read, or do not match
	unmanaged   error  // why the certificate cannot be replaced, although it may be usable
}

// Name of the files of the kubelet's client certificate: prefix, time and extension, and the link to
// the current one.
const (
	filePrefix  = "kubelet-client-"
	fileTime    = "2006-01-02-15-04-05"
	fileSuffix  = ".pem"
	currentFile = filePrefix + "current" + fileSuffix
)

// userPrefix is that of the user name of a kubelet, before the name of its node.
const userPrefix = "system:node:"

// ReadClientCert reads kubelet.conf and the certificate that the kubelet uses. Without a kubelet.conf
// it returns nil.
func ReadClientCert(ctx context.Context, r state.Reader, paths node.Paths) (*ClientCert, error) {
	c := &ClientCert{Path: paths.KubeletKubeconfig()}
	data, err := state.ReadOptional(ctx, r, c.Path)
	if err != nil || data == nil {
		return nil, err
	}
	var user *api.AuthInfo
	c.Config, err = pki.ParseKubeconfig(data)
	if err == nil {
		_, err = c.Config.CurrentCluster()
	}
	if err == nil {
		user, err = c.Config.CurrentUser()
	}
	if err != nil {
		return nil, problem.During("reading "+c.Path, err,
			"restore the file from a backup, or generate a new one: kubeadm init phase kubeconfig kubelet on a control plane node, "+
				"kubeadm reset and kubeadm join on a worker")
	}
	c.Config.ResolvePaths(path.Dir(c.Path))
	read := func(name string) ([]byte, error) { return r.ReadFile(ctx, name) }
	stored := path.Join(paths.Kubelet, "pki", currentFile)
	switch embedded := user.ClientCertificateData; {
	case len(embedded) == 0:
		c.File = user.ClientCertificate
		c.unmanaged = checkOneFile(c.Path, user, stored)
	case isUsable(read, stored, r.Now()):
		c.File, c.embedded = stored, embedded
		if err := c.Config.UseRotatedCertificate(stored); err != nil {
			return nil, err
		}
	}
	found, err := c.Config.ClientPair(read)
	switch {
	case err == nil && len(found) == 0:
		c.unusable = fmt.Errorf("%s does not name a client certificate", c.Path)
	case err == nil:
		c.Certificate = found[0]
	case errors.Is(err, fs.ErrNotExist):
		c.unusable = fmt.Errorf("%s does not exist", c.File)
	default:
		c.unusable = err
		// The certificate itself may still say when it expires.
		text := user.ClientCertificateData
		if c.File != "" {
			text, _ = r.ReadFile(ctx, c.File)
		}
		if certs, err := pki.ParseCertificates(text); err == nil {
			c.Certificate = certs[0]
		}
	}
	return c, nil
}

// ReadManagedClientCert is ReadClientCert with an error if there is no kubelet.conf, or if the
// certificate cannot be replaced.
func ReadManagedClientCert(ctx context.Context, r state.Reader,
	paths node.Paths) (*ClientCert, error) {
	c, err := ReadClientCert(ctx, r, paths)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, problem.New(fmt.Errorf("%s does not exist", paths.KubeletKubeconfig()),
			"on a control plane node, generate it: kubeadm init phase kubeconfig kubelet",
			"on a worker, remove the node and join it again: kubeadm reset, kubeadm join")
	}
	return c, c.CheckManaged()
}

// isUsable reports whether the file has a certificate that has not expired, and its key.
func isUsable(read pki.ReadFile, file string, now time.Time) bool {
	text, err := read(file)
	if err != nil {
		return false
	}
	certs, err := pki.ParseCertificates(text)
	if err != nil || now.After(certs[0].NotAfter) {
		return false
	}
	key, err := pki.ParseClientKey(text)
	return err == nil && pki.IsKeyOf(key, certs[0].PublicKey)
}

// checkOneFile returns an error if certificate and key are in two files: the link to one new file
// would replace the certificate and not the key.
func checkOneFile(kubeconfig string, user *api.AuthInfo, managed string) error {
	isSplit := user.ClientKey != "" && path.Clean(user.ClientKey) != path.Clean(user.ClientCertificate)
	if user.ClientCertificate == "" || !isSplit && len(user.ClientKeyData) == 0 {
		return nil
	}
	return problem.New(
		fmt.Errorf("%s names a certificate and a key in two separate files, which kubeadm does not manage", kubeconfig),
		"replace both files, or set client-certificate and client-key to "+managed)
}

// Source says where the certificate is.
func (c *ClientCert) Source() string {
	switch {
	case c.embedded != nil:
		return c.Path + " does not embed the certificate that the kubelet uses, " + c.File
	case c.File == "":
		return c.Path + " embeds the certificate"
	}
	return c.Path + " names " + c.File
}

// UseFile makes kubelet.conf name File, where it still embeds another certificate than the kubelet
// uses.
func (c *ClientCert) UseFile(ctx context.Context, e *engine.Env) error {
	if c.embedded == nil {
		return nil
	}
	data, err := c.Config.Encode()
	if err != nil {
		return err
	}
	e.Say("switching %q to the client certificate that the kubelet rotates", c.Path)
	return e.Do(ctx, change.WriteFile{Path: c.Path, Data: data, Mode: 0o600, Secret: true})
}

// CheckManaged returns an error if the certificate cannot be replaced, as certificate and key are not
// in one place.
func (c *ClientCert) CheckManaged() error { return c.unmanaged }

// CheckUsable returns an error if the certificate or its key cannot be read, or do not match.
func (c *ClientCert) CheckUsable() error {
	if c.unusable == nil {
		return nil
	}
	return problem.During("reading the client certificate of the kubelet from "+c.Path,
		untrusted.Error(c.unusable), "check the files that it names")
}

// Check returns an error if the kubelet cannot log in with the certificate at that time, if it has
// not been rotated although less than a tenth of its validity is left, or if the kubelet could not
// start, since kubelet.conf embeds another one that has expired. The CA is that of the cluster; nil
// if it is not known.
func (c *ClientCert) Check(ca *x509.Certificate, now time.Time) error {
	if c.unusable != nil {
		return c.unusable
	}
	if c.embedded != nil {
		certs, err := pki.ParseCertificates(c.embedded)
		if err == nil {
			err = pki.CheckPeriod(certs[0], now)
		}
		if err != nil {
			return fmt.Errorf("%s, which keeps the kubelet from starting: %w", c.Source(), err)
		}
	}
	if err := pki.CheckPeriod(c.Certificate, now); err != nil {
		return err
	}
	if ca != nil {
		certs := []*x509.Certificate{c.Certificate}
		if err := pki.VerifyChain(certs, ca, pki.LatestNotBefore(c.Certificate, ca)); err != nil {
			return err
		}
	}
	left, whole := c.Certificate.NotAfter.Sub(now), c.Certificate.NotAfter.Sub(c.Certificate.NotBefore)
	if left < whole/10 {
		return fmt.Errorf("certificate %q expires in %s, but the kubelet has not rotated it",
			c.Certificate.Subject.CommonName, left.Round(time.Second))
	}
	return nil
}

// NodeName is the name of the node for which the certificate was issued. If it is missing, that of
// an earlier certificate in the same directory counts. It is empty if there is none.
func (c *ClientCert) NodeName(ctx context.Context, r state.Reader) string {
	candidates := []*x509.Certificate{c.Certificate}
	if c.File != "" {
		files, _ := r.ReadDir(ctx, path.Dir(c.File))
		for _, f := range slices.Backward(files) { // the newest one first
			if cert := readStored(ctx, r, f.Path); cert != nil {
				candidates = append(candidates, cert)
			}
		}
	}
	for _, cert := range candidates {
		if cert == nil {
			continue
		}
		if name, ok := strings.CutPrefix(cert.Subject.CommonName, userPrefix); ok {
			return name
		}
	}
	return ""
}

// readStored returns the certificate in a file that a kubelet has stored; nil if it has none.
func readStored(ctx context.Context, r state.Reader, file string) *x509.Certificate {
	if !strings.HasPrefix(path.Base(file), filePrefix) {
		return nil
	}
	text, err := r.ReadFile(ctx, file)
	if err != nil {
		return nil
	}
	certs, err := pki.ParseCertificates(text)
	if err != nil {
		return nil
	}
	return certs[0]
}

// RemoveClientCerts removes the stored client certificates of a node that this machine was before: they would be valid
// until they expire.
func RemoveClientCerts(ctx context.Context, e *engine.Env, name string) error {
	c, err := ReadClientCert(ctx, e.World, e.Local.Paths)
	if err != nil || c == nil || c.File == "" {
		return err
	}
	files, err := e.World.ReadDir(ctx, path.Dir(c.File))
	if err != nil {
		return err
	}
	for _, f := range files {
		cert := readStored(ctx, e.World, f.Path)
		if cert == nil || cert.Subject.CommonName != userPrefix+name || f.Path == c.File {
			continue
		}
		if err := e.Do(ctx, change.Remove{Path: f.Path}); err != nil {
			return err
		}
	}
	return nil
}
