package v1beta4

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradeConfiguration has a section for each subcommand of "upgrade". In all of them an absent
// boolean differs from false.
type UpgradeConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Apply is for "upgrade apply".
	Apply UpgradeApplyConfiguration `json:"apply,omitempty"`
	// Diff is for "upgrade diff".
	Diff UpgradeDiffConfiguration `json:"diff,omitempty"`
	// Node is for "upgrade node".
	Node UpgradeNodeConfiguration `json:"node,omitempty"`
	// Plan is for "upgrade plan".
	Plan UpgradePlanConfiguration `json:"plan,omitempty"`
	// Timeouts limit the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// UpgradeApplyConfiguration is the configuration of "upgrade apply", for the first control plane
// and the cluster.
type UpgradeApplyConfiguration struct {
	UpgradeChoice `json:",inline"`
	UpgradeChecks `json:",inline"`
	UpgradeSteps  `json:",inline"`

	// ForceUpgrade continues even if a requirement is not met, and skips the confirmation.
	ForceUpgrade *bool `json:"forceUpgrade,omitempty"`
}

// UpgradeNodeConfiguration is the configuration of "upgrade node", for other nodes.
type UpgradeNodeConfiguration struct {
	UpgradeChecks `json:",inline"`
	UpgradeSteps  `json:",inline"`
}

// UpgradePlanConfiguration is the configuration of "upgrade plan". DryRun has no effect, since
// planning changes nothing.
type UpgradePlanConfiguration struct {
	UpgradeChoice `json:",inline"`
	UpgradeChecks `json:",inline"`
}

// UpgradeDiffConfiguration is the configuration of "upgrade diff".
type UpgradeDiffConfiguration struct {
	// ContextLines is how many unchanged lines are shown around a difference.
	ContextLines int `json:"contextLines,omitempty"`
	// KubernetesVersion is the version to compare with.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// UpgradeChoice is the target version, and which kinds of versions are allowed.
type UpgradeChoice struct {
	// KubernetesVersion is the target version.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// AllowExperimentalUpgrades allows alpha and beta versions.
	AllowExperimentalUpgrades *bool `json:"allowExperimentalUpgrades,omitempty"`
	// AllowRCUpgrades allows release candidates.
	AllowRCUpgrades *bool `json:"allowRCUpgrades,omitempty"`
	// PrintConfig shows the configuration that is used.
	PrintConfig *bool `json:"printConfig,omitempty"`
}

// UpgradeChecks configures the checks before an upgrade.
type UpgradeChecks struct {
	// EtcdUpgrade includes a local etcd in the upgrade.
	EtcdUpgrade *bool `json:"etcdUpgrade,omitempty"`
	// IgnorePreflightErrors are checks whose errors count as warnings; "all" must be the only
	// entry.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	// DryRun only shows what would be done.
	DryRun *bool `json:"dryRun,omitempty"`
}

// UpgradeSteps configures the steps of an upgrade.
type UpgradeSteps struct {
	// SkipPhases are phases to skip.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Patches configures the patches of manifests.
	Patches *Patches `json:"patches,omitempty"`
	// CertificateRenewal renews the certificates during the upgrade.
	CertificateRenewal *bool `json:"certificateRenewal,omitempty"`
	// ImagePullPolicy is Always, IfNotPresent or Never.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSerial false pulls images in parallel.
	ImagePullSerial *bool `json:"imagePullSerial,omitempty"`
}
