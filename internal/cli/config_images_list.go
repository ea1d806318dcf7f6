package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/run"
)

func newImagesListCommand(p *program) *cobra.Command {
	o := newInitOptions()
	out := newOutput()
	c := &cobra.Command{
		Use:   "list",
		Short: "List the control plane images",
		Long: `List the images that init would pull, one per line. With --config, the flags --feature-gates,
--image-repository and --kubernetes-version are ignored.`,
		Example: `  # the images of a release
  kubeadm config images list --kubernetes-version v1.37.1

  # machine-readable
  kubeadm config images list --output json`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return listImages(p, c, o, &out) },
	}
	targetsOf(o).bind(c.Flags(), flag.Config, flag.FeatureGates, flag.ImageRepository,
		flag.KubernetesVersion)
	out.bind(c.Flags())
	return c
}

// imageList is the result as an object.
type imageList struct {
	metav1.TypeMeta `json:",inline"`
	Images          []string `json:"images"`
}

func listImages(p *program, c *cobra.Command, o *initOptions, out *output) error {
	ctx, real := c.Context(), p.World()
	encode, err := out.encoder(ctx, real)
	if err != nil {
		return err
	}
	file, err := readConfig(ctx, p, real, o.File)
	if err == nil && file.Given() {
		warnIgnoredFlags(p, givenFlags(c))
	}
	if err != nil {
		return err
	}
	tool, err := ownRelease(p)
	if err != nil {
		return err
	}
	cluster, how, err := config.Cluster(file, o.InitFlags,
		config.Facts{Tool: tool, Fetch: run.FetchVersion(ctx, real)})
	warn(p, "config", how.Warnings...)
	if err != nil {
		return err
	}
	images, err := manifest.Images(&node.Node{Cluster: cluster})
	if err != nil {
		return err
	}
	if encode != nil {
		return encode(p.Out, []any{imageList{outputMeta("Images"), images.All()}})
	}
	for _, image := range images.All() {
		if _, err := fmt.Fprintln(p.Out, image); err != nil {
			return err
		}
	}
	return nil
}

// warnIgnoredFlags warns of flags that have no effect with a configuration file. They are no error:
// scripts set both.
func warnIgnoredFlags(p *program, given []string) {
	for _, name := range given {
		switch f := flag.Name(name); f {
		case flag.CRISocket, flag.FeatureGates, flag.ImageRepository, flag.KubernetesVersion:
			warn(p, "config", fmt.Sprintf(
				"--%s is ignored with --%s: set the field in the file instead", f, flag.Config))
		}
	}
}
