package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
)

func newVersionCommand(p *program) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of kubeadm",
		Long:  "Print the version and the build information of kubeadm.",
		Example: `  # only the version
  kubeadm version --output short`,
		Args: refuseArguments,
		RunE: func(*cobra.Command, []string) error {
			return printVersion(p.Out, p.Version, output)
		},
	}
	flagTargets{flag.Output: &output}.bind(c.Flags())
	c.Flags().Lookup(string(
		flag.Output)).Usage += ": short, json or yaml; one line with all build information if not set"
	// the flag is there
	_ = c.RegisterFlagCompletionFunc(string(flag.Output), someOf([]string{"json", "short", "yaml"}))
	return c
}

func printVersion(w io.Writer, v version.Info, format string) error {
	shown := struct {
		ClientVersion *version.Info `json:"clientVersion"`
	}{&v}
	var text []byte
	var err error
	switch format {
	case "":
		text = fmt.Appendf(nil, "kubeadm version: %#v", &v)
	case "short":
		text = []byte(v.GitVersion)
	case "json":
		text, err = json.MarshalIndent(shown, "", "  ")
	case "yaml":
		text, err = yaml.Marshal(shown)
	default:
		return problem.New(fmt.Errorf("unknown output format %q", format),
			"use --output short, json or yaml")
	}
	if err == nil {
		_, err = fmt.Fprintln(w, string(text))
	}
	return err
}
