package health

import (
	"context"
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		r, n := &simulatedRuntime{livez: c.livez}, &node.Node{}
		if err := JoinedAPIServer(n, state.Identity{}).Check(t.Context(), r); (err == nil) != c.joined {
			t.Errorf("%s: on join: %v", name, err)
		}
		if err := APIServer(n, state.Identity{}).Check(t.Context(), r); (err == nil) != c.onInit {
			t.Errorf("%s: on init: %v", name, err)
		}
	}
}

// denying is a machine whose API server answers requests for objects with an error.
type denying struct {
	simulatedRuntime
	err error
	as  state.Identity // of the last request
}

func (d *denying) Object(_ context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	d.as = ref.As
	return nil, d.err
}

// kube-controller-manager starts when it may read the Lease of its leader election, also where that
// does not exist yet, and nothing else keeps the API server from being live.
func TestAuthorizingAPIServer(t *testing.T) {
	notLive := func(failed ...string) error {
		return &state.NotLiveError{Status: http.StatusInternalServerError, Failed: failed}
	}
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	missing, refused := apierrors.NewNotFound(leases, "x"), apierrors.NewForbidden(leases, "x", nil)
	for name, c := range map[string]struct {
		livez, lease error
		met          bool
	}{
		"live":                     {nil, refused, true},
		"authorized":               {notLive(RBACCheck), missing, true},
		"authorized, Lease exists": {notLive(RBACCheck), nil, true},
		"not authorized":           {notLive(RBACCheck), refused, false},
		"no kubeconfig":            {notLive(RBACCheck), errors.New("no such file"), false},
		"another check fails":      {notLive(RBACCheck, "etcd"), missing, false},
		"no check is named":        {notLive(), missing, false},
	} {
		r, n := &denying{simulatedRuntime: simulatedRuntime{livez: c.livez}, err: c.lease}, &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}
		if err := AuthorizingAPIServer(n, state.Identity{}).Check(t.Context(), r); (err == nil) != c.met {
			t.Errorf("%s: %v", name, err)
		}
		if r.as.Kubeconfig != "" && r.as.Kubeconfig != "/etc/kubernetes/controller-manager.conf" {
			t.Errorf("%s: it asks with %s", name, r.as.Kubeconfig)
		}
	}
}
