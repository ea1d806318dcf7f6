package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/imagepull"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/world"
)

func newImagesPullCommand(p *program) *cobra.Command {
	o := newInitOptions()
	c := &cobra.Command{
		Use:   "pull",
		Short: "Pull the control plane images",
		Long: `Pull the images that init would pull. kubeadm contacts the registry for every image, even those that
the container runtime already has. With --config, the flags --cri-socket, --feature-gates, --image-repository and
--kubernetes-version are ignored.`,
		Example: `  # the images of the latest release
  kubeadm config images pull

  # the images of a configuration file, with the container runtime that it names
  kubeadm config images pull --config kubeadm.yaml`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return pullImages(p, c, o) },
	}
	targetsOf(o).bind(c.Flags(), flag.Config, flag.CRISocket, flag.FeatureGates, flag.ImageRepository,
		flag.KubernetesVersion)
	return c
}

func pullImages(p *program, c *cobra.Command, o *initOptions) (err error) {
	ctx, real, h := c.Context(), p.World(), runHost(p)
	file, err := readConfigBesideFlags(p, c, o.File,
		func(given []string) error { warnIgnoredFlags(p, given); return nil })
	if err != nil {
		return err
	}
	facts, err := h.Facts(ctx, neededFacts(c, true))
	if err != nil {
		return err
	}
	n, how, err := config.Images(file, o.InitFlags, facts)
	warn(p, "config", how.Warnings...)
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, h, run.Command{Name: "config", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	e := r.NewEnv(engine.Env{Local: n.Local, Emit: func(e engine.Event) {
		if image, ok := e.Change.(change.PullImage); ok && e.Kind == engine.Did {
			// the form that scripts read
			e.Kind, e.Text = engine.Printed, fmt.Sprintf("[%s] Pulled %s\n", e.Phase, image.Ref)
		}
		h.Report.Emit(e)
	}}).Named("config/images")
	hearing := world.WithProgress(ctx,
		func(news string) {
			e.Emit(engine.Event{Kind: engine.Progress, Phase: "config/images",
				Text: news})
		})
	// each image would fail with the same error
	if _, err := real.Runtime(hearing, n.CRISocket); err != nil {
		return problem.New(err, "set --cri-socket to another container runtime")
	}
	images, err := manifest.Images(n)
	if err != nil {
		return err
	}
	var pulls []change.Change
	for _, ref := range images.All() {
		pulls = append(pulls, change.PullImage{Socket: n.CRISocket, Ref: ref, Always: true})
	}
	err = imagepull.Pull(ctx, e, pulls, n.PullSerially)
	if stopped := context.Cause(ctx); stopped != nil {
		return fmt.Errorf("stopped while pulling images: %w", stopped)
	}
	if err != nil {
		return problem.New(err,
			"check the image names and the registry, or set --image-repository to another")
	}
	return nil
}
