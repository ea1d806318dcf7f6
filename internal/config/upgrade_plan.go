package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/untrusted"
)

// UpgradePlanFlags are the argument and the flags of "upgrade plan". The tags name them.
type UpgradePlanFlags struct {
	Common
	Version           string // the argument: replaces the version in the file
	AllowExperimental bool   `flag:"allow-experimental-upgrades"`
	AllowRC           bool   `flag:"allow-release-candidate-upgrades"`
	EtcdUpgrade       bool   `flag:"etcd-upgrade"`
	PrintConfig       bool   `flag:"print-config"`
}

// NewUpgradePlanFlags are the defaults of the flags of "upgrade plan".
func NewUpgradePlanFlags() UpgradePlanFlags { return UpgradePlanFlags{EtcdUpgrade: true} }

// document is the configuration document with the values of the flags.
func (f UpgradePlanFlags) document() *v1beta4.UpgradeConfiguration {
	c := &v1beta4.UpgradeConfiguration{}
	c.Plan.AllowExperimentalUpgrades = &f.AllowExperimental
	c.Plan.AllowRCUpgrades = &f.AllowRC
	c.Plan.PrintConfig = &f.PrintConfig
	c.Plan.EtcdUpgrade = &f.EtcdUpgrade
	c.Default()
	return c
}

// UpgradePlan are the settings of "upgrade plan".
type UpgradePlan struct {
	Version           string // version or label to plan for; empty for the newest releases
	AllowExperimental bool   // alpha and beta versions count, and release candidates
	AllowRC           bool   // release candidates count
	EtcdUpgrade       bool   // the local etcd members are upgraded too
	PrintConfig       bool   // show the stored ClusterConfiguration
	Ignore            node.IgnoredChecks
	Timeouts          node.Timeouts
}

// ReadUpgradePlan resolves the settings of "upgrade plan" from the file or the flags.
func ReadUpgradePlan(file File, flags UpgradePlanFlags) (UpgradePlan, RunOptions, error) {
	c, run := flags.document(), RunOptions{}
	if file.Given() {
		var err error
		if c, run, err = readUpgrade(file); err != nil {
			return UpgradePlan{}, run, err
		}
	}
	c.Plan.IgnorePreflightErrors = mergeIgnored(c.Plan.IgnorePreflightErrors,
		flags.IgnorePreflightErrors)
	wrong := faults{fieldName: speaker(file, flags.Common, flag.UpgradePlan)}
	wrong.fields(v1beta4.KindUpgrade, checkUpgrade(c))
	text, where := c.Plan.KubernetesVersion, v1beta4.KindUpgrade+" plan.kubernetesVersion"
	if flags.Version != "" {
		text, where = flags.Version, "argument version"
	}
	if err := checkVersionOrLabel(text); err != nil {
		wrong.add("%s: %v", where, err)
	}
	isTrue := func(b *bool) bool { return b != nil && *b }
	return UpgradePlan{
		Version:           strings.TrimSpace(text),
		AllowExperimental: isTrue(c.Plan.AllowExperimentalUpgrades),
		AllowRC:           isTrue(c.Plan.AllowRCUpgrades),
		EtcdUpgrade:       isTrue(c.Plan.EtcdUpgrade),
		PrintConfig:       isTrue(c.Plan.PrintConfig),
		Ignore:            normalizeIgnored(c.Plan.IgnorePreflightErrors),
		Timeouts:          newTimeouts(c.Timeouts),
	}, run, wrong.err(file.source())
}

// checkVersionOrLabel refuses a text that is neither empty, nor a version, nor a version label.
func checkVersionOrLabel(text string) error {
	if text == "" || release.IsLabel(text) {
		return nil
	}
	target, err := release.ParseTarget(text)
	if err != nil {
		return fmt.Errorf("%s is not a Kubernetes version: use the form %s, "+
			"or a label such as stable-1.37", untrusted.Quote(text), release.DefaultTool)
	}
	if target.Version().Major() != 1 {
		return fmt.Errorf("there is no Kubernetes %s: the major version must be 1", target)
	}
	return nil
}

// StoredCluster reads the ClusterConfiguration that a cluster stores in ConfigMap kubeadm-config,
// of any Kubernetes version. Unknown fields and unknown feature gates are only warnings: what an
// older kubeadm has stored must not prevent an upgrade.
func StoredCluster(stored string) (node.Cluster, []string, error) {
	var warnings []string
	c, target, err := decodeStoredCluster(stored, v1beta4.DefaultBindPort, &warnings)
	if err != nil {
		return node.Cluster{}, warnings, err
	}
	cluster, err := newCluster(c, target)
	if err != nil {
		return node.Cluster{}, warnings, fmt.Errorf("%s: %w", kubeadmConfigMap, err)
	}
	return cluster, warnings, nil
}

// kubeadmConfigMap is how errors name the ConfigMap with the ClusterConfiguration.
const kubeadmConfigMap = "ConfigMap kube-system/kubeadm-config"

// decodeStoredCluster decodes and completes a stored ClusterConfiguration of any version.
func decodeStoredCluster(stored string, bindPort int32, warnings *[]string) (
	*v1beta4.ClusterConfiguration, release.Target, error) {
	c := &v1beta4.ClusterConfiguration{}
	if err := decodeStored(storedDocument{kubeadmConfigMap, stored, v1beta4.KindCluster}, c,
		warnings); err != nil {
		return nil, release.Target{}, err
	}
	if c.KubernetesVersion == "" {
		return nil, release.Target{}, errors.New(kubeadmConfigMap + " has no kubernetesVersion")
	}
	c.Default()
	fillCluster(c, bindPort)
	for _, err := range release.CheckFeatureGates(c.FeatureGates) {
		*warnings = append(*warnings, kubeadmConfigMap+": "+err.Error())
	}
	*warnings = slices.Compact(*warnings)
	target, err := release.ParseTarget(c.KubernetesVersion)
	if err != nil {
		return nil, target, fmt.Errorf("%s: kubernetesVersion: %w", kubeadmConfigMap, err)
	}
	return c, target, nil
}
