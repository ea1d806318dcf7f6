package kube_test

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTryCreateStoresNothing(t *testing.T) {
	s := startServer(t, answer{201, object}, newRejection(403, metav1.StatusReasonForbidden))
	answering, query := s.Config.Handler, ""
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Get("dryRun")
		answering.ServeHTTP(w, r)
	})
	data := s.kubeconfig(t)
	k, c := newCluster(&data), newApply()
	if err := k.TryCreate(t.Context(), c.Object, c.As); err != nil {
		t.Error(err)
	}
	if len(s.asked) != 1 || s.asked[0] != "POST /api/v1/namespaces/kube-system/configmaps" ||
		query != "All" {
		t.Errorf("asked %q with dryRun=%q", s.asked, query)
	}
	wantError(t, k.TryCreate(t.Context(), c.Object, c.As),
		"checking whether ConfigMap kube-system/c can be created", "--kubeconfig to an administrator's kubeconfig")
}
