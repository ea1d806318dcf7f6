package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kubeadm/internal/problem"
)

func (p *program) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: `Print the script with which a shell completes the commands and flags of kubeadm.
SHELL is bash or zsh.`,
		Example: `  # for this bash session, which needs the bash-completion package
  source <(kubeadm completion bash)

  # for every zsh session
  kubeadm completion zsh > "${fpath[1]}/_kubeadm"`,
		ValidArgs: []string{"bash", "zsh"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return problem.New("", errors.New("exactly one shell must be named"), "give bash or zsh")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return completion(c.Root(), args[0], p.Out) },
	}
}

func completion(root *cobra.Command, shell string, out io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(out, true)
	case "zsh":
		return root.GenZshCompletion(out)
	}
	return problem.New("", fmt.Errorf("there is no completion for the shell %q", shell), "give bash or zsh")
}
