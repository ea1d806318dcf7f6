package laws

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/pki"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const (
	bareURL     = "https://192.0.2.10:6443"
	oldURL      = "https://cluster.example:6443"
	newEndpoint = "api.example.com:6443"
)

// newBareMachine is the only control plane node of a cluster without an endpoint.
func newBareMachine(t testing.TB) *fake.World {
	w := newReconfiguredMachine(t)
	for name, f := range w.Files {
		if strings.HasSuffix(name, ".conf") {
			f.Data = []byte(strings.ReplaceAll(string(f.Data), oldURL, bareURL))
			w.Files[name] = f
		}
	}
	for key, u := range w.Objects {
		data, _, _ := unstructured.NestedStringMap(u.Object, "data")
		if key.Kind.Kind != "ConfigMap" || data == nil {
			continue
		}
		for name, text := range data {
			data[name] = strings.ReplaceAll(strings.ReplaceAll(text, "controlPlaneEndpoint: cluster.example:6443\n", ""),
				oldURL, bareURL)
		}
		u = u.DeepCopy()
		if err := unstructured.SetNestedStringMap(u.Object, data, "data"); err != nil {
			t.Fatal(err)
		}
		w.Objects[key] = u
	}
	return w
}

// newWorkerOf makes the machine a worker of its cluster, whose kubelet connects to the bare address.
func newWorkerOf(t testing.TB, w *fake.World) *fake.World {
	t.Helper()
	w.RemoteAPIServer = true
	for name := range w.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/manifests/") || strings.HasSuffix(name, "admin.conf") {
			delete(w.Files, name)
		}
	}
	w.Interfaces = slices.Clone(w.Interfaces)
	w.Interfaces[0].IP = "192.0.2.20"
	return w
}

// changeEndpoint returns the command that changes the endpoint of a cluster.
func changeEndpoint(endpoint string) subject {
	s := reconfigureBy(findEndpoint(endpoint))
	s.name = "endpoint change"
	return s
}

func findEndpoint(endpoint string) findChange {
	return func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		w, err := reconfiguration.FindEndpoint(ctx, e, here, endpoint)
		return w.Wanted, err
	}
}

// finishEndpoint returns the command that finishes what s does.
func finishEndpoint(s subject) subject { return s.with(findFinish) }

func findFinish(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
	w, err := reconfiguration.FindEndpointFinish(ctx, e, here)
	return w.Wanted, err
}

// followEndpoint returns the command with which a worker follows a change of the endpoint.
func followEndpoint() subject {
	s := reconfigureNode(nil)
	s.machine = func(t testing.TB) *fake.World {
		w := newBareMachine(t)
		changeEndpoint(newEndpoint).newRun(w).mustSucceed(t)
		return newWorkerOf(t, w)
	}
	return s
}

// endpointPlaces are the texts of all places that have the endpoint.
func endpointPlaces(t testing.TB, w *fake.World) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"admin.conf", "super-admin.conf"} {
		if f, found := w.Files["/etc/kubernetes/"+name]; found {
			all[name] = string(f.Data)
		}
	}
	for _, o := range []struct{ namespace, name string }{{"kube-public", "cluster-info"},
		{"kube-system", "kubeadm-config"}, {"kube-system", "kube-proxy"}} {
		u := w.Objects[memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: o.namespace, Name: o.name}]
		if u == nil {
			t.Fatalf("ConfigMap %s does not exist", o.name)
		}
		all[o.name] = fmt.Sprint(u.Object["data"])
	}
	return all
}

func checkEndpointPlaces(t *testing.T, w *fake.World, server string) {
	t.Helper()
	for place, text := range endpointPlaces(t, w) {
		if place == "kubeadm-config" {
			text = strings.ReplaceAll(text, "controlPlaneEndpoint: ", "https://")
			if server == bareURL {
				text += bareURL // which is not stored
			}
		}
		if !strings.Contains(text, server) {
			t.Errorf("%s lacks %s:\n%s", place, server, text)
		}
		for _, other := range []string{bareURL, oldURL, "https://" + newEndpoint} {
			if other != server && strings.Contains(text, other) {
				t.Errorf("%s has %s:\n%s", place, other, text)
			}
		}
	}
}

// hasName reports whether the API server's certificate is valid for a host.
func hasName(t testing.TB, w *fake.World, host string) bool {
	t.Helper()
	all, err := pki.ParseCertificates(w.Files["/etc/kubernetes/pki/apiserver.crt"].Data)
	if err != nil {
		t.Fatal(err)
	}
	return all[0].VerifyHostname(host) == nil
}

// checkNames compares for which hosts the API server's certificate is valid.
func checkNames(t testing.TB, w *fake.World, want map[string]bool) {
	t.Helper()
	for host, valid := range want {
		if hasName(t, w, host) != valid {
			t.Errorf("the certificate of the API server is valid for %s: %t", host, !valid)
		}
	}
}

func hostOf(server string) string {
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(server, "https://"))
	return host
}
