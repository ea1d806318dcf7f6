package kubelet

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Without manual approval the certificate is issued within a second or two, or later if many machines join at once: so
// the requests, which are then as many, are first listed after approvalGrace, and less and less often. A list that takes
// longer than listLimit does not delay the wait for the certificate.
const (
	approvalGrace   = 5 * time.Second
	maxListInterval = time.Minute
	listLimit       = 2 * time.Second
)

// withRequestState returns the condition with errors that say in what state the kubelet's
// certificate signing request is.
func withRequestState(ctx context.Context, e *engine.Env, n *node.Node,
	c world.Condition) (world.Condition, error) {
	w, err := newCSRWatch(ctx, e, n)
	check := c.Check
	c.Check = func(ctx context.Context, r state.Reader) error {
		err := check(ctx, r)
		if err == nil {
			return nil
		}
		return w.addState(ctx, r, err)
	}
	return c, err
}

// csrWatch looks for the certificate signing requests of one kubelet.
type csrWatch struct {
	as      state.Identity
	user    string // who creates them; empty if that is not known
	subject string // their common name

	next     time.Time                // when to list them
	interval time.Duration            // between the list before and the next one
	say      func(f string, a ...any) // shows a new state
	state    error                    // the one found last
}

// newCSRWatch watches the requests that the kubelet makes with the bootstrap kubeconfig on this
// machine, or if that does not exist with the one from discovery.
func newCSRWatch(ctx context.Context, e *engine.Env, n *node.Node) (*csrWatch, error) {
	credential, err := state.ReadOptional(ctx, e.World, n.Paths.BootstrapKubeconfig())
	if err != nil {
		return nil, err
	}
	if credential == nil {
		credential = n.BootstrapKubeconfig
	}
	config, err := pki.ParseKubeconfig(credential)
	if err != nil {
		return nil, err
	}
	return &csrWatch{
		as: state.Identity{Config: n.BootstrapKubeconfig}, user: findRequestor(config),
		subject: "system:node:" + n.Name,
		next:    e.World.Now().Add(approvalGrace), interval: approvalGrace, say: e.Say,
	}, nil
}

// findRequestor returns the user name of the bootstrap credential in the API server; empty if it
// is not known.
func findRequestor(config *pki.Kubeconfig) string {
	if cert, err := config.ClientCertificate(); err == nil {
		return cert.Subject.CommonName
	}
	user, err := config.CurrentUser()
	if err != nil {
		return ""
	}
	id, _, err := node.ParseToken(user.Token)
	if err != nil {
		return ""
	}
	return bootstrapapi.BootstrapUserPrefix + id
}

// addState returns the state of the kubelet's request in place of err, if it is known.
func (w *csrWatch) addState(ctx context.Context, r state.Reader, err error) error {
	if now := r.Now(); now.After(w.next) {
		w.interval = min(2*w.interval, maxListInterval)
		w.next = now.Add(w.interval)
		before := w.state
		w.state = w.findState(ctx, r)
		if w.state != nil && (before == nil || before.Error() != w.state.Error()) {
			w.say("the kubelet has no certificate yet: %v", w.state)
		}
	}
	return cmp.Or(w.state, err)
}

// findState returns the state of the newest request without a certificate; nil if there is none, or
// if this machine may not list them. A request of an earlier join of this machine has a certificate.
func (w *csrWatch) findState(ctx context.Context, r state.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	requests, err := state.ListOf[certv1.CertificateSigningRequest](ctx, r, state.Query{
		GVK: certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), As: w.as,
		FieldSelector: "spec.signerName=" + certv1.KubeAPIServerClientKubeletSignerName,
		Fields:        []string{"spec.request", "spec.username", "status"}, Keep: w.isOwn,
	})
	if err != nil {
		return nil
	}
	if len(requests) == 0 {
		return nil
	}
	slices.SortFunc(requests, func(a, b certv1.CertificateSigningRequest) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return explainPending(requests)
}

// isOwn reports whether a request is of this kubelet and has no certificate.
func (w *csrWatch) isOwn(u *unstructured.Unstructured) bool {
	user, _, _ := unstructured.NestedString(u.Object, "spec", "username")
	certificate, _, _ := unstructured.NestedString(u.Object, "status", "certificate")
	text, _, _ := unstructured.NestedString(u.Object, "spec", "request")
	if certificate != "" || w.user != "" && w.user != user {
		return false
	}
	request, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	asked, err := pki.ParseRequest(request)
	return err == nil && asked.Subject.CommonName == w.subject
}

// explainPending says what the newest of the requests waits for.
func explainPending(newestFirst []certv1.CertificateSigningRequest) error {
	r := newestFirst[0]
	name := untrusted.Line(r.Name) // anyone with a bootstrap token chooses it
	for _, c := range r.Status.Conditions {
		switch {
		case c.Status == corev1.ConditionFalse:
		case c.Type == certv1.CertificateDenied, c.Type == certv1.CertificateFailed:
			return fmt.Errorf("its certificate signing request %s is %s: %s: %s", name,
				strings.ToLower(string(c.Type)), untrusted.Line(c.Reason), untrusted.Line(c.Message))
		case c.Type == certv1.CertificateApproved:
			return fmt.Errorf("its certificate signing request %s is approved, but not signed: check that kube-controller-manager is running and has the CA's key", name)
		}
	}
	approve := cmp.Or(untrusted.Command("kubectl certificate approve", r.Name),
		"its name is unusual: find out who created it before you approve it")
	var others []string // neither approved nor denied
	for _, older := range newestFirst[1:] {
		if len(older.Status.Conditions) == 0 {
			others = append(others, untrusted.Line(older.Name))
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("several certificate signing requests of this node are pending: "+
			"check that they are all from this machine, then approve the newest: %s (older: %s)",
			approve, strings.Join(others, ", "))
	}
	return errors.New("its certificate signing request " + name + " is pending: " + approve)
}
