package waitcontrolplane

import (
	"context"
	"errors"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/state"
)

// bootstrapWatch follows a new API server from its first answer until it is live. About a second
// after that answer it begins to create its RBAC objects, one after the other: ClusterRoles,
// ClusterRoleBindings, then the few Roles and RoleBindings of namespaces. Then it is live.
type bootstrapWatch struct {
	as      state.Identity
	serves  bool      // it has answered
	begun   time.Time // the first ClusterRole exists; zero if it does not
	granted bool      // the components' rights exist before the components can ask for them
}

// fastRoles is in how much time all ClusterRoles exist on a machine that creates the rest before it
// starts a static Pod, which takes at least twice as long.
const fastRoles = 400 * time.Millisecond

// look reads how far it has come. As long as it does not find out, nothing is the case.
func (w *bootstrapWatch) look(ctx context.Context, r state.Reader) {
	if !w.serves || w.begun.IsZero() {
		exists, answered := w.find(ctx, r, "ClusterRole", "cluster-admin")
		w.serves = w.serves || answered
		if exists {
			w.begun = r.Now()
		}
		return
	}
	if w.granted || r.Now().Sub(w.begun) > fastRoles {
		return
	}
	exists, _ := w.find(ctx, r, "ClusterRoleBinding", "system:kube-scheduler")
	w.granted = exists && r.Now().Sub(w.begun) <= fastRoles
}

func (w *bootstrapWatch) find(ctx context.Context, r state.Reader, kind, name string) (exists,
	answered bool) {
	_, err := r.Object(ctx, state.Ref{GVK: rbacv1.SchemeGroupVersion.WithKind(kind), Name: name,
		As: w.as})
	var status apierrors.APIStatus
	return err == nil, err == nil || errors.As(err, &status)
}
