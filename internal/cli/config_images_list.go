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

func (p *program) configImagesList() *cobra.Command {
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
		RunE: func(c *cobra.Command, _ []string) error { return p.listImages(c, o, &out) },
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

func (p *program) listImages(c *cobra.Command, o *initOptions, out *output) error {
	ctx, real := c.Context(), p.World()
	encode, err := out.encoder(ctx, real)
	if err != nil {
		return err
	}
	file, err := p.readConfig(ctx, real, o.File)
	if err == nil && file.Given() {
		err = p.warnIgnoredFlags(givenFlags(c))
	}
	if err != nil {
		return err
	}
	tool, err := p.tool()
	if err != nil {
		return err
	}
	cluster, how, err := config.Cluster(file, o.InitFlags,
		config.Facts{Tool: tool, Fetch: run.FetchVersion(ctx, real)})
	p.warn("config", how.Warnings...)
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

// warnIgnoredFlags warns about flags that are ignored with a configuration file. It never fails:
// scripts set both.
func (p *program) warnIgnoredFlags(given []string) error {
	for _, name := range given {
		switch f := flag.Name(name); f {
		case flag.CRISocket, flag.FeatureGates, flag.ImageRepository, flag.KubernetesVersion:
			p.warn("config", fmt.Sprintf(
				"--%s is ignored with --%s: set the field in the file instead", f, flag.Config))
		}
	}
	return nil
}
