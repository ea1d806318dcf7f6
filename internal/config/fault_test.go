package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	initHead    = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
	clusterHead = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
	joinHead    = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"
	resetHead   = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ResetConfiguration\n"
)

// faultsOf are the lines of an error without its prefix.
func faultsOf(t *testing.T, err error, origin string) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	text, ok := strings.CutPrefix(err.Error(), origin+":")
	if !ok {
		t.Errorf("the error does not begin with %q: %v", origin, err)
	}
	var all []string
	for _, line := range strings.Split(strings.Trim(text, " \n\t"), "\n") {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

func TestInitDocumentErrors(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing in it": {"",
			[]string{"it has no InitConfiguration or ClusterConfiguration of kubeadm.k8s.io/v1beta4"}},
		"only others": {joinHead,
			[]string{"it has no InitConfiguration or ClusterConfiguration of kubeadm.k8s.io/v1beta4, only JoinConfiguration"}},
		"a removed version": {"apiVersion: kubeadm.k8s.io/v1beta2\nkind: InitConfiguration\n",
			[]string{
				`document 1 (InitConfiguration) has apiVersion kubeadm.k8s.io/v1beta2, which is no longer supported: convert the file with "kubeadm config migrate --old-config FILE --new-config FILE" of kubeadm v1.22, then of later releases until it is v1beta4`}},
		"a version that is not settled": {"apiVersion: kubeadm.k8s.io/v1\nkind: InitConfiguration\n", []string{
			`document 1 (InitConfiguration) has apiVersion kubeadm.k8s.io/v1, which is experimental: only "kubeadm config validate" and "kubeadm config migrate" with --allow-experimental-api support it; use kubeadm.k8s.io/v1beta4`}},
		"a kind that its version does not have": {"apiVersion: kubeadm.k8s.io/v1beta3\nkind: ResetConfiguration\n", []string{
			"document 1 (ResetConfiguration) has apiVersion kubeadm.k8s.io/v1beta3, which does not have this kind: use kubeadm.k8s.io/v1beta4"}},
		"a field that its version does not have": {"apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\ndryRun: true\n", []string{
			"document 1 (InitConfiguration): unknown field dryRun: kubeadm.k8s.io/v1beta4 has it as dryRun"}},
		"an older version": {"apiVersion: kubeadm.k8s.io/v1alpha1\nkind: MasterConfiguration\n",
			[]string{
				`document 1 (MasterConfiguration) has apiVersion kubeadm.k8s.io/v1alpha1, which is no longer supported: convert the file with "kubeadm config migrate --old-config FILE --new-config FILE" of kubeadm v1.11, then of later releases until it is v1beta4`}},
		"an unknown version": {"apiVersion: kubeadm.k8s.io/v9\nkind: InitConfiguration\n", []string{
			"document 1 (InitConfiguration) has the unknown apiVersion kubeadm.k8s.io/v9: this kubeadm supports kubeadm.k8s.io/v1beta4"}},
		"a component's other version": {initHead +
			"---\napiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n",
			[]string{
				"document 2 (KubeletConfiguration) has apiVersion kubelet.config.k8s.io/v1alpha1, but only kubelet.config.k8s.io/v1beta1 is supported: convert it manually"}},
		"a kind twice": {initHead + "---\n" + clusterHead + "---\n" + initHead, []string{
			"document 3 (InitConfiguration) has the same kind as document 1: a file can have only one document of each kind"}},
		"unknown fields": {initHead + "nodeRegistration: {nmae: x}\n---\n" + clusterHead +
			"localAPIEndpoint: {}\npodSubnet: 10.0.0.0/16\n", []string{
			"document 1 (InitConfiguration): unknown field nodeRegistration.nmae: did you mean name?",
			"document 2 (ClusterConfiguration): unknown field localAPIEndpoint: did you mean localAPIEndpoint of InitConfiguration?",
			"document 2 (ClusterConfiguration): unknown field podSubnet: did you mean networking.podSubnet?"}},
		"an unknown field of a component": {initHead +
			"---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 3\n", []string{
			"document 2 (KubeletConfiguration): unknown field maxPod: did you mean maxPods?"}},
		"wrong types": {clusterHead +
			"kubernetesVersion: 1.37\napiServer: {extraArgs: {v: \"4\"}}\ncertificateValidityPeriod: 1y\n", []string{
			"document 1 (ClusterConfiguration): apiServer.extraArgs: must be a list of mappings with name, value, not a mapping: " +
				`v1beta3 had a mapping here; write each argument as "- name: NAME" and "value: VALUE"`,
			"document 1 (ClusterConfiguration): certificateValidityPeriod: must be a duration such as 1h30m0s, not \"1y\": its units are h, m, s and ms",
			"document 1 (ClusterConfiguration): kubernetesVersion: must be a string, not a number: put it in quotes"}},
		"no YAML": {initHead + "a: [\n",
			[]string{"document 1: line 3: did not find expected node content: close brackets"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := fileOf(c.text)
			file.Strict = true
			_, _, err := Init(file, NewInitFlags(), testFacts(t))
			if diff := cmp.Diff(c.want,
				faultsOf(t, err, "configuration file kubeadm.yaml")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnusedDocumentsAreWarnings(t *testing.T) {
	_, run, err := Init(fileOf(initHead+"---\n"+joinHead+
		"---\napiVersion: example.org/v1\nkind: ClusterConfig\n"), NewInitFlags(), testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"document 2 (JoinConfiguration) of kubeadm.k8s.io/v1beta4 is not used by this command",
		"document 3 (ClusterConfig) of example.org/v1 is not used by this command: did you mean ClusterConfiguration?",
	}
	if diff := cmp.Diff(want, run.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllFaultsAreReportedTogether(t *testing.T) {
	text := initHead + `
localAPIEndpoint: {advertiseAddress: 224.0.0.1, bindPort: 99999}
certificateKey: "12"
bootstrapTokens: [{token: SECRETS, usages: [sleeping], groups: [masters]}]
nodeRegistration: {name: A_B, criSocket: "tcp://127.0.0.1:2375", imagePullPolicy: Maybe, ignorePreflightErrors: [all, Swap]}
---
` + clusterHead + `
networking: {dnsDomain: Cluster_Local}
controlPlaneEndpoint: "API:0"
`
	_, _, err := Init(fileOf(text), NewInitFlags(), testFacts(t))
	got := faultsOf(t, err, "configuration file kubeadm.yaml")
	want := []string{
		"InitConfiguration nodeRegistration.name", "InitConfiguration nodeRegistration.criSocket",
		"InitConfiguration nodeRegistration.ignorePreflightErrors",
		"InitConfiguration nodeRegistration.imagePullPolicy",
		"InitConfiguration localAPIEndpoint.advertiseAddress",
		"InitConfiguration localAPIEndpoint.bindPort",
		"InitConfiguration certificateKey", "InitConfiguration bootstrapTokens[0].token",
		"InitConfiguration bootstrapTokens[0].usages[0]",
		"InitConfiguration bootstrapTokens[0].groups[0]",
		"InitConfiguration bootstrapTokens[0].groups",
		"ClusterConfiguration networking.dnsDomain", "ClusterConfiguration controlPlaneEndpoint",
	}
	for i, line := range got {
		got[i], _, _ = strings.Cut(line, ": ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(err.Error(), "SECRETS") {
		t.Errorf("the error repeats a secret: %v", err)
	}
}

func TestErrorsNameTheFlag(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*InitFlags)
		want   string
	}{
		"address": {func(f *InitFlags) { f.AdvertiseAddress = "256.1.1.1" },
			`--apiserver-advertise-address: Invalid value: "256.1.1.1": must be an IP address`},
		"nowhere": {func(f *InitFlags) { f.AdvertiseAddress = "127.0.0.1" },
			`--apiserver-advertise-address: Invalid value: "127.0.0.1": the loopback interface has no address that other machines can reach: set another address`},
		"name": {func(f *InitFlags) { f.NodeName = "a_b" },
			`--node-name: Invalid value: "a_b": must be lower-case letters`},
		"token": {func(f *InitFlags) { f.Token = "abc" },
			`--token: Invalid value: a token is 6 characters`},
		"ttl": {func(f *InitFlags) { f.TokenTTL = -1 },
			`--token-ttl: Invalid value: "-1ns": must not be negative`},
		"a SAN": {func(f *InitFlags) { f.CertSANs = []string{"ok", "not ok"} },
			`--apiserver-cert-extra-sans: Invalid value: "not ok": must be an IP address or a DNS name`},
		"pods": {func(f *InitFlags) { f.PodSubnet = "10.0.0.0" },
			`--pod-network-cidr: Invalid value: "10.0.0.0": must be a CIDR`},
		"gate": {func(f *InitFlags) { f.FeatureGates = "Nope=true" },
			`--feature-gates: unknown feature gate "Nope"`},
		"version": {func(f *InitFlags) { f.KubernetesVersion = "v1.20.0" },
			`--kubernetes-version: kubeadm v1.37.1 does not support Kubernetes v1.20.0`},
		"registry": {func(f *InitFlags) { f.ImageRepository = "https://r.example" },
			`--image-repository: Invalid value: "https://r.example": must be a registry and a path`},
		"checks": {func(f *InitFlags) { f.IgnorePreflightErrors = []string{"ALL", "swap"} },
			`--ignore-preflight-errors: Invalid value: "ALL,swap": "all" includes every check`},
	} {
		t.Run(name, func(t *testing.T) {
			flags := NewInitFlags()
			c.change(&flags)
			_, _, err := Init(File{}, flags, testFacts(t))
			if err == nil || !strings.HasPrefix(err.Error(), "command line: "+c.want) {
				t.Errorf("got  %v\nwant command line: %s…", err, c.want)
			}
		})
	}
}

func TestRefuseMixed(t *testing.T) {
	err := JoinFlags{}.RefuseMixed([]string{"v", "token", "config", "discovery-file", "vmodule",
		"skip-phases", "node-name"})
	want := "not allowed with --config: --discovery-file (JoinConfiguration discovery.file.kubeConfigPath), " +
		"--token (JoinConfiguration discovery.bootstrapToken.token): set the fields in the file instead"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := (InitFlags{}).RefuseMixed([]string{"config", "upload-certs", "dry-run",
		"skip-token-print"}); err != nil {
		t.Errorf("flags that may stand beside a file were refused: %v", err)
	}
}
