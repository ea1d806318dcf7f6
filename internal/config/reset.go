package config

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
)

// Reset resolves the settings of a reset.
func Reset(file File, flags ResetFlags, facts Facts) (node.Reset, RunOptions, error) {
	c, run, err := readReset(file, flags)
	if err != nil {
		return node.Reset{}, run, err
	}
	run.applyFlags(c.DryRun, c.SkipPhases, flags.Common)
	if err := completeReset(c, inputs{file, flags.Common, facts}, &run); err != nil {
		return node.Reset{}, run, err
	}
	clean, err := readCleanTargets(flags.Clean)
	switch {
	case err != nil:
		return node.Reset{}, run, err
	case flags.DrainTimeout <= 0:
		return node.Reset{}, run, fmt.Errorf("--%s: %s: must be a positive duration such as 5m",
			flag.DrainTimeout, flags.DrainTimeout)
	case flags.DrainTimeout != DefaultDrainTimeout && !flags.LeaveCluster:
		return node.Reset{}, run, fmt.Errorf(
			"--%s has no effect without --%s: set both, or leave it out", flag.DrainTimeout,
			flag.LeaveCluster)
	}
	r := node.Reset{
		Local: node.Local{
			Name:          normalizeName(facts.Hostname),
			Hostname:      normalizeName(facts.Hostname),
			CRISocket:     c.CRISocket,
			IgnoredChecks: normalizeIgnored(c.IgnorePreflightErrors),
			Platform:      facts.Platform,
			Paths:         facts.Platform.Paths(),
			Timeouts:      newTimeouts(c.Timeouts),
		},
		Force:         c.Force,
		CleanupTmpDir: c.CleanupTmpDir,
		UnmountFlags:  c.UnmountFlags,
		Clean:         clean,
		LeaveCluster:  flags.LeaveCluster,
		DrainTimeout:  flags.DrainTimeout,
	}
	r.Paths.Certificates = facts.Platform.Clean(c.CertificatesDir)
	return r, run, nil
}

// cleanAll is the value of --clean for all targets but images: pulling them again takes long, and
// they do not keep another cluster from being created.
const cleanAll = "all"

// CleanValues are the values of --clean.
func CleanValues() []string {
	var values []string
	for _, t := range node.CleanTargets() {
		values = append(values, string(t))
	}
	return append(values, cleanAll)
}

// readCleanTargets returns the targets in the order of node.CleanTargets, each once.
func readCleanTargets(values []string) (targets []node.CleanTarget, err error) {
	for _, v := range values {
		if !slices.Contains(CleanValues(), v) {
			return nil, fmt.Errorf("--%s: %q: must be one of %s", flag.Clean, v,
				strings.Join(CleanValues(), ", "))
		}
	}
	for _, t := range node.CleanTargets() {
		if slices.Contains(values, string(t)) ||
			slices.Contains(values, cleanAll) && t != node.CleanImages {
			targets = append(targets, t)
		}
	}
	return targets, nil
}

// readReset reads the document and sets the defaults that do not depend on the machine.
func readReset(file File, flags ResetFlags) (*v1beta4.ResetConfiguration, RunOptions, error) {
	var run RunOptions
	c := flags.document()
	if file.Given() {
		c = v1beta4.ResetConfiguration{}
		file.AllowExperimental = true // The kind is the same in all versions.
		if err := file.read(&run,
			&documentTarget{kind: v1beta4.KindReset, into: &c, needed: true}); err != nil {
			return nil, run, err
		}
	}
	c.Default()
	return &c, run, nil
}

// completeReset sets what depends on the machine, and checks the document.
func completeReset(c *v1beta4.ResetConfiguration, from inputs, run *RunOptions) error {
	c.IgnorePreflightErrors = mergeIgnored(c.IgnorePreflightErrors,
		from.common.IgnorePreflightErrors)
	socket, dir := field.NewPath("criSocket"), field.NewPath("certificatesDir")
	errs := fillSocket(&c.CRISocket, from.facts, socket, run)
	platform := from.facts.Platform
	switch name := platform.Clean(c.CertificatesDir); {
	case platform.IsSystemDir(name):
		errs = append(errs, field.Invalid(dir, c.CertificatesDir,
			"must be a directory that contains only certificates: everything in it is removed"))
	case !platform.IsAbs(name):
		errs = append(errs, checkAbsolutePath(dir, c.CertificatesDir)...)
	}
	errs = slices.Concat(errs,
		checkSocket(socket, c.CRISocket, platform),
		checkIgnoredErrors(field.NewPath("ignorePreflightErrors"), c.IgnorePreflightErrors),
	)
	for i, name := range c.UnmountFlags {
		errs = append(errs, checkOneOf(field.NewPath("unmountFlags").Index(i), name,
			node.UnmountFlags()...)...)
	}
	errs = append(errs, checkTimeouts(c.Timeouts)...)
	wrong := faults{fieldName: speaker(from.file, from.common, flag.Reset)}
	wrong.fields(v1beta4.KindReset, errs)
	return wrong.err(from.file.source())
}
