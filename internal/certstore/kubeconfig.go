package certstore

import (
	"context"
	"crypto/x509"
	"errors"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// KubeconfigFile is an existing kubeconfig of this control plane.
type KubeconfigFile struct {
	Path   string
	Data   []byte
	Server string // the expected URL of the API server
	// of the cluster; the file must trust one, and one must have signed its client certificate
	CAs []*x509.Certificate
}

// Check parses the file. It returns an error if the file cannot be used for the cluster: it trusts
// another CA, its client certificate has expired, was signed by another CA or lacks its
// key, or it has no credentials at all. A different server is a warning only.
func (f KubeconfigFile) Check(ctx context.Context,
	r state.Reader) (config *pki.Kubeconfig, warnings []string, err error) {
	read := func(name string) ([]byte, error) {
		data, err := r.ReadFile(ctx, name)
		return data, state.ExplainMisplaced(ctx, r, name, err)
	}
	hints := []string{"fix the file, or move it out of the way so that kubeadm generates a new one"}
	if config, err = pki.ParseKubeconfig(f.Data); err != nil {
		return nil, nil, problem.During("using the existing "+f.Path, err, hints...)
	}
	config.ResolvePaths(path.Dir(f.Path))
	if err = config.CheckComplete(); err == nil {
		warnings, err = config.CheckReuse(f.CAs, f.Server, read)
	}
	if err == nil {
		// The kubelet rotates a client certificate in a file of its own.
		user, userErr := config.CurrentUser()
		if userErr != nil ||
			!strings.HasSuffix(user.ClientCertificate, "/kubelet-client-current.pem") {
			err = config.CheckClient(f.CAs, r.Now(), read)
		}
	}
	if err == nil && !config.HasCredentials() {
		err = errors.New("its current user has no credentials, such as client-certificate-data and client-key-data")
	}
	if err == nil {
		return config, warnings, nil
	}
	if cert, certErr := config.ClientCertificate(); certErr == nil &&
		pki.CheckPeriod(cert, r.Now()) != nil {
		name := path.Base(f.Path)
		if slices.ContainsFunc(pki.Renewables(),
			func(c pki.Renewable) bool { return c.File == name }) {
			hints = append([]string{"if it has worked until now: kubeadm certs renew " + name},
				hints...)
		}
		hints = append(hints,
			"if the certificate should be valid, compare this machine's clock with that of the machine that generated it: timedatectl")
	}
	return config, warnings, problem.During("using the existing "+f.Path, err, hints...)
}

// ReadAdmin reads the kubeconfig of an administrator, from which others learn server and CA of the
// cluster. It embeds the CA if the file names it by its path.
func ReadAdmin(ctx context.Context, r state.Reader, file string) (*pki.Kubeconfig, error) {
	var config *pki.Kubeconfig
	data, err := r.ReadFile(ctx, file)
	if err == nil {
		config, err = pki.ParseKubeconfig(data)
	}
	if err == nil {
		_, err = config.CurrentCluster()
	}
	if err == nil {
		config.ResolvePaths(path.Dir(file))
		err = config.EmbedCA(func(name string) ([]byte, error) { return r.ReadFile(ctx, name) })
	}
	if err != nil {
		return nil, problem.During("reading the kubeconfig "+file, err,
			"correct the file, or use another administrator's kubeconfig",
			"to generate it again, move it out of the way and run: kubeadm init phase kubeconfig admin")
	}
	return config, nil
}
