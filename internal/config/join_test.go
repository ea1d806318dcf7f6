package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/node"
)

const goodToken = "abcdef.0123456789abcdef"

func aPin() string { return "sha256:" + strings.Repeat("0a", 32) }

func workerFlags() JoinFlags {
	f := NewJoinFlags()
	f.Endpoint, f.Token, f.CACertHashes = "10.77.0.11:6443", goodToken, []string{aPin()}
	return f
}

func TestJoinAsAWorker(t *testing.T) {
	facts := testFacts(t)
	facts.AdminKubeconfig = "/etc/kubernetes/admin.conf" // only control planes use it
	local, run, err := Join(File{}, workerFlags(), facts)
	if err != nil {
		t.Fatal(err)
	}
	want := node.Discovery{Endpoint: "10.77.0.11:6443", Token: goodToken,
		TLSBootstrapToken: goodToken, CACertHashes: []string{aPin()}}
	if diff := cmp.Diff(want, local.Discovery); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if local.Role != node.Worker || local.Address != "" || local.BindPort != 0 ||
		local.Taints != nil || local.CACertPath != "/etc/kubernetes/pki/ca.crt" {
		t.Errorf("%+v", local)
	}
	if len(run.Warnings) != 0 {
		t.Errorf("warnings %q", run.Warnings)
	}
}

func TestWorkerNeedsNoAddress(t *testing.T) {
	facts := testFacts(t)
	facts.Addresses = nil
	if _, _, err := Join(File{}, workerFlags(), facts); err != nil {
		t.Error(err)
	}
	flags := workerFlags()
	flags.ControlPlane = true
	_, _, err := Join(File{}, flags, facts)
	if err == nil || !strings.HasPrefix(err.Error(),
		"command line: --apiserver-advertise-address: ") {
		t.Errorf("%v", err)
	}
}

func TestJoinAsAControlPlane(t *testing.T) {
	flags := workerFlags()
	flags.ControlPlane, flags.CertificateKey, flags.BindPort = true, strings.Repeat("ab", 32), 7443
	local, _, err := Join(File{}, flags, testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if local.Role != node.ControlPlane || local.Address != "10.77.0.11" || local.BindPort != 7443 ||
		len(local.Taints) != 1 || local.CertificateKey != flags.CertificateKey {
		t.Errorf("%+v", local)
	}
}

func TestAdminKubeconfigReplacesDiscovery(t *testing.T) {
	facts := testFacts(t)
	facts.AdminKubeconfig = "/etc/kubernetes/admin.conf"
	flags := workerFlags()
	flags.ControlPlane = true
	known := node.Discovery{File: facts.AdminKubeconfig, TLSBootstrapToken: goodToken,
		CACertHashes: []string{aPin()}}
	for name, c := range map[string]struct {
		flags    func(*JoinFlags)
		want     node.Discovery
		warnings int
	}{
		"control plane":                     {func(*JoinFlags) {}, known, 1},
		"control plane without discovery":   {func(f *JoinFlags) { *f = JoinFlags{ControlPlane: true, BindPort: 6443} }, node.Discovery{File: facts.AdminKubeconfig}, 0},
		"phase of a machine that is inside": {func(f *JoinFlags) { *f = JoinFlags{HasJoined: true} }, node.Discovery{File: facts.AdminKubeconfig}, 0},
		"worker": {func(f *JoinFlags) { f.ControlPlane = false },
			node.Discovery{Endpoint: "10.77.0.11:6443", Token: goodToken,
				TLSBootstrapToken: goodToken, CACertHashes: []string{aPin()}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			flags := flags
			c.flags(&flags)
			local, run, err := Join(File{}, flags, facts)
			if err != nil || len(run.Warnings) != c.warnings {
				t.Fatalf("%v, warnings %q", err, run.Warnings)
			}
			if diff := cmp.Diff(c.want, local.Discovery); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	_, _, err := Join(File{}, JoinFlags{HasJoined: true}, testFacts(t))
	if err == nil || !strings.Contains(err.Error(),
		"/etc/kubernetes/admin.conf, which does not exist") {
		t.Errorf("%v", err)
	}
}

func TestDiscoveryFiles(t *testing.T) {
	for name, want := range map[string]string{
		"/srv/discovery.conf": "", "discovery.conf": "", "/srv/100%.conf": "",
		"file:///srv/discovery.conf":                     "",
		"https://web.example/discovery.conf?signature=x": "",
		"http://user:password@web.example/d":             `Invalid value: "http://user:xxxxx@web.example/d": must be a path or an https URL: a file from another URL cannot be trusted`,
		"https:///d":                                     "must be a path or an https URL",
		"ftp://web.example/d":                            "must be a path or an https URL",
		"https://password%zz@web.example":                "must be a path or an https URL",
	} {
		flags := NewJoinFlags()
		flags.DiscoveryFile = name
		local, _, err := Join(File{}, flags, testFacts(t))
		switch {
		case want == "" && (err != nil ||
			local.Discovery.File != strings.TrimPrefix(name, "file://")):
			t.Errorf("%s: %q, %v", name, local.Discovery.File, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "password")):
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestJoinFlags(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*JoinFlags)
		wrong   string
		warning string
	}{
		"no endpoint": {func(f *JoinFlags) { f.Endpoint = "" },
			"argument HOST:PORT: Required value: set bootstrapToken (kubeadm join HOST:PORT", ""},
		"no port": {func(f *JoinFlags) { f.Endpoint = "10.0.0.1" },
			`argument HOST:PORT: Invalid value: "10.0.0.1": must be host:port`, ""},
		"no pin": {func(f *JoinFlags) { f.CACertHashes = nil },
			"--discovery-token-ca-cert-hash: Required value: set the hash", ""},
		"a wrong pin": {func(f *JoinFlags) { f.CACertHashes = []string{"sha256:12"} },
			"--discovery-token-ca-cert-hash: Invalid value: \"sha256:12\"", ""},
		"no pin on purpose": {func(f *JoinFlags) { f.CACertHashes = nil; f.UnsafeSkipCAVerification = true }, "", ""},
		"no token": {func(f *JoinFlags) { f.Token = "" },
			"--token: Invalid value: a token is", ""},
		"two ways": {func(f *JoinFlags) { f.DiscoveryFile = "/x" },
			"argument HOST:PORT: Invalid value: bootstrapToken and file are mutually exclusive",
			""},
		"a bad TLS token": {func(f *JoinFlags) { f.TLSBootstrapToken = "x" },
			"--tls-bootstrap-token: Invalid value: a token is", ""},
		"key of a worker": {func(f *JoinFlags) { f.CertificateKey = "x" }, "",
			"--certificate-key has no effect without --control-plane"},
		"address of a worker": {func(f *JoinFlags) { f.AdvertiseAddress = "x" }, "",
			"--apiserver-advertise-address has no effect without --control-plane"},
		"port of a worker": {func(f *JoinFlags) { f.BindPort = 1 }, "",
			"--apiserver-bind-port has no effect without --control-plane"},
		"several tokens": {func(f *JoinFlags) { f.DiscoveryToken = "bbbbbb.0123456789abcdef" }, "",
			""},
	} {
		t.Run(name, func(t *testing.T) {
			flags := workerFlags()
			c.change(&flags)
			_, run, err := Join(File{}, flags, testFacts(t))
			if c.wrong == "" && err != nil || c.wrong != "" &&
				(err == nil || !strings.HasPrefix(err.Error(), "command line: "+c.wrong)) {
				t.Errorf("got  %v\nwant %s", err, c.wrong)
			}
			if got := strings.Join(run.Warnings, "\n"); got != c.warning {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

func stored(t *testing.T) StoredConfig {
	t.Helper()
	return StoredConfig{
		Cluster: string(peerFile(t, "rich.cluster.golden")),
		Kubelet: StoredComponent{Text: string(peerFile(t, "rich.kubelet.golden")),
			Generated: true},
		KubeProxy: StoredComponent{Text: string(peerFile(t, "rich.kube-proxy.golden"))},
	}
}

func TestJoined(t *testing.T) {
	local, _, err := Join(File{}, workerFlags(), testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	n, warnings, err := CompleteJoin(local, stored(t), testFacts(t).Tool)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("%v, warnings %q", err, warnings)
	}
	first, _, err := Init(File{Name: "rich", Data: peerFile(t, "rich.yaml")}, NewInitFlags(),
		testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	want := first.Cluster
	want.KubeProxy.Generated = false
	if diff := cmp.Diff(want, n.Cluster); diff != "" {
		t.Errorf("(-first +joined):\n%s", diff)
	}
	if n.Name != "vm1" || n.Paths.Certificates != "/srv/pki" {
		t.Errorf("%+v", n.Local)
	}
}

func TestJoinedWarnsOfUnknownFields(t *testing.T) {
	s := stored(t)
	s.Cluster += "ofTheFuture: 1\n"
	s.Kubelet.Text += "ofTheFuture: 2\nmaxPods: 3\nmaxPods: 4\n"
	s.KubeProxy = StoredComponent{}
	n, warnings, err := CompleteJoin(node.Local{}, s, testFacts(t).Tool)
	if err != nil {
		t.Fatal(err)
	}
	if n.Cluster.KubeProxy.Config != nil {
		t.Error("a kube-proxy came out of nothing")
	}
	want := []string{
		"ConfigMap kube-system/kubeadm-config: unknown field ofTheFuture is ignored: the fields are apiServer, caCertificateValidityPeriod, certificateValidityPeriod, " +
			"certificatesDir, clusterName, controlPlaneEndpoint, controllerManager, dns, encryptionAlgorithm, etcd, featureGates, imageRepository, " +
			"kubernetesVersion, networking, proxy, scheduler",
		`ConfigMap kube-system/kubelet-config: line 51: duplicate field "maxPods"; the last value is used`,
		"ConfigMap kube-system/kubelet-config: unknown field ofTheFuture is ignored",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJoinedWithOlderStoredConfiguration(t *testing.T) {
	s := stored(t)
	s.Cluster = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.3\n" +
		"apiServer: {timeoutForControlPlane: 4m0s, extraArgs: {v: '4', profiling: 'false'}}\n"
	n, warnings, err := CompleteJoin(node.Local{}, s, testFacts(t).Tool)
	if err != nil {
		t.Fatalf("%v, warnings %q", err, warnings)
	}
	want := []node.Arg{{Name: "profiling", Value: "false"}, {Name: "v", Value: "4"}}
	if diff := cmp.Diff(want, n.Cluster.APIServer.Args); diff != "" ||
		n.Cluster.Version != "v1.36.3" {
		t.Errorf("version %s, arguments (-want +got):\n%s", n.Cluster.Version, diff)
	}
}

func TestJoinedErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*StoredConfig)
		want   string
	}{
		"nothing": {func(s *StoredConfig) { s.Cluster = "" },
			"ConfigMap kube-system/kubeadm-config has no ClusterConfiguration"},
		"old": {func(s *StoredConfig) {
			s.Cluster = strings.ReplaceAll(s.Cluster, "v1beta4", "v1beta2")
		}, "which is no longer supported"},
		"too old": {func(s *StoredConfig) {
			s.Cluster = strings.ReplaceAll(s.Cluster, "v1.37.1", "v1.30.0")
		}, "kubernetesVersion: kubeadm v1.37.1 does not support Kubernetes v1.30.0"},
		"wrong type": {func(s *StoredConfig) { s.Cluster += "clusterName: [1]\n" },
			"ConfigMap kube-system/kubeadm-config: clusterName: must be a string, not a list"},
		"no algorithm": {func(s *StoredConfig) {
			s.Cluster = strings.ReplaceAll(s.Cluster, "ECDSA-P256", "DSA")
		}, `encryptionAlgorithm: unknown key algorithm "DSA"`},
		"no kubelet": {func(s *StoredConfig) { s.Kubelet.Text = "" },
			"ConfigMap kube-system/kubelet-config has no KubeletConfiguration"},
		"broken proxy": {func(s *StoredConfig) { s.KubeProxy.Text = "a: [" },
			"ConfigMap kube-system/kube-proxy: document 1: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stored(t)
			c.change(&s)
			_, _, err := CompleteJoin(node.Local{}, s, testFacts(t).Tool)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
