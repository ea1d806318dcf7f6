package waitcontrolplane

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

func TestControllerAccounts(t *testing.T) {
	const made = "object:ServiceAccount:kube-system/node-controller"
	for name, c := range map[string]struct {
		args []node.Arg
		made bool
	}{
		"as ever": {nil, true},
		"said once more": {[]node.Arg{{Name: "use-service-account-credentials", Value: "true"}},
			true},
		"not": {[]node.Arg{{Name: "use-service-account-credentials", Value: "false"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			w.RemoteAPIServer = true
			binding := &rbacv1.ClusterRoleBinding{
				TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(),
					Kind: "ClusterRoleBinding"},
				ObjectMeta: metav1.ObjectMeta{Name: "system:controller:node-controller",
					Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind,
					Namespace: "kube-system", Name: "node-controller"}},
			}
			if err := w.Do(t.Context(), change.ApplyObject{Object: binding}); err != nil {
				t.Fatal(err)
			}
			var did []string
			n := &node.Node{}
			n.Cluster.ControllerManager.Args = c.args
			e := engine.New(engine.Env{World: w, Node: engine.Resolved(n), Emit: func(ev engine.Event) {
				if ev.Kind == engine.Did {
					did = append(did, ev.Change.Target())
				}
			}, Admin: func(context.Context) (state.Identity, error) { return state.Identity{}, nil }})
			for range 2 { // the second time they exist
				if err := createControllerAccounts(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			if want := map[bool][]string{true: {made}}[c.made]; !slices.Equal(did, want) {
				t.Errorf("did %q, want %q", did, want)
			}
		})
	}
}
