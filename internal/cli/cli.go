// Package cli is the command tree: it turns arguments into an intent, chooses the world in
// which a workflow runs, and shows the results. A command is a file. It touches nothing by
// itself: all of the outside comes with a Host.
package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"

	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/world"
	"kubeadm/internal/world/journal"
)

// Host is the machine as a command line sees it.
type Host struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv looks up a variable of the environment.
	Getenv func(name string) (value string, ok bool)
	// World is the machine and its surroundings as they are; it is called once a command needs them.
	World func() world.World
	// Journal opens the journal kept in a folder and keeps other runs out of it until it is closed.
	Journal func(dir string) (Journal, error)
	// Random gives named streams of secret randomness, safe for use by many at once.
	Random func(name string) io.Reader
	// Chroot makes a folder the root of the file system.
	Chroot func(dir string) error
	// Log tells libraries how much to log: a level and "pattern=N,..." for single files.
	Log func(level int, files string) error
	// Version is what this program was built from.
	Version version.Info
}

// Journal is a journal's store that must be closed.
type Journal interface {
	journal.Store
	io.Closer
}

// program is the command tree together with what all its commands share.
type program struct {
	Host
	verbosity int
	vmodule   string
	rootfs    string
	strict    bool // refuse unknown fields of a configuration file
}

// New is the command "kubeadm". Its errors are returned, not shown.
func New(h Host) *cobra.Command {
	p := &program{Host: h}
	root := &cobra.Command{
		Use:   "kubeadm",
		Short: "Make a Kubernetes cluster out of machines",
		Long: `kubeadm makes a Kubernetes cluster out of machines that run a kubelet and a container runtime.

  On the first machine:     kubeadm init
  On each further machine:  kubeadm join, as init tells at its end

A command that was interrupted goes on when it is given again. "kubeadm reset" takes
back what it did to a machine, and --dry-run shows what a command would do.`,
		Args:              known,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return p.begin(c) },
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(h.In)
	root.SetOut(h.Out)
	root.SetErr(h.Err)
	root.SetFlagErrorFunc(badFlag)
	values{flag.Verbosity: &p.verbosity, flag.VModule: &p.vmodule, flag.RootFS: &p.rootfs}.bind(root.PersistentFlags())
	p.furnish(root)
	return root
}

// furnish gives root its commands, as its help arranges them.
func (p *program) furnish(root *cobra.Command) {
	help := helpCommand()
	root.SetHelpCommand(help)
	adopt(root, "Make a cluster and take it apart:", p.initCommand(), p.joinCommand(), p.resetCommand())
	adopt(root, "Look after a cluster:", p.certsCommand(), p.configCommand(), p.kubeconfigCommand(), p.tokenCommand(), p.upgradeCommand())
	adopt(root, "Get to know this program:", p.completionCommand(), help, p.versionCommand())
	root.AddCommand(alphaCommand())
	p.bindStrict(root)
}

// bindStrict gives --strict to every command that reads a configuration file and would only warn of
// unknown fields.
func (p *program) bindStrict(c *cobra.Command) {
	for _, child := range c.Commands() {
		p.bindStrict(child)
	}
	if c.Flags().Lookup(string(flag.Config)) != nil && c.CommandPath() != "kubeadm config validate" {
		values{flag.Strict: &p.strict}.bind(c.Flags())
	}
}

// begin heeds the flags that every command has, and warns of those that none should have.
func (p *program) begin(c *cobra.Command) error {
	warn(p.text(false), deprecations(c))
	if err := p.Log(p.verbosity, p.vmodule); err != nil {
		return err
	}
	if p.rootfs == "" {
		return nil
	}
	return p.Chroot(p.rootfs)
}

// tool is the release of this program.
func (p *program) tool() (release.Tool, error) { return release.ParseTool(p.Version.GitVersion) }

// Run runs one command line, without the program's name.
func Run(ctx context.Context, h Host, args []string) error {
	root := New(h)
	if completes(args) {
		(&program{Host: h}).complete(root)
	} else if err := checkArguments(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	return adviseRoot(ctx, h, root.ExecuteContext(ctx))
}

// adviseRoot adds what helps where a permission is missing and the user is not root.
func adviseRoot(ctx context.Context, h Host, err error) error {
	// gRPC passes on the text only of an error of the container runtime's socket.
	if !errors.Is(err, fs.ErrPermission) && (err == nil || !strings.Contains(err.Error(), "connect: permission denied")) {
		return err
	}
	host, unknown := h.World().Host(ctx)
	if unknown != nil || host.UserID == 0 {
		return err
	}
	return problem.New("", err, "run the command as root, for example with sudo")
}
