package v1beta4

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradeConfiguration has a section for each command below "upgrade". In all of
// them an absent switch differs from one that is off.
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
	// Timeouts bound the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// UpgradeApplyConfiguration is how the first control plane, and with it the
// cluster, is upgraded.
type UpgradeApplyConfiguration struct {
	UpgradeChoice `json:",inline"`
	UpgradeChecks `json:",inline"`
	UpgradeSteps  `json:",inline"`

	// ForceUpgrade goes on although a requirement is not met, and asks no question.
	ForceUpgrade *bool `json:"forceUpgrade,omitempty"`
}

// UpgradeNodeConfiguration is how a further node is upgraded.
type UpgradeNodeConfiguration struct {
	UpgradeChecks `json:",inline"`
	UpgradeSteps  `json:",inline"`
}

// UpgradePlanConfiguration is what "upgrade plan" considers. DryRun has no effect:
// planning changes nothing.
type UpgradePlanConfiguration struct {
	UpgradeChoice `json:",inline"`
	UpgradeChecks `json:",inline"`
}

// UpgradeDiffConfiguration is how the difference that an upgrade would make is shown.
type UpgradeDiffConfiguration struct {
	// ContextLines is how many unchanged lines stand around a difference.
	ContextLines int `json:"contextLines,omitempty"`
	// KubernetesVersion is the version to compare with.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// UpgradeChoice is which version to go to, and which are admitted.
type UpgradeChoice struct {
	// KubernetesVersion is the version to go to.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// AllowExperimentalUpgrades admits alpha and beta versions.
	AllowExperimentalUpgrades *bool `json:"allowExperimentalUpgrades,omitempty"`
	// AllowRCUpgrades admits release candidates.
	AllowRCUpgrades *bool `json:"allowRCUpgrades,omitempty"`
	// PrintConfig shows the configuration that is used.
	PrintConfig *bool `json:"printConfig,omitempty"`
}

// UpgradeChecks is what is looked at before an upgrade.
type UpgradeChecks struct {
	// EtcdUpgrade counts a local etcd in.
	EtcdUpgrade *bool `json:"etcdUpgrade,omitempty"`
	// IgnorePreflightErrors names checks whose errors count as warnings; "all" stands alone.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	// DryRun only shows what would be done.
	DryRun *bool `json:"dryRun,omitempty"`
}

// UpgradeSteps is how a machine is brought to the new version.
type UpgradeSteps struct {
	// SkipPhases are addresses of phases to leave out.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Patches says where files are that change what is deployed.
	Patches *Patches `json:"patches,omitempty"`
	// CertificateRenewal renews the certificates on the way.
	CertificateRenewal *bool `json:"certificateRenewal,omitempty"`
	// ImagePullPolicy is Always, IfNotPresent or Never.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSerial false pulls images side by side.
	ImagePullSerial *bool `json:"imagePullSerial,omitempty"`
}
