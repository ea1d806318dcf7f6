package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

func TestInitDefaults(t *testing.T) {
	n, run, err := Init(File{}, NewInitFlags(), testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	want := node.Local{
		Name: "vm1", Hostname: "vm1", Role: node.ControlPlane,
		Address: "10.77.0.11", BindPort: 6443,
		CRISocket: node.DefaultCRISocket,
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane",
			Effect: corev1.TaintEffectNoSchedule}},
		PullPolicy: corev1.PullIfNotPresent, PullSerially: true,
		CACertPath: "/etc/kubernetes/pki/ca.crt",
		Tokens: []node.BootstrapToken{{
			ID: "hhhhhh", Secret: "hhhhhhhhhhhhhhhh", Random: true,
			Description: "Created by kubeadm init for joining nodes",
			TTL:         24 * time.Hour,
			Usages:      []string{"signing", "authentication"},
			Groups:      []string{"system:bootstrappers:kubeadm:default-node-token"},
		}},
		Paths: node.DefaultPaths(),
		Timeouts: node.Timeouts{
			ControlPlane: 4 * time.Minute, Kubelet: 4 * time.Minute, KubernetesAPI: time.Minute,
			EtcdAPI:      2 * time.Minute,
			TLSBootstrap: 5 * time.Minute, Discovery: 5 * time.Minute, Upgrade: 5 * time.Minute,
		},
	}
	if diff := cmp.Diff(want, n.Local); diff != "" {
		t.Errorf("Local (-want +got):\n%s", diff)
	}
	if n.Cluster.Version != "v1.37.1" || !n.Cluster.Kubelet.Generated ||
		!n.Cluster.KubeProxy.Generated {
		t.Errorf("Version %q, generated %v, %v", n.Cluster.Version, n.Cluster.Kubelet.Generated,
			n.Cluster.KubeProxy.Generated)
	}
	if diff := cmp.Diff(RunOptions{}, run); diff != "" {
		t.Errorf("Run (-want +got):\n%s", diff)
	}
}

func TestFlagsWithFile(t *testing.T) {
	text := initHead + "dryRun: true\nskipPhases: [preflight]\npatches: {directory: /p}\nnodeRegistration: {name: from-file, ignorePreflightErrors: [Swap]}\n"
	flags := NewInitFlags()
	no := false
	flags.Common = Common{NodeName: "From-Flag", DryRun: &no,
		IgnorePreflightErrors: []string{"Mem"}, SkipPhases: []string{"addon"}, KubeconfigDir: "/k"}
	flags.UploadCerts, flags.PodSubnet = true, "10.0.0.0/16"
	n, run, err := Init(fileOf(text), flags, testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if n.Name != "from-flag" || !n.UploadCerts || n.Patches != "/p" || n.Paths.Kubeconfigs != "/k" {
		t.Errorf("%+v", n.Local)
	}
	if n.Cluster.PodSubnet != "" {
		t.Error("a flag that may not stand beside a file was heeded")
	}
	if diff := cmp.Diff(node.IgnoredChecks{"mem", "swap"}, n.IgnoredChecks); diff != "" {
		t.Errorf("Ignore (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(RunOptions{SkipPhases: []string{"addon"}}, run); diff != "" {
		t.Errorf("Run (-want +got):\n%s", diff)
	}
	if !n.Cluster.DNS.Disabled || !n.Cluster.Proxy.Disabled ||
		!strings.Contains(n.Cluster.Document, "disabled: true") {
		t.Error("a skipped add-on is not disabled")
	}
}

func TestDisabledAddonsAreSkipped(t *testing.T) {
	_, run, err := Init(fileOf(initHead+"dryRun: true\nskipPhases: [certs]\n---\n"+clusterHead+
		"dns: {disabled: true}\nproxy: {disabled: true}\n"), NewInitFlags(), testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	want := RunOptions{DryRun: true, SkipPhases: []string{"addon/coredns", "addon/kube-proxy", "certs"}}
	if diff := cmp.Diff(want, run); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChooseAddress(t *testing.T) {
	route := func(ip string) state.Address { return state.Address{IP: ip, DefaultRoute: true} }
	lo := func(ip string) state.Address { return state.Address{IP: ip, Loopback: true} }
	other := state.Address{IP: "192.168.1.1"}
	for name, c := range map[string]struct {
		wanted string
		have   []state.Address
		want   string // empty for an error
	}{
		"IPv4 first": {"",
			[]state.Address{route("fd00::1"), route("10.0.0.1")}, "10.0.0.1"},
		"IPv4 wanted": {"0.0.0.0",
			[]state.Address{route("fd00::1"), route("10.0.0.1")}, "10.0.0.1"},
		"IPv6 wanted": {"::",
			[]state.Address{route("10.0.0.1"), route("fd00::1")}, "fd00::1"},
		"IPv6 wanted but not there": {"::", []state.Address{route("10.0.0.1")}, "10.0.0.1"},
		"only IPv6": {"", []state.Address{other, route("fd00::1")},
			"fd00::1"},
		"the default route's comes first": {"",
			[]state.Address{other, lo("10.9.9.9"), route("10.0.0.1")}, "10.0.0.1"},
		"unnumbered":       {"", []state.Address{other, lo("10.9.9.9")}, "10.9.9.9"},
		"no default route": {"", []state.Address{other}, ""},
		"nothing at all":   {"", nil, ""},
		"loopback": {"127.0.0.1",
			[]state.Address{route("10.0.0.1"), lo("10.9.9.9")}, "10.9.9.9"},
		"loopback without an address": {"127.0.0.1", []state.Address{route("10.0.0.1")}, ""},
		"named":                       {"10.5.5.5", nil, "10.5.5.5"},
		"no address":                  {"host", nil, "host"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseAddress(c.wanted, c.have)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestRuntimeSocket(t *testing.T) {
	facts := testFacts(t)
	facts.Runtimes = []string{"unix:///a.sock", "unix:///b.sock"}
	_, _, err := Init(File{}, NewInitFlags(), facts)
	want := "command line: --cri-socket: Required value: found several container runtimes, set one of unix:///a.sock, unix:///b.sock"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	flags := NewInitFlags()
	flags.CRISocket = "/b.sock"
	n, run, err := Init(File{}, flags, facts)
	if err != nil || n.CRISocket != "unix:///b.sock" || len(run.Warnings) != 1 {
		t.Errorf("%v, warnings %q", err, run.Warnings)
	}
	facts.Runtimes = nil
	if n, _, err = Init(File{}, NewInitFlags(), facts); err != nil || n.CRISocket != node.DefaultCRISocket {
		t.Errorf("%v", err)
	}
}

func TestHostnameOverride(t *testing.T) {
	n, _, err := Init(fileOf(initHead+
		"nodeRegistration: {kubeletExtraArgs: [{name: hostname-override, value: other}]}\n"),
		NewInitFlags(), testFacts(t))
	if err != nil || n.Name != "other" || n.Hostname != "vm1" {
		t.Errorf("%v, %+v", err, n)
	}
	n, run, err := Init(fileOf(initHead+
		"nodeRegistration: {name: one, kubeletExtraArgs: [{name: hostname-override, value: two}]}\n"), NewInitFlags(), testFacts(t))
	want := []string{`the node name "one" has no effect: kubeletExtraArgs sets hostname-override to "two", so the kubelet registers as "two"; set only one of them`}
	if err != nil || n.Name != "two" {
		t.Errorf("beside another name: %v, %+v", err, n)
	}
	if diff := cmp.Diff(want, run.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	// as the kubelet reads it
	for name, override := range map[string]string{"other": " OTHER", "vm1": ""} {
		registration := fmt.Sprintf(
			"nodeRegistration: {name: %s, kubeletExtraArgs: [{name: hostname-override, value: %q}]}\n", name, override)
		if n, _, err := Init(fileOf(initHead+registration), NewInitFlags(),
			testFacts(t)); err != nil || n.Name != name {
			t.Errorf("%s: %v", registration, err)
		}
	}
}

func TestVersionLabels(t *testing.T) {
	for name, c := range map[string]struct {
		label, answer string
		err           error
		want          string
		warnings      int
		asked         bool
	}{
		"a version":  {"v1.37.0", "", nil, "v1.37.0", 0, false},
		"a label":    {"stable-1.37", "v1.37.9", nil, "v1.37.9", 0, true},
		"no network": {"stable-1", "", errors.New("no route"), "v1.37.1", 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			facts, asked := testFacts(t), false
			facts.Fetch = func(string) (string, error) { asked = true; return c.answer, c.err }
			flags := NewInitFlags()
			flags.KubernetesVersion = c.label
			n, run, err := Init(File{}, flags, facts)
			if err != nil {
				t.Fatal(err)
			}
			if n.Cluster.Version != c.want || len(run.Warnings) != c.warnings || asked != c.asked {
				t.Errorf("version %s, warnings %q, asked %v", n.Cluster.Version, run.Warnings,
					asked)
			}
		})
	}
}

func TestFaultsAreReportedBeforeVersionLookup(t *testing.T) {
	facts := testFacts(t)
	facts.Fetch = func(string) (string, error) { t.Error("the network was asked"); return "", errors.New("no") }
	flags := NewInitFlags()
	flags.PodSubnet = "x"
	if _, _, err := Init(File{}, flags, facts); err == nil {
		t.Error("no error")
	}
}

func TestWarnings(t *testing.T) {
	text := clusterHead + "kubernetesVersion: v1.37.1\ncertificateValidityPeriod: 9000h\ncaCertificateValidityPeriod: 8999h\nnetworking: {serviceSubnet: 'fec0:1::/112'}\n---\n" +
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [1.2.3.4]\nhealthzPort: 1\nreadOnlyPort: 10255\nauthentication: {anonymous: {enabled: true}}\n---\n" +
		"apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\nbindAddress: 10.0.0.1\n"
	n, run, err := Init(fileOf(text), NewInitFlags(), testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"certificateValidityPeriod 9000h0m0s is longer than 8760h0m0s: a stolen key could be used for all that time",
		"certificateValidityPeriod 9000h0m0s is longer than caCertificateValidityPeriod 8999h0m0s: certificates expire along with their CA",
		"subnet fec0:1::/112 overlaps the site-local addresses fec0::/10, which RFC 3879 deprecates",
		"KubeletConfiguration clusterDNS is [1.2.3.4], but [fec0:1::a] is recommended",
		"KubeletConfiguration authentication.anonymous.enabled is true, but false is recommended",
		"KubeletConfiguration healthzPort is 1, but 10248 is recommended",
		"KubeletConfiguration readOnlyPort is 10255, but 0 is recommended",
		"KubeProxyConfiguration bindAddress is 10.0.0.1, but 0.0.0.0 is recommended",
		"KubeProxyConfiguration mode: ipvs is deprecated in kube-proxy: use iptables or nftables",
	}
	if diff := cmp.Diff(want, run.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n.Cluster.Kubelet.Generated || n.Cluster.KubeProxy.Generated {
		t.Error("what the user gave counts as generated")
	}
}

func TestTokens(t *testing.T) {
	flags := NewTokenFlags()
	flags.Token, flags.TTL = "abcdef.0123456789abcdef", 0
	got, _, err := Tokens(File{}, flags, testFacts(t))
	if made := got.Tokens; err != nil || len(made) != 1 || made[0].String() != "abcdef.0123456789abcdef" || made[0].TTL != 0 || made[0].Random {
		t.Errorf("%+v, %v", got, err)
	}
	if got.UploadCerts || got.CertificateKey != "" || got.Timeouts.KubernetesAPI != time.Minute || got.Paths != node.DefaultPaths() {
		t.Errorf("%+v", got)
	}
	flags.Groups = []string{"masters"}
	if _, _, err := Tokens(File{}, flags, testFacts(t)); err == nil || !strings.HasPrefix(err.Error(), `command line: --groups: Invalid value: "masters"`) {
		t.Errorf("%v", err)
	}
	got, _, err = Tokens(fileOf(initHead+"bootstrapTokens: [{}, {token: abcdef.0123456789abcdef}]\n"), NewTokenFlags(), Facts{Random: testFacts(t).Random})
	if made := got.Tokens; err != nil || len(made) != 2 || !made[0].Random || made[1].Random {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTokensWithACertificateKey(t *testing.T) {
	key := strings.Repeat("ab", 32)
	flags := NewTokenFlags()
	flags.UploadCerts, flags.CertificateKey = true, key
	if got, _, err := Tokens(File{}, flags, testFacts(t)); err != nil || !got.UploadCerts || got.CertificateKey != key {
		t.Errorf("%+v, %v", got, err)
	}
	flags.CertificateKey = "ab"
	if _, _, err := Tokens(File{}, flags, testFacts(t)); err == nil || !strings.HasPrefix(err.Error(), "command line: --certificate-key: ") {
		t.Errorf("%v", err)
	}
	flags.CertificateKey = ""
	got, _, err := Tokens(fileOf(initHead+"certificateKey: "+key+"\n"), flags, testFacts(t))
	if err != nil || !got.UploadCerts || got.CertificateKey != key {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCluster(t *testing.T) {
	flags := NewInitFlags()
	flags.ImageRepository = "registry.example"
	// Neither a name nor an address is to be had, and neither is needed.
	c, run, err := Cluster(File{}, flags, Facts{Tool: testFacts(t).Tool})
	if err != nil || c.ImageRepository != "registry.example" || c.Version != "v1.37.1" || len(run.Warnings) != 0 {
		t.Errorf("%+v, %q, %v", c, run.Warnings, err)
	}
}

func TestReset(t *testing.T) {
	yes := true
	flags := NewResetFlags()
	flags.CleanupTmpDir, flags.CertificatesDir, flags.DryRun = true, "/pki", &yes
	r, run, err := Reset(File{}, flags, testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if !run.DryRun || r.Force || !r.CleanupTmpDir || r.Paths.Certificates != "/pki" || r.CRISocket != node.DefaultCRISocket || r.Name != "vm1" || r.Timeouts.EtcdAPI != 2*time.Minute {
		t.Errorf("%+v %+v", r, run)
	}
	r, run, err = Reset(fileOf(resetHead+"force: true\nunmountFlags: [MNT_DETACH]\nskipPhases: [preflight]\nignorePreflightErrors: [Root]\n"), NewResetFlags(), testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Force || r.Paths.Certificates != "/etc/kubernetes/pki" || !r.IgnoredChecks.Has("root") {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"MNT_DETACH"}, r.UnmountFlags); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"preflight"}, run.SkipPhases); diff != "" {
		t.Error(diff)
	}
}
