package manifest

import (
	"fmt"
	"kubeadm/internal/state"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControllerBindings selects, by label, the bindings that the API server makes by itself; those for controllers are named
// "system:controller:" and the controller.
const ControllerBindings = "kubernetes.io/bootstrapping=rbac-defaults"

// ControllerAccounts are the ServiceAccounts as which the controllers of kube-controller-manager work, as the bindings
// (RoleBindings and ClusterRoleBindings) tell that give them their rights. Other bindings are passed over.
func ControllerAccounts(bindings []unstructured.Unstructured) ([]state.Object, error) {
	var names []string
	for _, u := range bindings {
		var b rbacv1.ClusterRoleBinding // a RoleBinding names its subjects in the same way
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &b); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if !strings.HasPrefix(b.Name, "system:controller:") {
			continue
		}
		for _, s := range b.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Namespace == kubeSystem && !elsewhere(s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	var all []state.Object
	for _, name := range slices.Compact(names) {
		all = append(all, &corev1.ServiceAccount{TypeMeta: core("ServiceAccount"), ObjectMeta: named(kubeSystem, name)})
	}
	return all, nil
}

// elsewhere tells of the controllers with rights that run in another program or only when asked for.
func elsewhere(controller string) bool {
	return slices.Contains([]string{
		"cloud-provider", "leader-election-controller", "route-controller", "selinux-warning-controller", "service-controller",
	}, controller)
}
