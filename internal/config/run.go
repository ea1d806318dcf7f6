package config

import (
	"slices"

	"kubeadm/internal/config/v1beta4"
)

// RunOptions holds the options of a run that are not part of the desired state.
type RunOptions struct {
	DryRun     bool
	SkipPhases []string // addresses of phases
	Warnings   []string // a sentence each
	// Ignored are the warnings about unknown and duplicate fields. They are repeated at the end
	// of a long run.
	Ignored []string
}

func (r *RunOptions) warn(texts ...string) { r.Warnings = append(r.Warnings, texts...) }

// Phases that deploy the add-ons, as init addresses them.
const (
	addonPhases = "addon"
	dnsPhase    = "addon/coredns"
	proxyPhase  = "addon/kube-proxy"
)

func (r *RunOptions) applyFlags(dryRun bool, skip []string, common Common) {
	r.DryRun = dryRun
	if common.DryRun != nil {
		r.DryRun = *common.DryRun
	}
	r.SkipPhases = slices.Clone(skip)
	if len(common.SkipPhases) > 0 {
		r.SkipPhases = slices.Clone(common.SkipPhases)
	}
}

// syncAddonPhases disables add-ons whose phase is skipped, and skips the phases of disabled
// add-ons.
func syncAddonPhases(c *v1beta4.ClusterConfiguration, run *RunOptions) {
	for phase, disabled := range map[string]*bool{dnsPhase: &c.DNS.Disabled,
		proxyPhase: &c.Proxy.Disabled} {
		skipped := slices.Contains(run.SkipPhases, addonPhases) ||
			slices.Contains(run.SkipPhases, phase)
		if *disabled && !skipped {
			run.SkipPhases = append(run.SkipPhases, phase)
		}
		*disabled = *disabled || skipped
	}
	slices.Sort(run.SkipPhases)
}
