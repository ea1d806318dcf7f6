package doctor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// token is a bootstrap token, as the Secret stores it.
type token struct {
	id, secret string
	expires    time.Time // zero: never
	signs      bool      // it signs cluster-info
	isOwner    bool      // it only deletes another Secret when it expires
}

func readTokens(ctx context.Context, r state.Reader, as state.Identity) ([]token, error) {
	found, err := state.ListOf[corev1.Secret](ctx, r, state.Query{
		GVK:           corev1.SchemeGroupVersion.WithKind("Secret"),
		Namespace:     metav1.NamespaceSystem,
		FieldSelector: "type=" + string(bootstrapapi.SecretTypeBootstrapToken), As: as})
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

// lateCleanup is how long an expired token may still exist: the token cleaner removes it at once.
const lateCleanup = time.Minute

func checkTokens(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	tokens, err := readTokens(ctx, r, c.as)
	if c.skipOnError(rep, err) {
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
