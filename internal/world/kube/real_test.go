package kube_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/kube"
	"kubeadm/internal/world/worldtest"
	"kubeadm/internal/world/worldtest/plane"
)

func TestRealObjects(t *testing.T) {
	a := plane.StartAPIServer(t)
	k := kube.New(os.ReadFile)
	worldtest.Objects(t, k, a.Admin)
	t.Run("a cluster's objects are done once applied",
		func(t *testing.T) { testClusterObjects(t, k, a) })
	t.Run("addons of another version replace the first",
		func(t *testing.T) { testAddonUpgrade(t, k, a) })
	t.Run("a leftover IPAddress does not keep its Service from being created",
		func(t *testing.T) { testLeftoverIPAddress(t, k, a) })
	t.Run("a watch sees changes, and ends in time", func(t *testing.T) { testWatch(t, k, a) })
	t.Run("an unauthorized user is rejected", func(t *testing.T) {
		as := a.Identity(t, "unauthorized-user")
		_, err := k.Object(t.Context(), state.Ref{GVK: state.NodeKind, Name: "n", As: as})
		wantError(t, err, `nodes "n" is forbidden`, "--kubeconfig to an administrator's kubeconfig")
	})
	t.Run("a deleted token is rejected", func(t *testing.T) {
		access := pki.KubeconfigSpec{Server: a.Server, Cluster: "c", User: "u", CA: a.CA}
		data, err := access.WithToken("abcdef.0123456789abcdee").Encode()
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Object(t.Context(),
			state.Ref{GVK: state.NodeKind, Name: "n", As: state.Identity{Config: data}})
		wantError(t, err, "Unauthorized", "kubeadm token create")
	})
}

// testWatch watches ConfigMaps that are created, changed and deleted.
func testWatch(t *testing.T, k *kube.Cluster, a *plane.APIServer) {
	w := state.Watch{Timeout: 2 * time.Second, OnStart: func() {}, Query: state.Query{As: a.Admin, Namespace: "default",
		GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), LabelSelector: "watched", Fields: []string{"data"}}}
	w.Query.OnVersion = func(version string) { w.Version = version }
	if _, err := k.List(t.Context(), w.Query); err != nil || w.Version == "" {
		t.Fatalf("version %q: %v", w.Version, err)
	}
	listed := w.Version
	for _, value := range []string{"1", "2"} {
		err := k.Do(t.Context(), change.ApplyObject{As: a.Admin, Object: &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w", Labels: map[string]string{"watched": ""}},
			Data:       map[string]string{"a": value}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Do(t.Context(), change.DeleteObject{Ref: state.Ref{As: a.Admin, GVK: w.GVK, Namespace: "default", Name: "w"}}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	w.OnEvent = func(o *unstructured.Unstructured, isDeleted bool) bool {
		value, _, _ := unstructured.NestedString(o.Object, "data", "a")
		seen = append(seen, fmt.Sprint(value, isDeleted))
		return len(seen) != 1
	}
	var err error
	if w.Version, err = k.Watch(t.Context(), w); err != nil || len(seen) != 1 || w.Version == listed {
		t.Fatalf("the watch that is ended has seen %q: %v", seen, err)
	}
	begun := time.Now()
	if w.Version, err = k.Watch(t.Context(), w); err != nil || w.Version == "" || time.Since(begun) < time.Second {
		t.Errorf("the next one ended after %s at version %q: %v", time.Since(begun), w.Version, err)
	}
	if want := []string{"1false", "2false", "2true"}; !slices.Equal(seen, want) {
		t.Errorf("it has seen %q", seen)
	}
	w.As = a.Identity(t, "unauthorized-user")
	if _, err := k.Watch(t.Context(), w); !apierrors.IsForbidden(err) {
		t.Errorf("a user without the right to watch gets %v", err)
	}
}

// testLeftoverIPAddress applies a Service whose IPAddress an API server has left behind, and one
// whose cluster IP belongs to another Service.
func testLeftoverIPAddress(t *testing.T, k *kube.Cluster, a *plane.APIServer) {
	config, err := clientcmd.BuildConfigFromFlags("", a.Admin.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	addresses := dynamic.NewForConfigOrDie(config).Resource(
		networkingv1.SchemeGroupVersion.WithResource("ipaddresses"))
	for name, want := range map[string]string{"own": "", "other": "provided IP is already allocated"} {
		ip := map[string]string{"own": "10.96.1.1", "other": "10.96.1.2"}[name]
		leftover, err := change.ToUnstructured(&networkingv1.IPAddress{
			TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IPAddress"},
			ObjectMeta: metav1.ObjectMeta{Name: ip},
			Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
				Resource: "services", Namespace: "default", Name: "own"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := addresses.Create(t.Context(), leftover, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		service := &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		err = k.Do(t.Context(), change.ApplyObject{Object: service, As: a.Admin})
		if want == "" && err != nil {
			t.Errorf("Service %s: %v", name, err)
		}
		if want != "" {
			wantError(t, err, want, "")
		}
	}
}

func testClusterObjects(t *testing.T, k *kube.Cluster, a *plane.APIServer) {
	for _, o := range clusterObjects(t, a) {
		c := change.ApplyObject{Object: o, As: a.Admin}
		wantDone(t, k, c, false)
		if err := k.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		wantDone(t, k, c, true)
		first := resourceVersion(t, k, c)
		if err := k.Do(t.Context(), c); err != nil {
			t.Error(err)
		}
		if resourceVersion(t, k, c) != first {
			t.Errorf("a second %s wrote the object again", c)
		}
	}
}

// clusterObjects returns all objects that init writes.
func clusterObjects(t *testing.T, a *plane.APIServer) []state.Object {
	t.Helper()
	n := newNode("v1.37.1")
	data, err := os.ReadFile(a.Admin.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := pki.ParseKubeconfig(data)
	if err != nil {
		t.Fatal(err)
	}
	info, err := manifest.ClusterInfo(admin)
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := manifest.KubeletConfig(n)
	if err != nil {
		t.Fatal(err)
	}
	owner := manifest.NewCertsOwner("abcdef", "0123456789abcdef", time.Now())
	owner.UID = "0e4dbbd8-6a49-4b5c-8dd1-6f4a0b4ef0a1"
	token := node.BootstrapToken{ID: "fedcba", Secret: "0123456789abcdef", TTL: time.Hour,
		Usages: []string{"signing", "authentication"}, Groups: []string{manifest.TokenGroup}}
	all := []state.Object{
		manifest.ClusterAdmins(), manifest.KubeadmConfig(n), kubelet, info,
		manifest.NewTokenSecret(token, time.Now()), owner,
		manifest.NewCertsSecret(map[string][]byte{"ca.key": []byte("sealed"), "sa.key": {}}, owner),
	}
	for _, more := range [][]state.Object{manifest.KubeadmConfigAccess.Objects(),
		manifest.KubeletConfigAccess.Objects(),
		manifest.BootstrapRBAC(), manifest.CertsAccess.Objects(),
		addonObjects(t, n)} {
		all = append(all, more...)
	}
	return all
}

func testAddonUpgrade(t *testing.T, k *kube.Cluster, a *plane.APIServer) {
	for _, v := range []string{"v1.37.1", "v1.37.0"} {
		n := newNode(v)
		n.Cluster.DNS.ImageTag = v
		for _, o := range addonObjects(t, n) {
			c := change.ApplyObject{Object: o, As: a.Admin}
			if err := k.Do(t.Context(), c); err != nil {
				t.Error(err)
			}
			wantDone(t, k, c, true)
		}
	}
	moved := newNode("v1.37.0")
	moved.Cluster.ServiceSubnet = "10.100.0.0/16"
	dns, err := manifest.NewCoreDNS(moved, 2, manifest.Patches{})
	if err != nil {
		t.Fatal(err)
	}
	err = k.Do(t.Context(), change.ApplyObject{Object: dns.Service, As: a.Admin})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a Service cannot change its cluster IP: %v", err)
	}
}

func addonObjects(t *testing.T, n *node.Node) []state.Object {
	t.Helper()
	dns, err := manifest.NewCoreDNS(n, manifest.DNSReplicas, manifest.Patches{})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := manifest.NewKubeProxy(n,
		manifest.Host{Env: []string{"HTTP_PROXY=http://192.0.2.1:3128"}}, manifest.Patches{})
	if err != nil {
		t.Fatal(err)
	}
	return append(dns.ManifestObjects(), proxy.Objects()...)
}

func newNode(version string) *node.Node {
	proxy := &proxyconfig.KubeProxyConfiguration{BindAddress: "0.0.0.0", Mode: "iptables"}
	return &node.Node{
		Local: node.Local{Name: "cp1", Role: node.ControlPlane, Address: "192.0.2.10",
			BindPort: 6443},
		Cluster: node.Cluster{
			Name: "kubernetes", Version: version, ImageRepository: "registry.k8s.io",
			Document:      "kind: ClusterConfiguration\n",
			ServiceSubnet: "10.96.0.0/12", DNSDomain: "cluster.local",
			Kubelet:   node.KubeletConfig{Config: &kubeletconfig.KubeletConfiguration{CgroupDriver: "systemd"}, Generated: true},
			KubeProxy: node.ProxyConfig{Config: proxy, Generated: true},
		},
	}
}

func resourceVersion(t *testing.T, k *kube.Cluster, c change.ApplyObject) string {
	t.Helper()
	o, err := k.Object(t.Context(), state.RefOf(c.Object, c.As))
	if err != nil {
		t.Fatal(err)
	}
	return o.GetResourceVersion()
}

func wantDone(t *testing.T, k *kube.Cluster, c change.ApplyObject, want bool) {
	t.Helper()
	got, err := c.Done(t.Context(), objectsOnly{objects: k})
	if now, gone := k.Object(t.Context(), state.RefOf(c.Object, c.As)); want && !got &&
		gone == nil {
		t.Logf("stated:\n%s\nthere:\n%s", c.Content(), change.ApplyObject{Object: now}.Content())
	}
	if err != nil || got != want {
		t.Errorf("Done of %q is %v, %v", c, got, err)
	}
}

// objectsOnly is a Reader of objects only.
type objectsOnly struct {
	objects
	rest
}

type (
	objects = state.Objects
	rest    struct{ state.Reader }
)
