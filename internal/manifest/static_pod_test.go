package manifest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

func pod(t *testing.T, component string, n *node.Node, h manifest.Host) *corev1.Pod {
	t.Helper()
	return must(manifest.StaticPod(component, n, h))(t)
}

func TestInitialCluster(t *testing.T) {
	n := ordinary()
	h := manifest.Host{Members: []state.Member{
		{ID: 0xa1, Name: "cp0", PeerURLs: []string{"https://192.0.2.9:2380"}},
		{ID: 0xb2, PeerURLs: []string{"https://192.0.2.10:2380"}, Learner: true},
		{ID: 0xc3, PeerURLs: []string{"https://192.0.2.11:2380"}},
	}}
	args := pod(t, manifest.Etcd, n, h).Spec.Containers[0].Command
	for _, want := range []string{
		"--initial-cluster=cp0=https://192.0.2.9:2380,cp1=https://192.0.2.10:2380,c3=https://192.0.2.11:2380",
		"--initial-cluster-state=existing",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing in %q", want, args)
		}
	}
}

func TestControllerManagerWithExternalCA(t *testing.T) {
	args := pod(t, release.ControllerManager, ordinary(),
		manifest.Host{ExternalCA: true}).Spec.Containers[0].Command
	for _, want := range []string{"--cluster-signing-cert-file=", "--cluster-signing-key-file="} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing in %q", want, args)
		}
	}
}

func TestEtcdProbes(t *testing.T) {
	for urls, want := range map[string]string{
		"":                                     "HTTP 127.0.0.1 2381",
		"http://:9000":                         "HTTP 127.0.0.1 9000",
		"https://192.0.2.10":                   "HTTPS 192.0.2.10 2381",
		"http://0.0.0.0:2381":                  "HTTP 0.0.0.0 2381",
		"http://127.0.0.1:0":                   "HTTP 127.0.0.1 2381",
		"http://bad url:1,https://192.0.2.1:9": "HTTP 127.0.0.1 2381",
	} {
		n := ordinary()
		n.Cluster.Etcd.Args = []node.Arg{{Name: "listen-metrics-urls",
			Value: "http://192.0.2.77:1"}, {Name: "listen-metrics-urls", Value: urls}}
		c := pod(t, manifest.Etcd, n, manifest.Host{}).Spec.Containers[0]
		get := c.StartupProbe.HTTPGet
		if got := strings.Join([]string{string(get.Scheme), get.Host,
			itoa(c.Ports[0].ContainerPort)}, " "); got != want {
			t.Errorf("listen-metrics-urls=%q: probes ask %s, want %s", urls, got, want)
		}
	}
}

func TestStartupProbeTimeout(t *testing.T) {
	for patience, want := range map[time.Duration]int32{4 * time.Minute: 24, 61 * time.Second: 7,
		time.Nanosecond: 1} {
		n := ordinary()
		n.Timeouts.ControlPlane = patience
		if got := pod(t, release.Scheduler, n,
			manifest.Host{}).Spec.Containers[0].StartupProbe.FailureThreshold; got != want {
			t.Errorf("%v: %d failures allowed, want %d", patience, got, want)
		}
	}
}

func TestExternalEtcdVolumes(t *testing.T) {
	for _, tc := range []struct {
		ca, cert, key string
		want          []string
	}{
		{"/srv/a/ca.crt", "/srv/b/client.crt", "/srv/b/client.key", []string{"/srv/a", "/srv/b"}},
		{"/srv/ca.crt", "/srv/b/client.crt", "/srv/c/client.key", []string{"/srv"}},
		{"/etc/kubernetes/pki/etcd/ca.crt", "/etc/ssl/certs/x.crt", "/etc/pki/tls/certs/x.key",
			nil},
		{"", "", "", nil},
	} {
		n := ordinary()
		n.Cluster.Etcd.External = &node.ExternalEtcd{Endpoints: []string{"http://192.0.2.1:2379"},
			CAFile: tc.ca, CertFile: tc.cert, KeyFile: tc.key}
		var got []string
		for _, v := range pod(t, release.APIServer, n, manifest.Host{}).Spec.Volumes {
			if strings.HasPrefix(v.Name, "etcd-certs-") {
				got = append(got, v.HostPath.Path)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %s %s: (-want +got)\n%s", tc.ca, tc.cert, tc.key, diff)
		}
	}
}

func TestStaticPodErrors(t *testing.T) {
	for component, why := range map[string]string{manifest.Etcd: "external",
		"kube-dns": "kube-dns"} {
		if _, err := manifest.StaticPod(component, externalEtcd(), manifest.Host{}); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", component, err)
		}
	}
	n := ordinary()
	n.Cluster.Version = "new"
	if _, err := manifest.StaticPodFile(manifest.Etcd, n, manifest.Host{},
		manifest.Patches{}); err == nil || !strings.Contains(err.Error(), `"new"`) {
		t.Errorf("version: %v", err)
	}
}

func TestNodeIsNotModified(t *testing.T) {
	for _, s := range scenarios() {
		before := *s.node
		before.Cluster.Kubelet.Config = s.node.Cluster.Kubelet.Config.DeepCopy()
		before.Cluster.KubeProxy.Config = s.node.Cluster.KubeProxy.Config.DeepCopy()
		h := s.host()
		h.SystemdResolved = true
		if _, _, err := manifest.KubeletConfigFile(s.node, h, s.readPatches(t)); err != nil {
			t.Fatal(err)
		}
		must(manifest.KubeletConfig(s.node))(t)
		must(manifest.NewKubeProxy(s.node, h, s.readPatches(t)))(t)
		pod(t, release.APIServer, s.node, h)
		if diff := cmp.Diff(&before, s.node); diff != "" {
			t.Errorf("%s changed:\n%s", s.name, diff)
		}
	}
}

func TestFlexVolumePlugins(t *testing.T) {
	const usual, own = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec", "/opt/plugins"
	for _, c := range []struct {
		version string
		args    []node.Arg
		want    string
	}{
		{"v1.34.4", nil, usual},
		{"v1.35.4", []node.Arg{{Name: "flex-volume-plugin-dir", Value: own}}, own},
		{"v1.36.3", []node.Arg{{Name: "flex-volume-plugin-dir", Value: own}}, ""},
		{"v1.37.1", nil, ""},
	} {
		n := ordinary()
		n.Cluster.Version, n.Cluster.ControllerManager.Args = c.version, c.args
		var got string
		for _, v := range pod(t, release.ControllerManager, n, manifest.Host{}).Spec.Volumes {
			if v.Name == "flexvolume-dir" && *v.HostPath.Type == corev1.HostPathDirectoryOrCreate {
				got = v.HostPath.Path
			}
		}
		if got != c.want {
			t.Errorf("%s %v: %q is mounted, want %q", c.version, c.args, got, c.want)
		}
	}
}

func TestEtcdFeatureArgs(t *testing.T) {
	for tag, want := range map[string][]string{
		"": {"--feature-gates=InitialCorruptCheck=true",
			"--watch-progress-notify-interval=5s"},
		"3.6.5-0": {"--feature-gates=InitialCorruptCheck=true",
			"--watch-progress-notify-interval=5s"},
		"3.5.24-0": {"--experimental-initial-corrupt-check=true",
			"--experimental-watch-progress-notify-interval=5s"},
	} {
		n := ordinary()
		n.Cluster.Etcd.ImageTag = tag
		args := pod(t, manifest.Etcd, n, manifest.Host{}).Spec.Containers[0].Command
		var got []string
		for _, a := range args {
			if strings.Contains(a, "corrupt-check") || strings.Contains(a, "CorruptCheck") ||
				strings.Contains(a, "watch-progress") {
				got = append(got, a)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tag %q (-want +got):\n%s", tag, diff)
		}
	}
}
