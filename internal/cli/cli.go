// Package cli is the command tree: it parses flags, resolves them to an intent, runs the workflow
// of the command (package run) and prints results. Each command is a file. Everything outside of
// the process comes with a Host.
package cli

import (
	"bufio"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"

	"kubeadm/internal/clusterlock"
	"kubeadm/internal/flag"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/world"
)

// Host is the machine on which commands run.
type Host struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal is what Out and Err write to if both show on one, and nil otherwise.
	Terminal *report.Terminal
	// ErrIsTerminal says that Err shows on a terminal.
	ErrIsTerminal bool
	// HideInput keeps the terminal of In from showing what is typed, until restore is called; nil if In is
	// not a terminal.
	HideInput func() (restore func(), err error)
	// Style is set by --color and the environment.
	Style *report.Style
	// Getenv looks up a variable of the environment.
	Getenv func(name string) (value string, ok bool)
	// World returns the real machine and cluster. It is called when a command needs them.
	World func() world.World
	// Journal opens the journal kept in a directory and locks it until it is closed.
	Journal func(dir string) (Journal, error)
	// Random returns named streams of secret randomness, safe for concurrent use.
	Random func(name string) io.Reader
	// NewKey generates a private key. It is safe for concurrent use.
	NewKey func(pki.Algorithm) (crypto.Signer, error)
	// Chroot makes a directory the root of the file system.
	Chroot func(dir string) error
	// Explain adds hints that only the operating system can give; nil for none.
	Explain func(error) error
	// CreateLog creates the log file of a run of a command that began at that time; nil for none.
	CreateLog func(command string, began time.Time) (report.LogFile, error)
	// Edit lets the user edit a text in a file until check returns no text to edit again, or an error. end is called with
	// the error of what is done with the edited text, and returns it: the file is kept if there is one.
	Edit func(ctx context.Context, text []byte, check func(edited []byte) ([]byte, error)) (end func(error) error, err error)
	// Log sets the log verbosity of libraries: a level, and "pattern=N,..." for single files.
	Log func(level int, files string) error
	// Version is what this program was built from.
	Version version.Info
}

// Journal is a journal's store that must be closed.
type Journal = run.Journal

// program is what all commands share.
type program struct {
	Host
	verbosity int
	vmodule   string
	rootfs    string
	color     string
	strict    bool          // refuse unknown fields of a configuration file
	answers   *bufio.Reader // of In: what it has read ahead is the next answer

	report *report.Reporter // of everything that the command reports
	output runOutput        // what programs get of it
}

func newProgram(h Host) *program {
	p := &program{Host: h, color: colorAuto, answers: bufio.NewReader(h.In), output: runOutput{output: newOutput()},
		report: &report.Reporter{Text: &report.Text{Out: h.Out, Err: h.Err, Style: h.Style}, IsUncounted: clusterlock.IsOwnChange}}
	if h.Terminal != nil && hasCursor(h.Getenv) {
		p.report.Live = h.Terminal
	}
	if p.Style != nil {
		p.Style.Color = colorsByDefault(p)
	}
	return p
}

// New is the command "kubeadm". Its errors are returned, not shown.
func New(h Host) *cobra.Command { return newRootCommand(newProgram(h)) }

func newRootCommand(p *program) *cobra.Command {
	h := p.Host
	root := &cobra.Command{
		Use:   "kubeadm",
		Short: "Create and manage a Kubernetes cluster",
		Long: `kubeadm turns machines that have a kubelet and a container runtime into a Kubernetes cluster.

  On the first machine:        kubeadm init
  On each additional machine:  kubeadm join, with the arguments that init prints

To resume an interrupted command, re-run it. To revert what init or join did to a machine, run
"kubeadm reset". To see what a command would change, add --dry-run.`,
		Args:              refuseArguments,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			return applyGlobalFlags(p, c)
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(h.In)
	root.SetOut(h.Out)
	root.SetErr(h.Err)
	root.SetFlagErrorFunc(flagError)
	flagTargets{flag.Verbosity: &p.verbosity, flag.VModule: &p.vmodule,
		flag.RootFS: &p.rootfs, flag.Color: &p.color}.bind(root.PersistentFlags())

	help := helpCommand()
	root.SetHelpCommand(help)
	addUnderHeading(root, "Create and remove a cluster:", newInitCommand(p), newJoinCommand(p),
		newResetCommand(p))
	addUnderHeading(root, "Manage a cluster:", newAddressCommand(p), newCertsCommand(p), newConfigCommand(p),
		newDoctorCommand(p), newEndpointCommand(p), newEtcdCommand(p), newKubeconfigCommand(p), newNodeNameCommand(p),
		newReconfigureCommand(p), newTokenCommand(p), newUpgradeCommand(p))
	addUnderHeading(root, "Other commands:", newCompletionCommand(p), help, newVersionCommand(p))
	root.AddCommand(&cobra.Command{ // scripts read its help to learn which commands there are
		Use:   "alpha",
		Short: "Experimental commands; currently none",
		Long:  "Experimental commands, which may change or be removed without notice. Currently there are none.",
	})
	bindStrict(p, root)
	return root
}

// bindStrict adds --strict to every command that reads a configuration file and only warns about
// unknown fields.
func bindStrict(p *program, c *cobra.Command) {
	for _, child := range c.Commands() {
		bindStrict(p, child)
	}
	if c.Flags().Lookup(string(flag.Config)) != nil &&
		c.CommandPath() != "kubeadm config validate" {
		flagTargets{flag.Strict: &p.strict}.bind(c.Flags())
	}
}

// applyGlobalFlags applies the flags of all commands, and warns about deprecated ones.
func applyGlobalFlags(p *program, c *cobra.Command) error {
	p.report.Text.Verbosity = p.verbosity
	if err := setColor(p); err != nil {
		return err
	}
	if err := p.Log(p.verbosity, p.vmodule); err != nil {
		return err
	}
	if p.rootfs != "" {
		if err := p.Chroot(p.rootfs); err != nil {
			return err
		}
	}
	openRunLog(p, c)
	if err := openRunOutput(p, c); err != nil {
		return err
	}
	for _, name := range givenFlags(c) {
		if f := flag.Of(flag.Name(name)); f.Deprecated != "" {
			warn(p, "config", fmt.Sprintf("--%s is deprecated: %s", name, f.Deprecated))
		}
	}
	return nil
}

// tool is the release of this program.
func ownRelease(p *program) (release.Tool, error) { return release.ParseTool(p.Version.GitVersion) }

// Run runs one command line, without the program's name.
func Run(ctx context.Context, h Host, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of keys that are being generated for a command that has failed
	p := newProgram(h)
	root := newRootCommand(p)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd ||
		args[0] == cobra.ShellCompNoDescRequestCmd) {
		// Other runs skip this, as it takes as long as all other preparations.
		addCompletions(p, root)
	} else if err := checkArguments(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	err := addRootHint(ctx, h, root.ExecuteContext(ctx))
	if h.Explain != nil {
		err = h.Explain(err)
	}
	return closeRunOutput(ctx, p, err)
}

// addRootHint adds a hint to errors of missing permissions if the user is not root.
func addRootHint(ctx context.Context, h Host, err error) error {
	// Of an error of the container runtime's socket gRPC returns only the text.
	if !errors.Is(err, fs.ErrPermission) &&
		(err == nil || !strings.Contains(err.Error(), "connect: permission denied")) {
		return err
	}
	host, unknown := h.World().Host(ctx)
	if unknown != nil || host.UserID == 0 {
		return err
	}
	return problem.New(err, host.Platform.RunAsRootHint())
}
