package config_test

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

const storedCluster = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: prod
kubernetesVersion: v1.37.0
controlPlaneEndpoint: cluster.example:6443
imageRepository: registry.example/k8s
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.97.0.0/16, dnsDomain: prod.local}
apiServer:
  certSANs: [old.example]
  extraArgs: [{name: encryption-provider-config, value: /etc/kubernetes/enc/keys.yaml}]
`

const storedKubelet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 50
`

func rebuild(t *testing.T, file string, flags config.InitFlags) (rebuilt, error) {
	t.Helper()
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	var f config.File
	if file != "" {
		f = config.File{Name: "kubeadm.yaml", Data: []byte(file)}
	}
	n, run, err := config.Rebuild(f, flags, config.Backup{Snapshot: "digest", HasEncryption: true,
		Stored: config.StoredConfig{Cluster: storedCluster, Kubelet: config.StoredComponent{Text: storedKubelet}}},
		config.Facts{Tool: tool, Hostname: "new1", Random: strings.NewReader(strings.Repeat("x", 100)),
			Addresses: []state.Address{{IP: "192.0.2.40", DefaultRoute: true}}})
	if err != nil {
		return rebuilt{}, err
	}
	return rebuilt{Name: n.Name, Address: n.Address, Version: n.Cluster.Version, Endpoint: n.Cluster.Endpoint,
		SANs: n.Cluster.CertSANs, ServiceSubnet: n.Cluster.ServiceSubnet, Images: n.Cluster.ImageRepository,
		OldEndpoint: n.Cluster.Backup.Endpoint, Encryption: n.Cluster.Backup.Encryption,
		MaxPods: n.Cluster.Kubelet.Config.MaxPods, Warnings: run.Warnings}, nil
}

// rebuilt is what matters of the result.
type rebuilt struct {
	Name, Address, Version, Endpoint   string
	SANs                               []string
	ServiceSubnet, Images, OldEndpoint string
	Encryption                         string
	MaxPods                            int32
	Warnings                           []string
}

// The stored configuration is used, with this machine's name and address.
func TestRebuildUsesTheStoredConfiguration(t *testing.T) {
	got, err := rebuild(t, "", config.NewInitFlags())
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "new1" || got.Address != "192.0.2.40" || got.Version != "v1.37.0" ||
		got.Endpoint != "cluster.example:6443" || !slices.Equal(got.SANs, []string{"old.example"}) ||
		got.ServiceSubnet != "10.97.0.0/16" || got.Images != "registry.example/k8s" || got.MaxPods != 50 ||
		got.OldEndpoint != got.Endpoint || got.Encryption != "/etc/kubernetes/enc/keys.yaml" {
		t.Errorf("the result is %+v", got)
	}
}

// Flags and documents of the file change what may change.
func TestRebuildWithChanges(t *testing.T) {
	flags := config.NewInitFlags()
	flags.ControlPlaneEndpoint, flags.CertSANs, flags.KubernetesVersion = "new.example", []string{"more.example"}, "v1.37.1"
	got, err := rebuild(t, "", flags)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != "v1.37.1" || got.Endpoint != "new.example:6443" || got.OldEndpoint != "cluster.example:6443" ||
		!slices.Equal(got.SANs, []string{"old.example", "more.example", "cluster.example"}) || got.ServiceSubnet != "10.97.0.0/16" {
		t.Errorf("with flags the result is %+v", got)
	}
	got, err = rebuild(t, `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {name: other}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer: {certSANs: [mine.example]}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 70
`, config.NewInitFlags())
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "other" || got.Version != "v1.37.0" || got.Endpoint != "cluster.example:6443" ||
		!slices.Equal(got.SANs, []string{"mine.example"}) || got.ServiceSubnet != "10.97.0.0/16" ||
		got.MaxPods != 70 || got.Encryption != "" {
		t.Errorf("with a file the result is %+v", got)
	}
}

// What the restored data depend on cannot change.
func TestRebuildRefusesOtherData(t *testing.T) {
	flags := config.NewInitFlags()
	flags.PodSubnet, flags.DNSDomain, flags.CertificatesDir, flags.KubernetesVersion = "10.1.0.0/16", "other.local",
		"/pki", "v1.36.2"
	_, err := rebuild(t, "", flags)
	for _, word := range []string{"--pod-network-cidr", "--service-dns-domain", "--cert-dir", "--kubernetes-version"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s is not in %v", word, err)
		}
	}
}

// Nodes connect to the endpoint from before until they follow: the certificates keep its host, also by a file.
func TestRebuildKeepsTheOldHost(t *testing.T) {
	for endpoint, want := range map[string][]string{"new.example:6443": {"mine.example", "cluster.example"},
		"cluster.example:8443": {"mine.example"}} {
		got, err := rebuild(t, "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: "+endpoint+
			"\napiServer: {certSANs: [mine.example]}\n", config.NewInitFlags())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.SANs, want) {
			t.Errorf("at %s the names are %v", endpoint, got.SANs)
		}
	}
}
