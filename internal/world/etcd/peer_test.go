package etcd_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world/etcd"
)

// A member that serves no clients is asked at its peer URL, for a serializable list only.
func TestMembersOfPeer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/members" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`[{"id":10501334649042878790,"peerURLs":["https://192.0.2.10:2380"],"name":"cp1",` +
			`"clientURLs":["https://192.0.2.10:2379"]},{"id":2,"peerURLs":["https://192.0.2.11:2380"],"isLearner":true}]`))
	}))
	defer s.Close()
	k := etcd.New(os.ReadFile)
	via := state.Etcd{Endpoints: []string{"http://127.0.0.1:1"}, Peer: s.URL}
	if _, err := k.Members(t.Context(), via); err == nil {
		t.Error("a list that needs a quorum came from a peer")
	}
	via.Serializable = true
	all, err := k.Members(t.Context(), via)
	if err != nil || len(all) != 2 || all[0].ID != 10501334649042878790 || all[0].Name != "cp1" ||
		!slices.Equal(all[0].ClientURLs, []string{"https://192.0.2.10:2379"}) || !all[1].Learner {
		t.Errorf("%v, %+v", err, all)
	}
	via.Peer += "/elsewhere"
	if _, err := k.Members(t.Context(), via); err == nil {
		t.Error("an answer of another server was taken")
	}
}
