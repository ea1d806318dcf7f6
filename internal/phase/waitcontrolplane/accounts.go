package waitcontrolplane

import (
	"context"
	"fmt"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// ControllerAccounts creates the ServiceAccounts of controllers while kube-controller-manager starts.
// It would create them itself, one after the other, for five seconds before the first controller
// starts (docs/decisions/0024).
var ControllerAccounts = engine.Phase{
	Name:   "controller-accounts",
	Short:  "Create the ServiceAccounts of controllers",
	Hidden: true,
	// it can do nothing for a control plane that nothing waits for
	OnlyWith: []string{"wait-control-plane"},
	Run:      createControllerAccounts,
}

func createControllerAccounts(ctx context.Context, e *engine.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	set, _ := node.LastArg(n.Cluster.ControllerManager.Args, "use-service-account-credentials")
	if enabled, err := strconv.ParseBool(set); err == nil && !enabled {
		return nil
	}
	clusterRoles, err := listControllerBindings(ctx, e, "ClusterRoleBinding", "", as)
	if err != nil {
		return err
	}
	roles, err := listControllerBindings(ctx, e, "RoleBinding", "kube-system", as)
	if err != nil {
		return err
	}
	objects, err := manifest.ControllerAccounts(append(clusterRoles, roles...))
	if err != nil {
		return err
	}
	var all []change.Change
	for _, o := range objects {
		all = append(all, change.ApplyObject{Object: o, As: as, Keep: true})
	}
	return e.DoAll(ctx, all...)
}

func listControllerBindings(ctx context.Context, e *engine.Env, kind, namespace string,
	as state.Identity) ([]unstructured.Unstructured, error) {
	all, err := e.List(ctx, state.Query{
		GVK: rbacv1.SchemeGroupVersion.WithKind(kind), Namespace: namespace,
		LabelSelector: manifest.ControllerBindingSelector, As: as,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the role bindings of the controllers: %w", err)
	}
	return all, nil
}
