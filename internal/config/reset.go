package config

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

// Reset is what of this machine is to be taken back, and how.
func Reset(file File, flags ResetFlags, facts Facts) (node.Reset, Run, error) {
	var run Run
	c := flags.document()
	if file.Given() {
		c = v1beta4.ResetConfiguration{}
		warnings, err := file.read(&target{kind: v1beta4.KindReset, into: &c, needed: true})
		run.warn(warnings...)
		if err != nil {
			return node.Reset{}, run, err
		}
	}
	c.Default()
	run.choose(c.DryRun, c.SkipPhases, flags.Common)
	c.IgnorePreflightErrors = ignored(c.IgnorePreflightErrors, flags.IgnorePreflightErrors)
	wrong := faults{spoken: speaker(file, flags.Common, resetFields())}
	wrong.fields(v1beta4.KindReset, fillSocket(&c.CRISocket, facts.Runtimes, field.NewPath("criSocket"), &run))
	wrong.fields(v1beta4.KindReset, checkReset(&c))
	if err := wrong.err(file.source()); err != nil {
		return node.Reset{}, run, err
	}
	return resetOf(&c, facts), run, nil
}

func resetOf(c *v1beta4.ResetConfiguration, facts Facts) node.Reset {
	r := node.Reset{
		Local: node.Local{
			Name:      tidyName(facts.Hostname),
			Hostname:  tidyName(facts.Hostname),
			CRISocket: c.CRISocket,
			Ignore:    node.Ignore(c.IgnorePreflightErrors),
			Paths:     node.DefaultPaths(),
			Timeouts:  timeouts(c.Timeouts),
		},
		Force:         c.Force,
		CleanupTmpDir: c.CleanupTmpDir,
		UnmountFlags:  c.UnmountFlags,
	}
	r.Paths.Certificates = c.CertificatesDir
	return r
}
