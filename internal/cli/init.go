package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
)

func (p *program) initCommand() *cobra.Command {
	t := tree{name: "init", phases: workflow.Init, args: known, begin: p.beginInit}
	return t.command(&cobra.Command{
		Use:   "init",
		Short: "Make this machine the first control plane of a new cluster",
		Long: `Make this machine the first control plane of a new cluster. At the end it tells how
to use the cluster and which command joins further machines to it.`,
		Example: `  # a cluster whose Pods get addresses out of this range
  kubeadm init --pod-network-cidr=10.244.0.0/16

  # one that more control planes may join, under an address that leads to all of them
  kubeadm init --control-plane-endpoint=cluster.example:6443 --upload-certs

  # by a file; first only tell what would be done
  kubeadm init --config kubeadm.yaml --dry-run`,
	}, initFlags()...)
}

func initFlags() []flag.Name {
	return []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.APIServerCertSANs, flag.CertDir, flag.CertificateKey,
		flag.Config, flag.ControlPlaneEndpoint, flag.CRISocket, flag.DryRun, flag.FeatureGates, flag.IgnorePreflightErrors,
		flag.ImageRepository, flag.KubernetesVersion, flag.NodeName, flag.Patches, flag.PodNetworkCIDR, flag.ServiceCIDR,
		flag.ServiceDNSDomain, flag.SkipCertificateKeyPrint, flag.SkipPhases, flag.SkipTokenPrint, flag.Token, flag.TokenTTL, flag.UploadCerts}
}

// initOptions are the flags of init and its phases.
type initOptions struct {
	config.InitFlags
	file          string
	kubeconfig    string
	printManifest bool
	withhold      flow.Withhold
	extra         extraArgs
}

// extraArgs are the arguments of components given by flags that nobody should use any more.
type extraArgs struct{ apiServer, controllerManager, scheduler map[string]string }

func newInitOptions() *initOptions {
	o := &initOptions{InitFlags: config.NewInitFlags()}
	o.KubeconfigDir = node.DefaultPaths().Kubeconfigs
	o.kubeconfig = node.DefaultPaths().Kubeconfig("admin.conf")
	return o
}

func (o *initOptions) values() values {
	return values{
		flag.APIServerAdvertise:      &o.AdvertiseAddress,
		flag.APIServerBindPort:       &o.BindPort,
		flag.APIServerCertSANs:       &o.CertSANs,
		flag.APIServerExtraArgs:      &o.extra.apiServer,
		flag.CertDir:                 &o.CertificatesDir,
		flag.CertificateKey:          &o.CertificateKey,
		flag.Config:                  &o.file,
		flag.ControllerManagerArgs:   &o.extra.controllerManager,
		flag.ControlPlaneEndpoint:    &o.ControlPlaneEndpoint,
		flag.CRISocket:               &o.CRISocket,
		flag.DryRun:                  &o.DryRun,
		flag.FeatureGates:            &o.FeatureGates,
		flag.IgnorePreflightErrors:   &o.IgnorePreflightErrors,
		flag.ImageRepository:         &o.ImageRepository,
		flag.Kubeconfig:              &o.kubeconfig,
		flag.KubeconfigDir:           &o.KubeconfigDir,
		flag.KubernetesVersion:       &o.KubernetesVersion,
		flag.NodeName:                &o.NodeName,
		flag.Patches:                 &o.Patches,
		flag.PodNetworkCIDR:          &o.PodSubnet,
		flag.PrintManifest:           &o.printManifest,
		flag.SchedulerExtraArgs:      &o.extra.scheduler,
		flag.ServiceCIDR:             &o.ServiceSubnet,
		flag.ServiceDNSDomain:        &o.DNSDomain,
		flag.SkipCertificateKeyPrint: &o.withhold.CertificateKey,
		flag.SkipPhases:              &o.SkipPhases,
		flag.SkipTokenPrint:          &o.withhold.Token,
		flag.Token:                   &o.Token,
		flag.TokenTTL:                &o.TokenTTL,
		flag.UploadCerts:             &o.UploadCerts,
	}
}

func (p *program) beginInit(sel flow.Selection) (values, func(*cobra.Command, []string) error) {
	o := newInitOptions()
	return o.values(), func(c *cobra.Command, _ []string) error { return p.runInit(c, o, sel) }
}

func (p *program) runInit(c *cobra.Command, o *initOptions, sel flow.Selection) error {
	ctx, real := c.Context(), p.World()
	n, how, err := p.resolveInit(c, real, o, nil)
	s := p.session(real, "init", sel, how)
	s.phases, s.makes = workflow.Init, true
	if err != nil {
		return err
	}
	if o.printManifest {
		return p.printManifest(ctx, real, n, sel.Only)
	}
	keys := p.keys(ctx, s, n)
	return p.within(ctx, s, n, func(e *flow.Env) error {
		finished := s.finished()
		if finished {
			e.Once = s.journal.Kept
		}
		settled, err := settleVersion(ctx, e.Named("init"), n, func(told release.Fetch) (*node.Node, error) {
			before, _, err := p.resolveInit(c, real, o, told)
			return before, err
		})
		if err == nil {
			settled, err = p.settle(ctx, e, settled)
		}
		if err != nil {
			return err
		}
		e.Local, e.Withhold = settled.Local, o.withhold
		e.Node = func(context.Context) (*node.Node, error) { return settled, nil }
		e.Admin = workflow.Admin(e, o.kubeconfig)
		if finished {
			e.Admin = workflow.FinishedAdmin(e)
			// Of what was asked to be skipped only the closing text is left; it shows secrets.
			var left flow.Selection
			if slices.Contains(s.sel.Skip, showJoinCommand) {
				left.Skip = []string{showJoinCommand}
			}
			s.phases, s.sel = workflow.InitAgain(s.finishedRun()), left
			return s.run(ctx, e)
		}
		e.Keys = keys
		if s.whole() {
			s.say(flow.Said, "using Kubernetes version "+settled.Cluster.Version)
		}
		return s.run(ctx, e)
	})
}

// resolveInit finds the intent. The network tells the version behind a label, unless somebody is named who does.
func (p *program) resolveInit(c *cobra.Command, real world.World, o *initOptions, tells release.Fetch) (*node.Node, config.Run, error) {
	file, facts, err := p.inputs(c, real, o.file, o.RefuseMixed)
	if err != nil {
		return nil, config.Run{}, err
	}
	if tells != nil {
		facts.Fetch = tells
	}
	n, how, err := config.Init(file, o.InitFlags, facts)
	if err == nil {
		o.extra.add(&n.Cluster)
	}
	return n, how, err
}
