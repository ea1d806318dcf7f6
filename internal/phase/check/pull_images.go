package check

import (
	"context"
	"fmt"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/imagepull"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
)

// pullImages pulls the images by the pull policy, except those named.
func pullImages(ctx context.Context, e *engine.Env, n *node.Node, without ...string) error {
	images, err := manifest.Images(n)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(images.All(),
		func(image string) bool { return slices.Contains(without, image) })
	pulls, err := preflight.Pulls(&n.Local, wanted)
	if err != nil {
		return err
	}
	rep := preflight.NewReport(preflight.ImagePull)
	rt, err := e.World.Runtime(ctx, n.CRISocket)
	if err != nil { // pulling would report the same error for each image
		rep.Fail("first fix what check CRI reports", "images cannot be pulled: %v", err)
		return reportFindings(e, rep.Result(n.IgnoredChecks))
	}
	sayIfPulling(ctx, e, pulls)
	err = imagepull.Pull(ctx, e, pulls, n.PullSerially)
	if stopped := context.Cause(ctx); stopped != nil {
		return fmt.Errorf("stopped while pulling images: %w", stopped)
	}
	if err != nil {
		rep.Fail("check the image names and the registry, or load the images into the container runtime manually", "%v", err)
	}
	if note := preflight.SandboxImageWarning(rt, images.Pause()); note != "" {
		e.Warn("%s", note)
	}
	return reportFindings(e, rep.Result(n.IgnoredChecks))
}

// sayIfPulling says that pulling takes time, if any image has to be pulled.
func sayIfPulling(ctx context.Context, e *engine.Env, pulls []change.Change) {
	for _, p := range pulls {
		if done, err := p.Done(ctx, e.World); err == nil && !done {
			e.Say("pulling images; this takes a minute or two on a typical connection (to do it in advance: kubeadm config images pull)")
			return
		}
	}
}
