package upgrade

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/world/kube"
	"kubeadm/internal/world/worldtest/plane"
)

// realReader reads the objects of a real API server; everything else is a fake's.
type realReader struct {
	state.Reader
	kube *kube.Cluster
}

func (r realReader) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	return r.kube.Object(ctx, ref)
}

func (r realReader) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	return r.kube.List(ctx, q)
}

func (r realReader) TryCreate(ctx context.Context, o state.Object, as state.Identity) error {
	return r.kube.TryCreate(ctx, o, as)
}

// The cluster of the fake is read and checked as one that a real API server serves, and no Job is
// left behind. It is skipped unless KUBEADM_BUNDLE names a directory with the components of a
// release.
func TestRealAPIServer(t *testing.T) {
	a := plane.StartAPIServer(t)
	k := kube.New(os.ReadFile)
	w := testWorld(t)
	a.Apply(t, w.AllObjects()...)
	r := realReader{w, k}
	cluster, warnings, err := ReadCluster(t.Context(), r, a.Admin)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if cluster.Version.String() != "1.36.3" || len(cluster.Kubelets) != 3 ||
		cluster.Kubelets[0].Version != "v1.36.3" || cluster.CoreDNS != "v1.14.2" {
		t.Errorf("read %+v", cluster)
	}
	checks := cluster.Checks(a.Admin, node.DefaultPaths(), "v1.14.6")
	if found := preflight.Run(t.Context(), r, checks, nil).Findings; len(found) > 0 {
		t.Errorf("the checks found %v", found)
	}
	job := cluster.healthCheckJob(w.Now())
	jobs, err := k.List(t.Context(), state.Query{
		GVK: job.GroupVersionKind(), Namespace: metav1.NamespaceSystem, As: a.Admin,
	})
	if err != nil || len(jobs) > 0 {
		t.Errorf("%d Jobs are left: %v", len(jobs), err)
	}
	if err := k.TryCreate(t.Context(), job, a.Identity(t, "guest")); err == nil {
		t.Error("a user without rights could create a Job")
	}
}
