package kube_test

import "testing"

func TestServerVersion(t *testing.T) {
	s := startServer(t, answer{200, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`},
		answer{200, "{}"},
		answer{403, "no"})
	data := s.kubeconfig(t)
	k, as := newCluster(&data), newApply().As
	if got, err := k.ServerVersion(t.Context(), as); got != "v1.36.3" || err != nil {
		t.Errorf("the version is %q: %v", got, err)
	}
	_, err := k.ServerVersion(t.Context(), as)
	wantError(t, err, "getting the version of the API server at "+s.URL+
		": its answer has no version", "")
	_, err = k.ServerVersion(t.Context(), as)
	wantError(t, err, "it answered 403 Forbidden", "")
	if s.asked[0] != "GET /version" {
		t.Errorf("asked %q", s.asked)
	}
}
