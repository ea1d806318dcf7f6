package laws

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

func listWarnings(out outcome) (all []string) {
	for _, e := range out.events {
		if e.Kind == engine.Warned {
			all = append(all, e.Text)
		}
	}
	return all
}

func keyOf(o state.Object) memory.Key {
	return memory.Key{Kind: o.GetObjectKind().GroupVersionKind().GroupKind(),
		Namespace: o.GetNamespace(), Name: o.GetName()}
}

// refusing is a cluster in which the user may not do something with access rules.
type refusing struct {
	world.World
	reads, writes bool
}

func (r refusing) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if r.reads && ref.GVK.Group == rbacv1.GroupName {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "rules"}, ref.Name, nil)
	}
	return r.World.Object(ctx, ref)
}

func (r refusing) Do(ctx context.Context, c change.Change) error {
	if a, ok := c.(change.ApplyObject); ok && r.writes && state.RefOf(a.Object, a.As).GVK.Group == rbacv1.GroupName {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "rules"}, a.Object.GetName(), nil)
	}
	return r.World.Do(ctx, c)
}

// A control plane that joins a cluster of an older kubeadm gives its API server access to kubelets, and
// names what else is missing.
func TestControlPlaneJoinsClusterWithoutAccessRules(t *testing.T) {
	client := manifest.KubeletClientAccess()
	subject := findSubject("join a control plane")
	join := func(t *testing.T, in func(world.World) world.World, missing ...state.Object) (*fake.World, outcome) {
		w := subject.machine(t)
		if err := w.PutObject(manifest.KubeletAPIAdmin()); err != nil {
			t.Fatal(err)
		}
		for _, o := range missing {
			if _, ok := w.Objects[keyOf(o)]; !ok {
				t.Fatalf("the cluster has no %s", o.GetName())
			}
			delete(w.Objects, keyOf(o))
		}
		r := subject.newRun(w)
		r.observe = in
		return w, r.execute(t)
	}
	plain := func(w world.World) world.World { return w }
	t.Run("created", func(t *testing.T) {
		w, out := join(t, plain, client)
		if u := w.Objects[keyOf(client)]; out.err != nil || u == nil {
			t.Errorf("the binding is %v: %v", u, out.err)
		}
	})
	t.Run("what else is missing is named", func(t *testing.T) {
		rest := manifest.JoinAccess()
		w, out := join(t, plain, rest...)
		said := strings.Join(listWarnings(out), "\n")
		for _, o := range rest {
			if w.Objects[keyOf(o)] != nil || !strings.Contains(said, o.GetName()) {
				t.Errorf("%s is created or not named: %s", o.GetName(), said)
			}
		}
		if out.err != nil || !strings.Contains(said, "kubeadm doctor") {
			t.Errorf("%v: %s", out.err, said)
		}
	})
	t.Run("what users delete on purpose is not named", func(t *testing.T) {
		_, out := join(t, plain)
		if said := strings.Join(listWarnings(out), "\n"); out.err != nil || strings.Contains(said, "access rules") {
			t.Errorf("%v: %s", out.err, said)
		}
	})
	t.Run("a dry run says what a join creates", func(t *testing.T) {
		w := subject.machine(t)
		delete(w.Objects, keyOf(client))
		out := subject.newRun(w).asDryRun(t).execute(t)
		if out.err != nil || !slices.ContainsFunc(out.events, func(e engine.Event) bool {
			return e.Kind == engine.Info && strings.Contains(e.Text, "creates the ClusterRoleBinding "+client.GetName())
		}) {
			t.Errorf("%v: it does not name %s", out.err, client.GetName())
		}
	})
	t.Run("may not create", func(t *testing.T) {
		_, out := join(t, func(w world.World) world.World { return refusing{w, false, true} }, client)
		if said := strings.Join(listWarnings(out), "\n"); out.err != nil ||
			!strings.Contains(said, "kubectl create clusterrolebinding "+client.GetName()) {
			t.Errorf("%v: %s", out.err, said)
		}
	})
	t.Run("may not read", func(t *testing.T) {
		_, out := join(t, func(w world.World) world.World { return refusing{w, true, false} })
		if hints := strings.Join(problem.Hints(out.err), "\n"); out.err == nil ||
			!strings.Contains(hints, "--group=kubeadm:cluster-admins") {
			t.Errorf("%v: %s", out.err, hints)
		}
	})
}
