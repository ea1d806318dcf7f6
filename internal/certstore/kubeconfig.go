package certstore

import (
	"context"
	"crypto/x509"
	"errors"
	"path"
	"strings"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// KubeconfigFile is a kubeconfig of this machine's control plane that exists.
type KubeconfigFile struct {
	Path   string
	Data   []byte
	Server string              // where it is expected to lead
	CAs    []*x509.Certificate // of the cluster; the file must trust one, and one must have signed its client certificate
}

// Check parses the file. It is an error if its user cannot get into the cluster: for another CA, a client
// certificate that has expired, is of another cluster or lacks its key, or no credentials at all. Another server is
// worth a warning only.
func (f KubeconfigFile) Check(ctx context.Context, r state.Reader) (config *pki.Kubeconfig, warnings []string, err error) {
	read := func(name string) ([]byte, error) {
		data, err := r.ReadFile(ctx, name)
		return data, state.ExplainMisplaced(ctx, r, name, err)
	}
	if config, err = pki.ParseKubeconfig(f.Data); err == nil {
		config.ResolvePaths(path.Dir(f.Path))
		err = config.CheckComplete()
	}
	if err == nil {
		warnings, err = config.CheckReuse(f.CAs, f.Server, read)
	}
	if err == nil && !f.rotates(config) {
		err = config.CheckClient(f.CAs, r.Now(), read)
	}
	if err == nil && !config.HasCredentials() {
		err = errors.New("its current user has no credentials, such as client-certificate-data and client-key-data")
	}
	if err == nil {
		return config, warnings, nil
	}
	hints := []string{"fix the file, or move it away to have a new one made"}
	if config != nil && f.expired(r) {
		if name := path.Base(f.Path); isRenewable(name) {
			hints = append([]string{"if it was good so far: kubeadm certs renew " + name}, hints...)
		}
		hints = append(hints, "if the certificate should be valid, compare this machine's clock with that of the machine that made it: timedatectl")
	}
	return config, warnings, problem.New("using the existing "+f.Path, err, hints...)
}

// rotates reports whether the kubelet keeps the client certificate, in a file of its own.
func (f KubeconfigFile) rotates(config *pki.Kubeconfig) bool {
	user, err := config.CurrentUser()
	return err == nil && strings.HasSuffix(user.ClientCertificate, "/kubelet-client-current.pem")
}

// expired reports whether the embedded client certificate is not valid now.
func (f KubeconfigFile) expired(r state.Reader) bool {
	config, err := pki.ParseKubeconfig(f.Data)
	if err != nil {
		return false
	}
	cert, err := config.ClientCertificate()
	return err == nil && pki.CheckPeriod(cert, r.Now()) != nil
}

func isRenewable(name string) bool {
	for _, c := range pki.Renewables() {
		if c.File == name {
			return true
		}
	}
	return false
}
