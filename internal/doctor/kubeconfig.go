package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"kubeadm/internal/certstore"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// endpointOf is the "host:port" of the API server in a kubeconfig.
func endpointOf(ctx context.Context, r state.Reader, file string) (string, error) {
	if file == "" {
		return "", errors.New("this machine has no kubeconfig for a cluster")
	}
	data, err := r.ReadFile(ctx, file)
	if err != nil {
		return "", err
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	endpoint, err := config.Endpoint()
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	endpoint, _, _ = strings.Cut(endpoint, "/")
	return endpoint, nil
}

// checkKubeconfigs checks the kubeconfigs of this machine: address, CA and client certificate.
func checkKubeconfigs(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	cas, err := readCAs(ctx, r, m.Paths.Cert("ca"))
	if err != nil {
		addError(rep, preflight.Finding{Remedy: "restore it from a backup, or copy it from another node"},
			err)
		return
	}
	for _, p := range pki.KubeconfigProfiles() {
		if !m.isControlPlane() && !p.PerNode {
			continue
		}
		file := m.Paths.Kubeconfig(p.File)
		data, err := r.ReadFile(ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			reportMissing(ctx, r, rep, m, p)
			continue
		}
		f := preflight.Finding{Command: "kubeadm certs renew " + p.File + " --restart"}
		if p.PerNode {
			f.Command = ""
		}
		if err != nil {
			addError(rep, preflight.Finding{}, err)
			continue
		}
		checked := certstore.KubeconfigFile{Path: file, Data: data, CAs: cas,
			Server: expectedServer(ctx, r, m, data)}
		_, warnings, err := checked.Check(ctx, r)
		if err != nil {
			addError(rep, f, err)
			continue
		}
		for _, text := range warnings {
			rep.Add(preflight.Finding{Severity: preflight.Error, Text: file + ": " +
				strings.TrimSuffix(text, "; it is kept as it is"),
				Remedy: untrusted.CommandHint("set the API server's address in the file",
					"kubectl config set-cluster NAME --kubeconfig", file, "--server="+checked.Server)})
		}
	}
}

func reportMissing(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine,
	p pki.KubeconfigProfile) {
	file := m.Paths.Kubeconfig(p.File)
	f := preflight.Finding{Severity: preflight.Error, Text: file + " does not exist"}
	f.Remedy, f.Command = generateFile(m, "kubeconfig "+p.Name)
	switch {
	case p.Name == "super-admin": // moved away, or on the first control plane node only
		return
	case p.Name == "admin": // the user may have moved it away
		f.Severity = preflight.Warning
	case p.PerNode && exists(ctx, r, m.Paths.BootstrapKubeconfig()):
		f.Text = "the kubelet has not received its client certificate: " + f.Text
		f.Remedy = "check its log, journalctl -xeu kubelet, and whether its request is pending: kubectl get csr; " +
			"if the token has expired, re-run kubeadm join with a new one"
		f.Command = ""
	case p.PerNode && !m.isControlPlane():
		f.Remedy, f.Command = "remove the node and join it again: kubeadm reset, kubeadm join", ""
	}
	rep.Add(f)
}

// expectedServer returns the URL that a kubeconfig should have. One of several that are right is that
// in the file: of the API server beside it, or with any host that the certificate of the API server
// names, such as that of a load balancer on each node. Of a host that it does not name, the control
// plane endpoint is right.
func expectedServer(ctx context.Context, r state.Reader, m *machine, data []byte) string {
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return ""
	}
	cluster, err := config.CurrentCluster()
	if err != nil || !m.isControlPlane() || m.Address == "" ||
		cluster.Server == m.LocalServerURL() {
		if cluster == nil {
			return ""
		}
		return cluster.Server // that of a worker is not known
	}
	served, err := certstore.ReadRenewable(ctx, r, m.Paths, pki.Renewable{Base: "apiserver"})
	isKnown := err == nil && served != nil
	u, wrongURL := url.Parse(cluster.Server)
	if isKnown && wrongURL == nil && served.VerifyHostname(u.Hostname()) == nil {
		return cluster.Server
	}
	if _, apiErr := m.cluster.api(ctx, r); apiErr == nil {
		if n, err := m.cluster.stored(ctx, r); err == nil {
			return n.ServerURL()
		}
	}
	if !isKnown && wrongURL == nil {
		return cluster.Server
	}
	return m.LocalServerURL()
}
