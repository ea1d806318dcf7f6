package health

import (
	"errors"
	"net/http"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

func TestKubeletHealthAddress(t *testing.T) {
	n := &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}
	n.Cluster.Kubelet.Config = &kubeletconfig.KubeletConfiguration{HealthzPort: new(int32(1))}
	m := fake.New()
	if got := Kubelet(t.Context(), m, n).Name; got != "the kubelet at http://127.0.0.1:1/healthz" {
		t.Errorf("without a file: %s", got)
	}
	patched := change.WriteFile{Path: n.Paths.KubeletConfig(),
		Data: []byte("healthzPort: 2\nhealthzBindAddress: \"::1\"\n")}
	if err := m.Do(t.Context(), patched); err != nil {
		t.Fatal(err)
	}
	if got := Kubelet(t.Context(), m, n).Name; got != "the kubelet at http://[::1]:2/healthz" {
		t.Errorf("with a patched file: %s", got)
	}
}

// The API server of a joining control plane need not wait for objects that the cluster has, but for
// everything else.
func TestJoinedAPIServer(t *testing.T) {
	const roles, classes = "poststarthook/rbac/bootstrap-roles",
		"poststarthook/scheduling/bootstrap-system-priority-classes"
	notLive := func(failed ...string) error {
		return &state.NotLiveError{Status: http.StatusInternalServerError, Failed: failed}
	}
	for name, c := range map[string]struct {
		livez          error
		joined, onInit bool
	}{
		"live":                      {nil, true, true},
		"objects of each start":     {notLive(roles, classes), true, false},
		"roles only":                {notLive(roles), true, false},
		"etcd as well":              {notLive("etcd", roles), false, false},
		"no check is named":         {notLive(), false, false},
		"it refuses the connection": {errors.New("connection refused"), false, false},
	} {
		r, n := &runtime{livez: c.livez}, &node.Node{}
		if err := JoinedAPIServer(n, state.Identity{}).Check(t.Context(), r); (err == nil) != c.joined {
			t.Errorf("%s: on join: %v", name, err)
		}
		if err := APIServer(n, state.Identity{}).Check(t.Context(), r); (err == nil) != c.onInit {
			t.Errorf("%s: on init: %v", name, err)
		}
	}
}
