package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// apiServerCheck is the check that reports why nothing of the cluster can be read.
const apiServerCheck = "APIServer"

func checkAPIServer(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	_, err := m.cluster.api(ctx, r)
	if err == nil || apierrors.IsForbidden(err) { // it answers
		return
	}
	endpoint, endpointErr := endpointOf(ctx, r, m.cluster.as.Kubeconfig)
	f := preflight.Finding{Severity: preflight.Error,
		Text: fmt.Sprintf("the API server at %s does not answer", endpoint), Evidence: err.Error(),
		Remedy: "run this command on a control plane node, and check the network between it and this machine"}
	_, isUnusable := errors.AsType[state.KubeconfigError](err)
	switch {
	case endpointErr != nil:
		f.Text = fmt.Sprintf("the API server cannot be queried: %v", endpointErr)
		f.Evidence, f.Remedy = "", "correct the kubeconfig "+m.cluster.as.Kubeconfig
	case isUnusable:
		f.Text = fmt.Sprintf("the kubeconfig %s cannot be used", m.cluster.as.Kubeconfig)
		f.Remedy = strings.Join(problem.Hints(err), "; ")
	case apierrors.IsUnauthorized(err):
		f.Text = fmt.Sprintf("the API server at %s rejects the user of %s", endpoint,
			m.cluster.as.Kubeconfig)
		f.Remedy = "check the client certificate or token in that file"
	case m.isControlPlane():
		f.Remedy = "fix what check StaticPods reports on the control plane nodes; if it reports nothing, " +
			"check the load balancer"
	case m.IsNode:
		f.Remedy += "; if the endpoint of the cluster has been changed, name the address of a control plane node: " +
			"kubeadm endpoint follow HOST"
	}
	rep.Add(f)
}
