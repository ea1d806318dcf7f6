package config

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

// readUpgrade reads an UpgradeConfiguration, sets its defaults and checks it.
func readUpgrade(file File) (*v1beta4.UpgradeConfiguration, RunOptions, error) {
	var run RunOptions
	c := &v1beta4.UpgradeConfiguration{}
	if err := file.read(&run,
		&documentTarget{kind: v1beta4.KindUpgrade, into: c, needed: true}); err != nil {
		return nil, run, err
	}
	c.Default()
	for _, checks := range []*v1beta4.UpgradeChecks{&c.Apply.UpgradeChecks, &c.Node.UpgradeChecks,
		&c.Plan.UpgradeChecks} {
		checks.IgnorePreflightErrors = mergeIgnored(checks.IgnorePreflightErrors)
	}
	wrong := faults{fieldName: speaker(file, Common{}, "")}
	wrong.fields(v1beta4.KindUpgrade, checkUpgrade(c))
	return c, run, wrong.err(file.source())
}

func checkUpgrade(c *v1beta4.UpgradeConfiguration) field.ErrorList {
	apply, node, plan := field.NewPath("apply"), field.NewPath("node"), field.NewPath("plan")
	return slices.Concat(
		upgradeChecks(apply, &c.Apply.UpgradeChecks), upgradeSteps(apply, &c.Apply.UpgradeSteps),
		upgradeChecks(node, &c.Node.UpgradeChecks), upgradeSteps(node, &c.Node.UpgradeSteps),
		upgradeChecks(plan, &c.Plan.UpgradeChecks),
		checkTimeouts(c.Timeouts),
	)
}

func upgradeChecks(at *field.Path, c *v1beta4.UpgradeChecks) field.ErrorList {
	return checkIgnoredErrors(at.Child("ignorePreflightErrors"), c.IgnorePreflightErrors)
}

func upgradeSteps(at *field.Path, s *v1beta4.UpgradeSteps) field.ErrorList {
	errs := checkOneOf(at.Child("imagePullPolicy"), string(s.ImagePullPolicy),
		string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever))
	if p := s.Patches; p != nil && !node.Windows("C:").IsAbs(p.Directory) { // the node may run Windows
		errs = append(errs, checkAbsolutePath(at.Child("patches", "directory"), p.Directory)...)
	}
	return errs
}
