package config

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
)

// Reset resolves the settings of a reset.
func Reset(file File, flags ResetFlags, facts Facts) (node.Reset, Run, error) {
	c, run, err := readReset(file, flags)
	if err != nil {
		return node.Reset{}, run, err
	}
	run.applyFlags(c.DryRun, c.SkipPhases, flags.Common)
	if err := completeReset(c, inputs{file, flags.Common, facts}, &run); err != nil {
		return node.Reset{}, run, err
	}
	return newReset(c, facts), run, nil
}

// readReset reads the document and sets the defaults that do not depend on the machine.
func readReset(file File, flags ResetFlags) (*v1beta4.ResetConfiguration, Run, error) {
	var run Run
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
func completeReset(c *v1beta4.ResetConfiguration, from inputs, run *Run) error {
	c.IgnorePreflightErrors = mergeIgnored(c.IgnorePreflightErrors,
		from.common.IgnorePreflightErrors)
	wrong := faults{fieldName: speaker(from.file, from.common, flag.Reset)}
	wrong.fields(v1beta4.KindReset,
		fillSocket(&c.CRISocket, from.facts.Runtimes, field.NewPath("criSocket"), run))
	wrong.fields(v1beta4.KindReset, checkReset(c))
	return wrong.err(from.file.source())
}

func newReset(c *v1beta4.ResetConfiguration, facts Facts) node.Reset {
	r := node.Reset{
		Local: node.Local{
			Name:          normalizeName(facts.Hostname),
			Hostname:      normalizeName(facts.Hostname),
			CRISocket:     c.CRISocket,
			IgnoredChecks: normalizeIgnored(c.IgnorePreflightErrors),
			Paths:         node.DefaultPaths(),
			Timeouts:      newTimeouts(c.Timeouts),
		},
		Force:         c.Force,
		CleanupTmpDir: c.CleanupTmpDir,
		UnmountFlags:  c.UnmountFlags,
	}
	r.Paths.Certificates = c.CertificatesDir
	return r
}
