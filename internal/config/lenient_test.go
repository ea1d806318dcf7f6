package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/node"
)

const (
	kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	proxyHead   = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	discovered  = "discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: 'a:1', unsafeSkipCAVerification: true}}\n"
)

// These unknown fields are in files that well-known tools write.
func TestUnknownFieldsOfToolsAreWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"kinder, IPv6": {clusterHead +
			"scheduler:\n  extraArgs:\n  - name: bind-address\n    vaue: \"::1\"\n", []string{
			"document 1 (ClusterConfiguration): unknown field scheduler.extraArgs[0].vaue is ignored: did you mean value?"}},
		"kubeadm-ha": {initHead + "---\n" + proxyHead + "udpIdleTimeout: 250ms\n", []string{
			"document 2 (KubeProxyConfiguration): unknown field udpIdleTimeout is ignored: it was removed together with kube-proxy's mode userspace; delete it"}},
		"the example of Kubernetes' documentation": {initHead +
			"timeouts: {controlPlaneComponentHealthCheck: 60s, kubenetesAPICall: 40s}\n", []string{
			"document 1 (InitConfiguration): unknown field timeouts.kubenetesAPICall is ignored: did you mean kubernetesAPICall?"}},
		"fields of v1beta3": {clusterHead +
			"apiServer: {timeoutForControlPlane: 4m}\ndns: {type: CoreDNS}\nuseHyperKubeImage: false\n", []string{
			"document 1 (ClusterConfiguration): unknown field apiServer.timeoutForControlPlane is ignored: it moved to timeouts.controlPlaneComponentHealthCheck of InitConfiguration and JoinConfiguration",
			"document 1 (ClusterConfiguration): unknown field dns.type is ignored: it was removed, because CoreDNS is the only DNS server; delete it",
			"document 1 (ClusterConfiguration): unknown field useHyperKubeImage is ignored: it was removed together with hyperkube; delete it"}},
		"a field of v1beta4 in v1beta3": {strings.ReplaceAll(initHead, "v1beta4", "v1beta3") +
			"timeouts: {discovery: 1m}\n", []string{
			"document 1 (InitConfiguration): unknown field timeouts is ignored: kubeadm.k8s.io/v1beta4 has it as timeouts",
			`document 1 (InitConfiguration) has apiVersion kubeadm.k8s.io/v1beta3, which upstream's kubeadm no longer supports: convert the file with "kubeadm config migrate --old-config FILE --new-config FILE"`}},
		"a field of another document": {initHead + "networking: {podSubnet: 10.0.0.0/16}\n",
			[]string{
				"document 1 (InitConfiguration): unknown field networking is ignored: did you mean networking of ClusterConfiguration?"}},
		"a field of a component": {clusterHead + "maxPods: 10\n", []string{
			"document 1 (ClusterConfiguration): unknown field maxPods is ignored: did you mean maxPods of KubeletConfiguration?"}},
		"a misspelt field of a component": {initHead + "---\n" + kubeletHead + "maxPod: 10\n",
			[]string{
				"document 2 (KubeletConfiguration): unknown field maxPod is ignored: did you mean maxPods?"}},
		"an argument's field of v1": {clusterHead +
			"scheduler: {extraArgs: [{name: v, value: '4', mergeMethod: append}]}\n", []string{
			"document 1 (ClusterConfiguration): unknown field scheduler.extraArgs[0].mergeMethod is ignored: the fields are name, value"}},
		"a field twice": {clusterHead + "clusterName: a\nclusterName: b\n", []string{
			`document 1 (ClusterConfiguration): line 4: duplicate field "clusterName"; the last value is used`}},
	} {
		t.Run(name, func(t *testing.T) {
			n, run, err := Init(fileOf(c.text), NewInitFlags(), testFacts(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, run.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if len(run.Ignored) == 0 || len(run.Ignored) > len(run.Warnings) {
				t.Errorf("ignored: %q", run.Ignored)
			}
			if name == "a field twice" && n.Cluster.Name != "b" {
				t.Errorf("the cluster's name is %q", n.Cluster.Name)
			}
			file := fileOf(c.text)
			file.Strict = true
			if _, _, err := Init(file, NewInitFlags(), testFacts(t)); err == nil {
				t.Error("read strictly, it is taken")
			}
			if _, _, err := Migrate(fileOf(c.text), testFacts(t)); err == nil {
				t.Error("it can be migrated")
			}
		})
	}
}

func TestUnknownJoinFieldsOfToolsAreWarnings(t *testing.T) {
	for field, want := range map[string]string{
		// puppetlabs
		"clusterName: kubernetes": "clusterName is ignored: it was removed, because the cluster stores its name; delete it",
		"nodeRegistration: {kubeletExtraArgs: [{name: v, values: '4'}]}": "nodeRegistration.kubeletExtraArgs[0].values is ignored: did you mean value?",
		"token: abcdef.0123456789abcdef":                                 "token is ignored: did you mean discovery.bootstrapToken.token?",
	} {
		_, run, err := Join(fileOf(joinHead+discovered+field+"\n"), NewJoinFlags(), testFacts(t))
		if diff := cmp.Diff([]string{"document 1 (JoinConfiguration): unknown field " + want},
			run.Ignored); err != nil || diff != "" {
			t.Errorf("%s: %v, ignored (-want +got):\n%s", field, err, diff)
		}
	}
	kubeclipper := joinHead + strings.Replace(discovered, "discovery: {",
		"discovery: {timeout: 3m, ", 1)
	local, run, err := Join(fileOf(kubeclipper), NewJoinFlags(), testFacts(t))
	want := []string{"document 1 (JoinConfiguration): unknown field discovery.timeout is ignored: it moved to timeouts.discovery"}
	if diff := cmp.Diff(want, run.Warnings); err != nil || diff != "" ||
		local.Timeouts.Discovery != 5*time.Minute {
		t.Errorf("%v, %s for discovery, warnings (-want +got):\n%s", err, local.Timeouts.Discovery,
			diff)
	}
	if _, run, err = Reset(fileOf(resetHead+"nodeRegistration: {}\n"), NewResetFlags(),
		testFacts(t)); err != nil || len(run.Ignored) != 1 {
		t.Errorf("reset: %v, ignored %q", err, run.Ignored)
	}
}

// Values of the wrong type are errors, although an unknown field in the same file is only a
// warning.
func TestWrongTypesAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"clusterName: no":                         "clusterName: must be a string, not true or false: put it in quotes, since YAML parses yes, no, on and off as true or false",
		"apiServer: {extraArgs: {v: '4'}}":        `apiServer.extraArgs: must be a list of mappings with name, value, not a mapping: v1beta3 had a mapping here; write each argument as "- name: NAME" and "value: VALUE"`,
		"apiServer: {certSANs: {a: b}}":           "apiServer.certSANs: must be a list of strings, not a mapping",
		"certificateValidityPeriod: 365d":         `certificateValidityPeriod: must be a duration such as 1h30m0s, not "365d": its units are h, m, s and ms`,
		"featureGates: {RootlessControlPlane: 1}": "featureGates[RootlessControlPlane]: must be true or false, not a number",
	} {
		_, _, err := Init(fileOf(clusterHead+"clusterNam: x\n"+text+"\n"), NewInitFlags(),
			testFacts(t))
		if err == nil || err.Error() != "configuration file kubeadm.yaml: document 1 (ClusterConfiguration): "+want {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
	_, _, err := Init(fileOf(strings.ReplaceAll(clusterHead, "v1beta4", "v1beta3")+
		"apiServer: {extraArgs: [{name: v, value: '4'}]}\n"), NewInitFlags(), testFacts(t))
	if want := "must be a mapping, not a list: v1beta4 has a list here, v1beta3 a mapping of names to values"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestOctalPortWarning(t *testing.T) {
	n, run, err := Init(fileOf(initHead+"localAPIEndpoint:\n  bindPort: 06443\n"), NewInitFlags(),
		testFacts(t))
	want := []string{"document 1 (InitConfiguration): localAPIEndpoint.bindPort: 06443 is parsed as the octal number 3363: write 6443 or 3363"}
	if diff := cmp.Diff(want, run.Warnings); err != nil || diff != "" || n.BindPort != 3363 {
		t.Errorf("%v, %+v, warnings (-want +got):\n%s", err, n, diff)
	}
}

func TestExpiredTokens(t *testing.T) {
	facts := testFacts(t)
	facts.Now = time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)
	file := func(day string) File {
		return fileOf(initHead +
			"bootstrapTokens:\n- token: abcdef.0123456789abcdef\n- {token: bcdefg.0123456789abcdef, expires: '" + day + "T00:00:00Z'}\n")
	}
	const passed = `InitConfiguration bootstrapTokens[1].expires: Invalid value: "2030-05-31T00:00:00Z": is in the past, so no machine can join with this token: set a later time, or set ttl instead`
	if _, run, err := Init(file("2030-05-31"), NewInitFlags(), facts); err != nil ||
		cmp.Diff([]string{passed}, run.Warnings) != "" {
		t.Errorf("init: %v, warnings %q", err, run.Warnings)
	}
	if _, _, err := Tokens(file("2030-05-31"), NewTokenFlags(), facts); err == nil ||
		!strings.HasSuffix(err.Error(), passed) {
		t.Errorf("token create: %v", err)
	}
	if _, _, err := Migrate(file("2030-05-31"), facts); err == nil ||
		!strings.HasSuffix(err.Error(), passed) {
		t.Errorf("config validate: %v", err)
	}
	if _, run, err := Init(file("2030-06-02"), NewInitFlags(), facts); err != nil ||
		len(run.Warnings) > 0 {
		t.Errorf("before it expires: %v, warnings %q", err, run.Warnings)
	}
}

func TestManyFaults(t *testing.T) {
	names := strings.Repeat("not ok,", 500)
	_, _, err := Init(fileOf(clusterHead+"apiServer: {certSANs: ["+names+"]}\n"), NewInitFlags(),
		testFacts(t))
	if err == nil || strings.Count(err.Error(), "\n") != maxFaults+1 ||
		!strings.HasSuffix(err.Error(), "\n\tand 470 more") {
		t.Errorf("got %v", err)
	}
}

// Only a disabled add-on has no image, as in upstream's kubeadm.
func TestImagesWithSkippedProxy(t *testing.T) {
	for text, disabled := range map[string]bool{
		clusterHead + "---\n" + initHead + "skipPhases: [addon/kube-proxy]\n": false,
		clusterHead + "proxy: {disabled: true}\n":                             true,
	} {
		cluster, _, err := Cluster(fileOf(text), NewInitFlags(), testFacts(t))
		if err != nil || cluster.Proxy.Disabled != disabled {
			t.Errorf("%s: %v, %+v", text, err, cluster.Proxy)
		}
		var n *node.Node
		if n, _, err = Images(fileOf(text), NewInitFlags(), testFacts(t)); err != nil ||
			n.Cluster.Proxy.Disabled != disabled {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLongNames(t *testing.T) {
	for _, length := range []int{254, 100_000} {
		_, _, err := Init(fileOf(initHead+"nodeRegistration: {name: "+strings.Repeat("a", length)+
			"}\n"), NewInitFlags(), testFacts(t))
		if want := fmt.Sprintf("has %d characters: at most 253", length); err == nil ||
			!strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("got  %.500v\nwant %s", err, want)
		}
	}
}
