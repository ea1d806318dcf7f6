package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// repairInfo writes cluster-info again, by admin.conf. Of the configuration of the cluster it needs
// nothing, and so no file.
const repairInfo = "kubeadm init phase bootstrap-token"

// checkClusterInfo reads cluster-info as a joining machine does, without credentials, and compares it
// with the CA and the address of this cluster. Its signatures are checked if the tokens can be read.
func (m *machine) checkClusterInfo(ctx context.Context, r state.Reader, rep *preflight.Report) {
	endpoint, err := m.endpoint(ctx)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	cas, err := m.readCAs(ctx, r, "ca")
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
	m.compareClusterInfo(ctx, r, rep, info[bootstrapapi.KubeConfigKey])
	m.checkSignatures(ctx, r, rep, info)
}

// compareClusterInfo compares the kubeconfig in cluster-info with this cluster. It has one cluster and
// no context.
func (m *machine) compareClusterInfo(ctx context.Context, r state.Reader, rep *preflight.Report,
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
	cas, err := m.readCAs(ctx, r, "ca")
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
				m.local.Paths.Cert("ca"), pki.PinOf(cas[0]))
			rep.Add(found)
		}
		n, err := m.stored(ctx, r)
		if err == nil && n.Cluster.Endpoint != "" && cluster.Server != n.ServerURL() {
			found.Text = "ConfigMap kube-public/cluster-info sends joining machines to the wrong address"
			found.Evidence = fmt.Sprintf("it has %s, but the control plane endpoint is %s",
				cluster.Server, n.ServerURL())
			rep.Add(found)
		}
	}
}

// token is a bootstrap token, as the Secret stores it.
type token struct {
	id, secret string
	expires    time.Time // zero: never
	signs      bool      // it signs cluster-info
	isOwner    bool      // it only deletes another Secret when it expires
}

func (m *machine) readTokens(ctx context.Context, r state.Reader) ([]token, error) {
	found, err := listObjects[corev1.Secret](ctx, r, state.Query{
		GVK:           corev1.SchemeGroupVersion.WithKind("Secret"),
		Namespace:     metav1.NamespaceSystem,
		FieldSelector: "type=" + string(bootstrapapi.SecretTypeBootstrapToken), As: m.identity})
	if err != nil {
		return nil, err
	}
	var all []token
	for _, s := range found {
		t := token{id: string(s.Data[bootstrapapi.BootstrapTokenIDKey]),
			secret: string(s.Data[bootstrapapi.BootstrapTokenSecretKey]),
			signs:  string(s.Data[bootstrapapi.BootstrapTokenUsageSigningKey]) == "true"}
		t.isOwner = !t.signs && string(s.Data[bootstrapapi.BootstrapTokenUsageAuthentication]) != "true"
		if text, ok := s.Data[bootstrapapi.BootstrapTokenExpirationKey]; ok {
			if t.expires, err = time.Parse(time.RFC3339, string(text)); err != nil {
				return nil, fmt.Errorf("secret kube-system/%s: %s: %w", s.Name,
					bootstrapapi.BootstrapTokenExpirationKey, err)
			}
		}
		all = append(all, t)
	}
	return all, nil
}

func (m *machine) checkSignatures(ctx context.Context, r state.Reader, rep *preflight.Report,
	info map[string]string) {
	tokens, err := m.readTokens(ctx, r)
	if m.skipOnError(rep, err) {
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

// lateCleanup is how long an expired token may still exist: the token cleaner removes it at once.
const lateCleanup = time.Minute

func (m *machine) checkTokens(ctx context.Context, r state.Reader, rep *preflight.Report) {
	tokens, err := m.readTokens(ctx, r)
	if m.skipOnError(rep, err) {
		return
	}
	for _, t := range tokens {
		remove := untrusted.Command("kubeadm token delete", t.id)
		switch {
		case t.expires.IsZero():
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text:   fmt.Sprintf("bootstrap token %s never expires", t.id),
				Remedy: "delete it, and create one that expires whenever you need one", Command: remove})
		case r.Now().Sub(t.expires) > lateCleanup:
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text:     fmt.Sprintf("bootstrap token %s has expired, but still exists", t.id),
				Evidence: "it expired at " + t.expires.UTC().Format(time.RFC3339),
				Remedy:   "check kube-controller-manager, whose token cleaner should have deleted it, or delete it yourself", Command: remove})
		}
	}
}

// removable are bindings that users delete so that only machines with an approved request, or with a
// discovery file, join the cluster
// (https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-join/#securing-more).
var removable = []string{"ClusterRoleBinding kubeadm:node-autoapprove-bootstrap",
	"RoleBinding kube-public/kubeadm:bootstrap-signer-clusterinfo"}

// checkAccess compares the roles and bindings that kubeadm creates with those in the cluster.
func (m *machine) checkAccess(ctx context.Context, r state.Reader, rep *preflight.Report) {
	for _, group := range []struct {
		objects    []state.Object
		kubeconfig string // of a user who may create them
	}{
		{manifest.BootstrapRBAC(), m.identity.Kubeconfig},
		{manifest.KubeadmConfigAccess.Objects(), m.identity.Kubeconfig},
		{manifest.KubeletConfigAccess.Objects(), m.identity.Kubeconfig},
		{[]state.Object{manifest.ClusterAdmins()}, m.local.Paths.Kubeconfig("super-admin.conf")},
	} {
		for _, o := range group.objects {
			done, err := change.ApplyObject{Object: o, As: m.identity}.Done(ctx, r)
			if m.skipOnError(rep, err) {
				return
			}
			if done {
				continue
			}
			ref := state.RefOf(o, m.identity)
			f := preflight.Finding{Severity: preflight.Error,
				Text:   fmt.Sprintf("%s is missing, or differs from the one that kubeadm creates", ref),
				Remedy: "create it again", Command: reconcileCommand(o, group.kubeconfig)}
			if slices.Contains(removable, ref.String()) {
				f.Severity = preflight.Warning
				f.Remedy = "unless that is intended, create it again"
			}
			rep.Add(f)
		}
	}
}
