package config

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// testFacts is a machine with a default route and one container runtime.
func testFacts(t *testing.T) Facts {
	t.Helper()
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	return Facts{
		Tool:     tool,
		Hostname: " VM1\n",
		Addresses: []state.Address{
			{IP: "10.77.0.11", Interface: "eth0", DefaultRoute: true},
			{IP: "fd00:77::11", Interface: "eth0", DefaultRoute: true},
			{IP: "192.168.9.1", Interface: "eth1"},
		},
		Runtimes: []string{node.DefaultCRISocket},
		Random:   bytes.NewReader(bytes.Repeat([]byte{7}, 1024)),
	}
}

func fileOf(text string) File { return File{Name: "kubeadm.yaml", Data: []byte(text)} }

func peerFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "peer", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The golden files are what kubeadm v1.37.1 of the Kubernetes project made of the
// same input: "config migrate" for the InitConfiguration, and for the others the
// ConfigMaps of "init --dry-run" (for rich.yaml's cluster, whose gate it does not
// run here, "config migrate").
func TestDocumentsMatchUpstream(t *testing.T) {
	for _, name := range []string{"plain", "rich", "external-etcd", "components"} {
		t.Run(name, func(t *testing.T) {
			file := File{Name: name, Data: peerFile(t, name+".yaml")}
			facts := testFacts(t)
			n, _, err := Init(file, NewInitFlags(), facts)
			if err != nil {
				t.Fatal(err)
			}
			same(t, name+".cluster.golden", n.Cluster.Document)
			same(t, name+".kubelet.golden", encoded(t, n.Cluster.Kubelet.Config))
			if !n.Cluster.Proxy.Disabled {
				same(t, name+".kube-proxy.golden", encoded(t, n.Cluster.KubeProxy.Config))
			}
			same(t, name+".init.golden", encoded(t, filledInit(t, file, facts)))
		})
	}
}

func filledInit(t *testing.T, file File, facts Facts) v1beta4.InitConfiguration {
	t.Helper()
	in, run, err := readInit(file, NewInitFlags())
	if err != nil {
		t.Fatal(err)
	}
	in.complete(facts, Common{}, &run)
	return in.init
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	data, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func same(t *testing.T, golden, got string) {
	t.Helper()
	if diff := cmp.Diff(string(peerFile(t, golden)), got); diff != "" {
		t.Errorf("%s (-peer +ours):\n%s", golden, diff)
	}
}

func TestStoredVersionOfCIBuild(t *testing.T) {
	n, _, err := Init(File{Name: "ci.json", Data: peerFile(t, "ci.json")}, NewInitFlags(),
		testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if !n.Cluster.CIBuild || n.Cluster.Version != "v1.37.2-5+0123456789abcd" {
		t.Errorf("CIBuild %v, Version %q", n.Cluster.CIBuild, n.Cluster.Version)
	}
	if !bytes.Contains([]byte(n.Cluster.Document),
		[]byte("\nkubernetesVersion: ci/v1.37.2-5+0123456789abcd\n")) {
		t.Errorf("the document does not keep the origin of the version:\n%s", n.Cluster.Document)
	}
}
