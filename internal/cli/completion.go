package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/problem"
)

func (p *program) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a shell completion script",
		Long: `Print a script that completes the commands and flags of kubeadm, and values of flags such as
phases, preflight checks, tokens and container runtimes.
SHELL is ` + strings.Join(shellNames(), ", ") + `.`,
		Example: `  # in this bash session (requires the bash-completion package)
  source <(kubeadm completion bash)

  # in every zsh session
  kubeadm completion zsh > "${fpath[1]}/_kubeadm"

  # in every fish session
  kubeadm completion fish > ~/.config/fish/completions/kubeadm.fish

  # in this PowerShell session
  kubeadm completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shellNames(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return problem.New("", errors.New("exactly one shell is required"),
					"use one of "+strings.Join(shellNames(), ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			write, ok := completionWriters(c.Root())[args[0]]
			if !ok {
				return problem.New("", fmt.Errorf("unsupported shell %q", args[0]),
					"use one of "+strings.Join(shellNames(), ", "))
			}
			return write(p.Out)
		},
	}
}

func shellNames() []string { return slices.Sorted(maps.Keys(completionWriters(nil))) }

// completionWriters write the scripts, by the name of the shell.
func completionWriters(root *cobra.Command) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": func(w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
		"zsh":        func(w io.Writer) error { return root.GenZshCompletion(w) },
	}
}
