package kube_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An object that may not be read is not read either if the API server refuses it: the error is the reason.
func TestUnreadableObjectIsNotRead(t *testing.T) {
	s := startServer(t, newRejection(422, metav1.StatusReasonInvalid), newRejection(403, metav1.StatusReasonForbidden))
	data := s.kubeconfig(t)
	k, c := newCluster(&data), newApply()
	c.Keep, c.Unreadable = true, true
	wantError(t, k.Do(t.Context(), c), "the server says Invalid", "")
	if len(s.asked) != 1 {
		t.Errorf("asked %q", s.asked)
	}
}
