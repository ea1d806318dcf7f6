package workflow

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// joinedAccess sees to the rights of an additional control plane node, in a cluster that an older
// kubeadm or another program made. It creates what the API server of this machine needs, and names
// what else is missing: users delete some bindings on purpose (docs/decisions/0059).
var joinedAccess = engine.Phase{
	Name:     "cluster-access",
	Short:    "Check the access rules that an additional control plane node needs",
	Hidden:   true,
	OnlyWith: []string{"control-plane-prepare"},
	When:     node.IsControlPlane,
	Run:      checkJoinedAccess,
}

func checkJoinedAccess(ctx context.Context, e *engine.Env) error {
	as, err := e.Admin(ctx)
	if err != nil {
		return err
	}
	isMissing := func(o state.Object) (bool, error) {
		_, err := e.Object(ctx, state.RefOf(o, as))
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}
	// The API server creates this role itself. A dry run does not find it, since the kubeconfig of
	// the administrator does not exist yet: then nothing is known of the others either.
	builtIn, client := manifest.KubeletAPIAdmin(), manifest.KubeletClientAccess()
	if unknown, err := isMissing(builtIn); err == nil && unknown {
		e.Say("the access rules of the cluster can be read only with %s; join creates the %s if the "+
			"cluster lacks it, and warns of others that are missing", as.Kubeconfig,
			state.RefOf(client, as))
		return nil
	}
	missing, err := isMissing(client)
	switch {
	case apierrors.IsForbidden(err):
		return problem.New(fmt.Errorf("the user of %s may not read the access rules of the "+
			"cluster: %w", as.Kubeconfig, err), fmt.Sprintf("it is in the group %s, which a cluster-admin "+
			"must bind: kubectl create clusterrolebinding %s "+
			"--clusterrole=cluster-admin --group=%s", manifest.AdminGroup,
			manifest.ClusterAdmins().GetName(), manifest.AdminGroup))
	case err != nil:
		return err
	case missing:
		e.Say("creating the %s, without which kubectl logs and exec fail through this node's API "+
			"server", state.RefOf(client, as))
		err := e.Do(ctx, change.ApplyObject{Object: client, As: as, Keep: true})
		if apierrors.IsForbidden(err) {
			e.Warn("kubectl logs and exec fail through this node's API server until a cluster-admin "+
				"creates a binding: kubectl create clusterrolebinding %s "+
				"--clusterrole=system:kubelet-api-admin --user=kube-apiserver-kubelet-client: %v",
				client.GetName(), err)
		} else if err != nil {
			return err
		}
	}
	var names []string
	for _, o := range manifest.JoinAccess() {
		missing, err := isMissing(o)
		if err != nil {
			return err
		}
		if missing {
			names = append(names, state.RefOf(o, as).String())
		}
	}
	if len(names) > 0 {
		e.Warn("the cluster does not have these access rules, which nodes need to join and to renew "+
			"their certificates: %s; kubeadm doctor on a control plane node shows how to create them",
			strings.Join(names, ", "))
	}
	return nil
}
