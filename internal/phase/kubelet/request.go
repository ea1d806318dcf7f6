package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Where nobody has to approve, the certificate is there within a second or two. After that the cluster is asked now
// and then: it may be busy with many machines that join at once.
const (
	approvalGrace = 3 * time.Second
	listInterval  = 5 * time.Second
)

// withRequestState is the condition, telling what has become of the certificate requests of this machine's kubelet while it waits for them.
func withRequestState(ctx context.Context, e *flow.Env, n *node.Node, c world.Condition) (world.Condition, error) {
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

// csrWatch looks for the certificate requests of one kubelet.
type csrWatch struct {
	as      state.Identity
	user    string // who makes them; empty if that is not known
	subject string // in whose name

	next  time.Time                // when to ask
	say   func(f string, a ...any) // tells the user once that it is his turn
	state error                    // what was found last
}

// newCSRWatch begins to look for the requests that the kubelet makes with the bootstrap credential on this machine, if that is there, or
// else with the one that it would be given.
func newCSRWatch(ctx context.Context, e *flow.Env, n *node.Node) (*csrWatch, error) {
	credential, err := state.ReadOptional(ctx, e.World, n.Paths.BootstrapKubeconfig())
	if err != nil {
		return nil, err
	}
	if credential == nil {
		credential = n.Bootstrap
	}
	config, err := pki.ParseKubeconfig(credential)
	if err != nil {
		return nil, err
	}
	return &csrWatch{
		as: state.Identity{Config: n.Bootstrap}, user: findRequestor(config), subject: "system:node:" + n.Name,
		next: e.World.Now().Add(approvalGrace), say: e.Say,
	}, nil
}

// findRequestor is as whom the API server knows the bootstrap credential, as far as it can be told from here.
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

// addState says what the kubelet waits for, in place of err, if the cluster tells.
func (w *csrWatch) addState(ctx context.Context, r state.Reader, err error) error {
	if now := r.Now(); now.After(w.next) {
		w.next = now.Add(listInterval)
		before := w.state
		w.state = w.findState(ctx, r)
		if w.state != nil && (before == nil || before.Error() != w.state.Error()) {
			w.say("the kubelet has no certificate yet: %v", w.state)
		}
	}
	return cmp.Or(w.state, err)
}

// findState tells what has become of the newest request; nil if there is none, or if this machine may not know.
func (w *csrWatch) findState(ctx context.Context, r state.Reader) error {
	all, err := r.List(ctx, state.Query{
		GVK: certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), As: w.as,
		FieldSelector: "spec.signerName=" + certv1.KubeAPIServerClientKubeletSignerName,
	})
	if err != nil {
		return nil
	}
	var own []certv1.CertificateSigningRequest
	for _, u := range all {
		var one certv1.CertificateSigningRequest
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &one); err == nil && w.isOwn(one) {
			own = append(own, one)
		}
	}
	if len(own) == 0 {
		return nil
	}
	slices.SortFunc(own, func(a, b certv1.CertificateSigningRequest) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return explainPending(own)
}

func (w *csrWatch) isOwn(r certv1.CertificateSigningRequest) bool {
	asked, err := pki.ParseRequest(r.Spec.Request)
	return err == nil && asked.Subject.CommonName == w.subject && (w.user == "" || w.user == r.Spec.Username)
}

// explainPending is what the newest of the requests waits for.
func explainPending(newestFirst []certv1.CertificateSigningRequest) error {
	r := newestFirst[0]
	for _, c := range r.Status.Conditions {
		switch {
		case c.Status == corev1.ConditionFalse:
		case c.Type == certv1.CertificateDenied, c.Type == certv1.CertificateFailed:
			return fmt.Errorf("its certificate request %s is %s: %s: %s", r.Name, strings.ToLower(string(c.Type)), c.Reason, c.Message)
		case c.Type == certv1.CertificateApproved:
			return fmt.Errorf("its certificate request %s is approved, but not signed: see whether kube-controller-manager runs and has the key of the CA", r.Name)
		}
	}
	approve := "kubectl certificate approve " + r.Name
	if others := listUndecided(newestFirst[1:]); len(others) > 0 {
		return fmt.Errorf("several certificate requests in the name of this node wait for approval: make sure that nobody else makes them, then approve the newest: %s (older: %s)",
			approve, strings.Join(others, ", "))
	}
	return errors.New("its certificate request " + r.Name + " waits for approval: " + approve)
}

// listUndecided are the names of requests that nobody has decided about.
func listUndecided(all []certv1.CertificateSigningRequest) (names []string) {
	for _, r := range all {
		if len(r.Status.Conditions) == 0 {
			names = append(names, r.Name)
		}
	}
	return names
}
