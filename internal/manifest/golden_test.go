package manifest_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

func TestStaticPodFilesMatchUpstream(t *testing.T) {
	for _, s := range scenarios() {
		components := manifest.Components()
		if s.node.Cluster.Etcd.External == nil {
			components = append(components, manifest.Etcd)
		}
		for _, component := range components {
			t.Run(s.name+"/"+component, func(t *testing.T) {
				got, err := manifest.StaticPodFile(component, s.node, s.host(), s.readPatches(t))
				if err != nil {
					t.Fatal(err)
				}
				compare(t, s, component+".yaml", got)
			})
		}
	}
}

func TestKubeletFilesMatchUpstream(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			config, warnings, err := manifest.KubeletConfigFile(s.node, s.host(), s.readPatches(t))
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			compare(t, s, "kubelet.yaml", config)
			compare(t, s, "instance-config.yaml", manifest.KubeletInstanceConfig(s.node))
			// upstream's v1.34 sets --pod-infra-container-image, removed in 1.35
			if s.line != "v1.34" {
				compare(t, s, "kubeadm-flags.env", manifest.KubeletFlags(s.node))
			}
		})
	}
}

func TestObjectsMatchUpstream(t *testing.T) {
	for _, s := range scenarios() {
		if s.line != "" { // upstream's older releases create other objects, ours does not
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			ca := given(t, s)
			got, err := manifest.YAML(allObjects(t, s, ca)...)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, s, "objects.yaml", got)
		})
	}
}

// allObjects lists what init writes, in its order, but for what is secret and random.
func allObjects(t *testing.T, s scenario, ca []byte) []state.Object {
	t.Helper()
	n := s.node
	var all []state.Object
	add := func(objects ...state.Object) { all = append(all, objects...) }
	add(manifest.KubeadmConfig(n))
	add(manifest.KubeadmConfigAccess.Objects()...)
	add(must(manifest.KubeletConfig(n))(t))
	add(manifest.KubeletConfigAccess.Objects()...)
	add(manifest.CertsAccess.Objects()...)
	for _, token := range n.Tokens {
		add(manifest.NewTokenSecret(token, time.Unix(0, 0)))
	}
	rbac := manifest.BootstrapRBAC()
	add(rbac[:len(rbac)-2]...)
	admin := pki.KubeconfigSpec{Server: n.ServerURL(), Cluster: n.Cluster.Name,
		User: "kubernetes-admin", CA: ca}.WithCertificate(nil, nil)
	add(must(manifest.ClusterInfo(admin))(t))
	add(rbac[len(rbac)-2:]...) // Role and RoleBinding of cluster-info
	dns := must(manifest.NewCoreDNS(n, manifest.DNSReplicas, s.readPatches(t)))(t)
	add(dns.Config)
	add(dns.Access...)
	add(dns.Deployment, dns.Service)
	add(must(manifest.NewKubeProxy(n, s.host(), s.readPatches(t)))(t).Objects()...)
	return all
}

// given takes from upstream's objects the inputs of this package: the ClusterConfiguration and
// the CA.
func given(t *testing.T, s scenario) (ca []byte) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(golden(t, s, "objects.yaml")), 4096)
	for {
		var c corev1.ConfigMap
		if err := decoder.Decode(&c); err != nil {
			t.Fatalf("no cluster-info: %v", err)
		}
		switch c.Name {
		case manifest.KubeadmConfigMap:
			if c.Kind == "ConfigMap" {
				s.node.Cluster.Document = c.Data[manifest.KubeadmConfigKey]
			}
		case "cluster-info":
			info, err := pki.ParseKubeconfig([]byte(c.Data["kubeconfig"]))
			if err != nil {
				t.Fatal(err)
			}
			return info.Clusters[""].CertificateAuthorityData
		}
	}
}

func TestPrintedManifestsMatchUpstream(t *testing.T) {
	s := scenarios()[0]
	dns := must(manifest.NewCoreDNS(s.node, manifest.DNSReplicas, manifest.Patches{}))(t)
	proxy := must(manifest.NewKubeProxy(s.node, manifest.Host{}, manifest.Patches{}))(t)
	for name, printed := range map[string][]state.Object{"coredns.yaml": dns.ManifestObjects(),
		"kube-proxy.yaml": proxy.ManifestObjects()} {
		text, err := manifest.YAML(printed...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(documents(t, read(t, filepath.Join("testdata/printed", name))),
			documents(t, text)); diff != "" {
			t.Errorf("%s (-peer +ours):\n%s", name, diff)
		}
	}
}

// documents are the objects of a stream, without what only upstream's have.
func documents(t *testing.T, text []byte) []runtime.Object {
	t.Helper()
	var all []runtime.Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		d, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(d, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		object.(metav1.Object).SetResourceVersion("")
		all = append(all, object)
	}
}

func golden(t *testing.T, s scenario, name string) []byte {
	t.Helper()
	return read(t, filepath.Join("testdata", s.name, name))
}

func compare(t *testing.T, s scenario, name string, got []byte) {
	t.Helper()
	if diff := cmp.Diff(string(golden(t, s, name)), string(got)); diff != "" {
		t.Errorf("%s/%s (-peer +ours):\n%s", s.name, name, diff)
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
