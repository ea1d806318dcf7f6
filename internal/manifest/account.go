package manifest

import (
	"fmt"
	"kubeadm/internal/state"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControllerBindingSelector is the label selector of the bindings that the API server creates by
// default. Those of controllers are named "system:controller:" and the name of the controller.
const ControllerBindingSelector = "kubernetes.io/bootstrapping=rbac-defaults"

// ControllerAccounts are the ServiceAccounts of the controllers of kube-controller-manager: the
// subjects of their RoleBindings and ClusterRoleBindings. Other bindings are skipped.
func ControllerAccounts(bindings []unstructured.Unstructured) ([]state.Object, error) {
	notStarted := []string{ // they run in another program, or are off by default
		"cloud-provider", "leader-election-controller", "route-controller",
		"selinux-warning-controller", "service-controller",
	}
	var names []string
	for _, u := range bindings {
		var b rbacv1.ClusterRoleBinding // a RoleBinding has the same subjects
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &b); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if !strings.HasPrefix(b.Name, "system:controller:") {
			continue
		}
		for _, s := range b.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Namespace == kubeSystem &&
				!slices.Contains(notStarted, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	var all []state.Object
	for _, name := range slices.Compact(names) {
		all = append(all, newServiceAccount(name))
	}
	return all, nil
}
