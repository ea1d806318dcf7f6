package kube_test

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// An overloaded server is asked again. A budget that does not allow the eviction, a Pod that is
// gone or whose namespace is, and another Pod of the same name are answers.
func TestEvictions(t *testing.T) {
	overloaded := newRejection(429, metav1.StatusReasonTooManyRequests)
	budget := newRejection(429, metav1.StatusReasonTooManyRequests)
	status := budget.body.(metav1.Status)
	status.Details = &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: "DisruptionBudget", Message: "minAvailable"}}}
	budget.body = status
	terminating := newRejection(403, metav1.StatusReasonForbidden)
	status = terminating.body.(metav1.Status)
	status.Details = &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: "NamespaceTerminating", Message: "being terminated"}}}
	terminating.body = status
	done := answer{201, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusSuccess}}
	for name, c := range map[string]struct {
		answers []answer
		asked   int
		refused bool
	}{
		"evicted":     {[]answer{done}, 1, false},
		"overloaded":  {[]answer{overloaded, done}, 2, false},
		"gone":        {[]answer{newRejection(404, metav1.StatusReasonNotFound)}, 1, false},
		"another Pod": {[]answer{newRejection(409, metav1.StatusReasonConflict)}, 1, false},
		"namespace":   {[]answer{terminating}, 1, false},
		"budget":      {[]answer{budget}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, c.answers...)
			data := s.kubeconfig(t)
			err := newCluster(&data).Do(t.Context(), change.EvictPod{Namespace: "default",
				Name: "web", UID: "1", As: state.Identity{Kubeconfig: admin}})
			if errors.Is(err, change.ErrDisruptionBudget) != c.refused || !c.refused && err != nil {
				t.Errorf("got %v", err)
			}
			want := slices.Repeat([]string{"POST /api/v1/namespaces/default/pods/web/eviction"},
				c.asked)
			if !slices.Equal(s.asked, want) {
				t.Errorf("asked %q", s.asked)
			}
		})
	}
}
