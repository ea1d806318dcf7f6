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
		Short: "List the images that a control plane needs",
		Long: `List the images that a control plane needs, one a line, as init would pull them.
With --config the other flags do not count.`,
		Example: `  # the images of one release
  kubeadm config images list --kubernetes-version v1.37.1

  # for programs
  kubeadm config images list --output json`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.listImages(c, o, &out) },
	}
	o.values().bind(c.Flags(), flag.Config, flag.FeatureGates, flag.ImageRepository, flag.KubernetesVersion)
	out.values().bind(c.Flags())
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
	file, err := p.readConfig(ctx, real, o.file)
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
	cluster, how, err := config.Cluster(file, o.InitFlags, config.Facts{Tool: tool, Fetch: run.FetchVersion(ctx, real)})
	printWarnings(p.newText(false), how.Warnings)
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

// warnIgnoredFlags warns of flags that do not count beside a configuration file. It never fails: scripts give both.
func (p *program) warnIgnoredFlags(given []string) error {
	for _, name := range given {
		switch f := flag.Name(name); f {
		case flag.CRISocket, flag.FeatureGates, flag.ImageRepository, flag.KubernetesVersion:
			printWarnings(p.newText(false), []string{fmt.Sprintf("--%s does not count beside --%s: the file says it", f, flag.Config)})
		}
	}
	return nil
}
