package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// repairInfo writes cluster-info again, by admin.conf. Of the configuration of the cluster it needs
// nothing, and so no file.
const repairInfo = "kubeadm init phase bootstrap-token"

// checkClusterInfo reads cluster-info as a joining machine does, without credentials, and compares it
// with the CA and the address of this cluster. Its signatures are checked if the tokens can be read.
func checkClusterInfo(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	endpoint, err := endpointOf(ctx, r, m.cluster.as.Kubeconfig)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	cas, err := readCAs(ctx, r, m.Paths.Cert("ca"))
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	info, err := r.ClusterInfo(ctx, "https://"+endpoint, pki.EncodeCertificates(cas...))
	switch {
	case apierrors.IsNotFound(err):
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:   "ConfigMap kube-public/cluster-info does not exist, so no machine can join with a token",
			Remedy: "create it, along with a token that expires after a day", Command: repairInfo})
		return
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text:     "ConfigMap kube-public/cluster-info cannot be read without credentials, so no machine can join with a token",
			Evidence: err.Error(),
			Remedy:   "if that is intended, use discovery files; otherwise allow it again as described by check ClusterAccess"})
		return
	case err != nil:
		rep.Skip("%v", err)
		return
	}
	compareClusterInfo(ctx, r, rep, m, info[bootstrapapi.KubeConfigKey])
	checkSignatures(ctx, r, rep, m.cluster, info)
}

// compareClusterInfo compares the kubeconfig in cluster-info with this cluster. It has one cluster and
// no context.
func compareClusterInfo(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine,
	text string) {
	found := preflight.Finding{Severity: preflight.Error, Command: repairInfo,
		Remedy: "write it again, along with a token that expires after a day"}
	config, err := pki.ParseKubeconfig([]byte(text))
	if err == nil && len(config.Clusters) != 1 {
		err = fmt.Errorf("it has %d clusters instead of 1", len(config.Clusters))
	}
	if err != nil {
		addError(rep, found, fmt.Errorf("ConfigMap kube-public/cluster-info: %w", err))
		return
	}
	cas, err := readCAs(ctx, r, m.Paths.Cert("ca"))
	if err != nil {
		return // checkClusterInfo has reported it
	}
	for _, cluster := range config.Clusters {
		trusted, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
		if err != nil {
			addError(rep, found, fmt.Errorf("the CA in ConfigMap kube-public/cluster-info: %w", err))
			return
		}
		isCA := func(c *x509.Certificate) bool { return slices.ContainsFunc(cas, c.Equal) }
		if !slices.ContainsFunc(trusted, isCA) {
			found.Text = "ConfigMap kube-public/cluster-info does not have the CA of this cluster"
			found.Evidence = fmt.Sprintf("it has %s, but %s has %s", pki.PinOf(trusted[0]),
				m.Paths.Cert("ca"), pki.PinOf(cas[0]))
			rep.Add(found)
		}
		n, err := m.cluster.stored(ctx, r)
		if err == nil && n.Cluster.Endpoint != "" && cluster.Server != n.ServerURL() {
			found.Text = "ConfigMap kube-public/cluster-info sends joining machines to the wrong address"
			found.Evidence = fmt.Sprintf("it has %s, but the control plane endpoint is %s",
				cluster.Server, n.ServerURL())
			rep.Add(found)
		}
	}
}

func checkSignatures(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster,
	info map[string]string) {
	tokens, err := readTokens(ctx, r, c.as)
	if c.skipOnError(rep, err) {
		return
	}
	for _, t := range tokens {
		isValid := t.expires.IsZero() || t.expires.After(r.Now())
		signature := info[bootstrapapi.JWSSignatureKeyPrefix+t.id]
		if t.signs && isValid &&
			!jws.DetachedTokenIsValid(signature, info[bootstrapapi.KubeConfigKey], t.id, t.secret) {
			rep.Add(preflight.Finding{Severity: preflight.Error,
				Text:   fmt.Sprintf("ConfigMap kube-public/cluster-info is not signed with token %s, so no machine can join with that token", t.id),
				Remedy: "check kube-controller-manager: its bootstrap signer signs the ConfigMap"})
		}
	}
}
