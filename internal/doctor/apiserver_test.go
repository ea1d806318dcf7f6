package doctor

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// expiredUser is a world in which the client certificate of the kubeconfig has expired, so that no
// request is sent.
type expiredUser struct{ *fake.World }

func (expiredUser) Livez(_ context.Context, as state.Identity) error {
	return state.KubeconfigError{Err: problem.New(fmt.Errorf("using %s: its client certificate has expired", as.Kubeconfig),
		"renew the certificate")}
}

// A credential that has expired is no defect of the API server.
func TestExpiredCredentialIsNoDefectOfAPIServer(t *testing.T) {
	s := newHealthyNode(t)
	s.seen = expiredUser{s.world}
	d := s.diagnose(t)
	if len(d.Findings) != 1 || d.Findings[0].Check != "APIServer" || d.Findings[0].Remedy != "renew the certificate" ||
		d.Findings[0].Text != "the kubeconfig /etc/kubernetes/admin.conf cannot be used" {
		t.Errorf("got:\n%s", describeFindings(d))
	}
	if !slices.Contains(d.Passed[Node], "StaticPods") {
		t.Errorf("the API server is not healthy: %+v", d)
	}
}
