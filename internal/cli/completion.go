package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/problem"
)

func newCompletionCommand(p *program) *cobra.Command {
	shells := []string{"bash", "fish", "powershell", "zsh"}
	remedy := "use one of " + strings.Join(shells, ", ")
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a shell completion script",
		Long: `Print a script that completes the commands and flags of kubeadm, and values of flags such as
phases, preflight checks, tokens and container runtimes.
SHELL is ` + strings.Join(shells, ", ") + `.`,
		Example: `  # in this bash session (requires the bash-completion package)
  source <(kubeadm completion bash)

  # in every zsh session
  kubeadm completion zsh > "${fpath[1]}/_kubeadm"

  # in every fish session
  kubeadm completion fish > ~/.config/fish/completions/kubeadm.fish

  # in this PowerShell session
  kubeadm completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return problem.New(errors.New("exactly one shell is required"), remedy)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch root := c.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.Out, true)
			case "fish":
				return root.GenFishCompletion(p.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(p.Out)
			case "zsh":
				return root.GenZshCompletion(p.Out)
			}
			return problem.New(fmt.Errorf("unsupported shell %q", args[0]), remedy)
		},
	}
}
