package config

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// UpgradeFlags are the argument and the flags of "upgrade apply" and "upgrade node". The tags
// name them.
type UpgradeFlags struct {
	Common
	Version            string // the argument of "upgrade apply": replaces the version in the file
	AllowExperimental  bool   `flag:"allow-experimental-upgrades"`
	AllowRC            bool   `flag:"allow-release-candidate-upgrades"`
	CertificateRenewal bool   `flag:"certificate-renewal"`
	EtcdUpgrade        bool   `flag:"etcd-upgrade"`
	Force              bool   `flag:"force"`
	FailOnEdits        bool   `flag:"fail-on-manual-changes"`
	Patches            string `flag:"patches"`
	PrintConfig        bool   `flag:"print-config"`
	Yes                bool   `flag:"yes"` // allowed with --config

	// Given are the names of the flags that the user set. Those that a phase accepts beside
	// --config replace the fields of the file.
	Given []string
}

// NewUpgradeFlags are the defaults of the flags.
func NewUpgradeFlags() UpgradeFlags {
	return UpgradeFlags{CertificateRenewal: true, EtcdUpgrade: true}
}

// upgradeInputs are what the settings of a command are resolved from.
type upgradeInputs struct {
	file     File
	flags    UpgradeFlags
	document *v1beta4.UpgradeConfiguration
	// of the command's section of the document
	checks  *v1beta4.UpgradeChecks
	steps   *v1beta4.UpgradeSteps
	command flag.Command
}

// choose is the flag if the user set it or if there is no file, else the field.
func (in upgradeInputs) choose(name flag.Name, set bool, field *bool) bool {
	if !in.file.Given() || slices.Contains(in.flags.Given, string(name)) {
		return set
	}
	return field != nil && *field
}

// UpgradeApply resolves the settings of "upgrade apply" from the file and the flags.
func UpgradeApply(file File, flags UpgradeFlags) (node.Upgrade, RunOptions, error) {
	c, run, err := readUpgradeOrDefault(file)
	if err != nil {
		return node.Upgrade{}, run, err
	}
	apply := &c.Apply
	in := upgradeInputs{file, flags, c, &apply.UpgradeChecks, &apply.UpgradeSteps,
		flag.UpgradeApply}
	u, err := in.resolve(&run)
	u.AllowExperimental = in.choose(flag.AllowExperimentalUpgrades, flags.AllowExperimental,
		apply.AllowExperimentalUpgrades)
	u.AllowRC = in.choose(flag.AllowRCUpgrades, flags.AllowRC, apply.AllowRCUpgrades)
	u.Force = in.choose(flag.Force, flags.Force, apply.ForceUpgrade)
	u.PrintConfig = in.choose(flag.PrintConfig, flags.PrintConfig, apply.PrintConfig)
	u.FailOnEdits = flags.FailOnEdits
	u.Confirm = !flags.Yes && !u.Force && !run.DryRun
	return u, run, err
}

// UpgradeNode resolves the settings of "upgrade node" from the file and the flags.
func UpgradeNode(file File, flags UpgradeFlags) (node.Upgrade, RunOptions, error) {
	c, run, err := readUpgradeOrDefault(file)
	if err != nil {
		return node.Upgrade{}, run, err
	}
	in := upgradeInputs{file, flags, c, &c.Node.UpgradeChecks, &c.Node.UpgradeSteps,
		flag.UpgradeNode}
	u, err := in.resolve(&run)
	u.FailOnEdits = flags.FailOnEdits
	return u, run, err
}

func readUpgradeOrDefault(file File) (*v1beta4.UpgradeConfiguration, RunOptions, error) {
	if file.Given() {
		return readUpgrade(file)
	}
	c := &v1beta4.UpgradeConfiguration{}
	c.Default()
	return c, RunOptions{}, nil
}

// resolve returns the settings that both commands have.
func (in upgradeInputs) resolve(run *RunOptions) (node.Upgrade, error) {
	flags, checks, steps := in.flags, in.checks, in.steps
	run.applyFlags(checks.DryRun != nil && *checks.DryRun, steps.SkipPhases, flags.Common)
	checks.IgnorePreflightErrors = mergeIgnored(checks.IgnorePreflightErrors,
		flags.IgnorePreflightErrors)
	if in.file.Given() && !slices.Contains(flags.Given, string(flag.Patches)) {
		flags.Patches = patchesDir(steps.Patches)
	}
	wrong := faults{fieldName: speaker(in.file, flags.Common, in.command)}
	wrong.fields(v1beta4.KindUpgrade, checkUpgrade(in.document))
	u := node.Upgrade{
		CertificateRenewal: in.choose(flag.CertificateRenewal, flags.CertificateRenewal,
			steps.CertificateRenewal),
		EtcdUpgrade: in.choose(flag.EtcdUpgrade, flags.EtcdUpgrade, checks.EtcdUpgrade),
		Local: node.Local{
			Patches:       flags.Patches,
			PullPolicy:    steps.ImagePullPolicy,
			PullSerially:  steps.ImagePullSerial == nil || *steps.ImagePullSerial,
			IgnoredChecks: normalizeIgnored(checks.IgnorePreflightErrors),
			Paths:         node.DefaultPaths(),
			Timeouts:      newTimeouts(in.document.Timeouts),
		},
	}
	if in.command == flag.UpgradeApply {
		text, where := in.document.Apply.KubernetesVersion, v1beta4.KindUpgrade+" apply.kubernetesVersion"
		if flags.Version != "" {
			text, where = flags.Version, "argument version"
		}
		switch err := checkVersionOrLabel(text); {
		case err != nil:
			wrong.add("%s: %v", where, err)
		case strings.TrimSpace(text) == "":
			wrong.add("no version to upgrade to: give it as the argument, such as %s, or as "+
				"apply.kubernetesVersion of an %s with --config", release.DefaultTool,
				v1beta4.KindUpgrade)
		}
		u.Version = strings.TrimSpace(text)
	}
	return u, wrong.err(in.file.source())
}

// NewLocal is what commands without a configuration file take for an existing node: the default paths
// and time limits.
func NewLocal() node.Local {
	c := &v1beta4.UpgradeConfiguration{}
	c.Default()
	return node.Local{Paths: node.DefaultPaths(), Timeouts: newTimeouts(c.Timeouts),
		PullSerially: true}
}

// CompleteUpgrade completes the desired state of a machine that is a node already, with what its
// cluster stores and with the version to upgrade to. A zero target keeps the version that the
// cluster stores. Unknown fields and feature gates are only warnings: what an older kubeadm has
// stored must not prevent an upgrade.
func CompleteUpgrade(local node.Local, stored StoredConfig, target release.Target) (*node.Node,
	[]string, error) {
	var warnings []string
	n := &node.Node{Local: local}
	c, present, err := decodeStoredCluster(stored.Cluster, n.BindPort, &warnings)
	if err != nil {
		return nil, warnings, storedProblem(err, "kubeadm-config")
	}
	if target.Version() == nil {
		target = present
	}
	c.KubernetesVersion = target.Stored()
	if n.Cluster, err = newCluster(c, target); err != nil {
		return nil, warnings, storedProblem(fmt.Errorf("%s: %w", kubeadmConfigMap, err),
			"kubeadm-config")
	}
	n.Paths.Certificates = c.CertificatesDir
	k := &kubeletconfig.KubeletConfiguration{}
	kubelet := storedDocument{"ConfigMap kube-system/kubelet-config", stored.Kubelet.Text,
		kindKubelet}
	if err := decodeStored(kubelet, k, &warnings); err != nil {
		return nil, warnings, storedProblem(err, "kubelet-config",
			"re-create it: kubeadm init phase upload-config kubelet --config FILE")
	}
	warnings = append(warnings, fillKubelet(k, c)...)
	n.Cluster.Kubelet = node.KubeletConfig{Config: k, Generated: stored.Kubelet.Generated}
	p := &proxyconfig.KubeProxyConfiguration{}
	n.Cluster.KubeProxy = node.ProxyConfig{Config: p, Generated: true}
	if stored.KubeProxy.Text != "" {
		proxy := storedDocument{"ConfigMap kube-system/kube-proxy", stored.KubeProxy.Text, kindProxy}
		if err := decodeStored(proxy, p, &warnings); err != nil {
			return nil, warnings, storedProblem(err, "kube-proxy")
		}
		n.Cluster.KubeProxy.Generated = stored.KubeProxy.Generated
	}
	warnings = append(warnings, fillProxy(p, c, n.Address)...)
	if n.PullPolicy == "" {
		n.PullPolicy = corev1.PullIfNotPresent
	}
	return n, warnings, nil
}

// storedProblem adds how to correct a ConfigMap of kube-system.
func storedProblem(err error, name string, hints ...string) error {
	return problem.New(err, append([]string{
		"correct it: kubectl edit configmap " + name + " --namespace kube-system"}, hints...)...)
}
