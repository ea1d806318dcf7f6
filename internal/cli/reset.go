package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
)

func (p *program) resetCommand() *cobra.Command {
	t := tree{name: "reset", phases: workflow.Reset, args: cobra.ArbitraryArgs, begin: p.beginReset}
	return t.command(&cobra.Command{
		Use:   "reset",
		Short: "Take back what init or join did to this machine",
		Long: `Take back, as far as possible, what "kubeadm init" or "kubeadm join" did to this machine.
It asks before it removes anything, unless --force is given.`,
		Example: `  # see what would be removed
  kubeadm reset --dry-run

  # in a script
  kubeadm reset --force`,
	}, flag.CertDir, flag.CleanupTmpDir, flag.Config, flag.CRISocket, flag.DryRun, flag.Force,
		flag.IgnorePreflightErrors, flag.Kubeconfig, flag.SkipPhases)
}

// resetOptions are the flags of reset and its phases.
type resetOptions struct {
	config.ResetFlags
	file       string
	kubeconfig string
}

func (o *resetOptions) values() values {
	return values{
		flag.CertDir:               &o.CertificatesDir,
		flag.CleanupTmpDir:         &o.CleanupTmpDir,
		flag.Config:                &o.file,
		flag.CRISocket:             &o.CRISocket,
		flag.DryRun:                &o.DryRun,
		flag.Force:                 &o.Force,
		flag.IgnorePreflightErrors: &o.IgnorePreflightErrors,
		flag.Kubeconfig:            &o.kubeconfig,
		flag.SkipPhases:            &o.SkipPhases,
	}
}

func (p *program) beginReset(sel flow.Selection) (values, func(*cobra.Command, []string) error) {
	o := &resetOptions{ResetFlags: config.NewResetFlags(), kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	return o.values(), func(c *cobra.Command, args []string) error {
		for _, arg := range args { // which upstream's takes, too
			warn(p.text(false), []string{fmt.Sprintf("%s takes no argument: %q is passed over", c.CommandPath(), arg)})
		}
		return p.runReset(c, o, sel)
	}
}

func (p *program) runReset(c *cobra.Command, o *resetOptions, sel flow.Selection) error {
	ctx, real := c.Context(), p.World()
	r, how, err := p.resolveReset(c, real, o)
	s := p.session(real, "reset", sel, how)
	s.phases = workflow.Reset
	if err != nil {
		return err
	}
	n := &node.Node{Local: r.Local}
	return p.within(ctx, s, n, func(e *flow.Env) error {
		e.Reset = r
		e.Node = func(context.Context) (*node.Node, error) { return n, nil }
		admin := p.identity(ctx, real, o.kubeconfig)
		e.Admin = func(context.Context) (state.Identity, error) { return admin, nil }
		if !r.Force && s.asks() {
			reset.Foresee(ctx, e.Named("reset"))
			if err := p.confirm(ctx, s); err != nil {
				return err
			}
		}
		if err := s.run(ctx, e); err != nil || s.dryRun || !s.whole() {
			return err
		}
		s.say(flow.Printed, reset.Closing)
		return nil
	})
}

// asks tells whether the user is to be asked first: the question belongs to the phase "preflight"
// of a run that changes something.
func (s *session) asks() bool {
	const phase = "preflight"
	return !s.dryRun && (s.sel.Only == phase || s.whole() && !slices.Contains(s.sel.Skip, phase))
}

// confirm asks whether to go on. No answer means no.
func (p *program) confirm(ctx context.Context, s *session) error {
	s.say(flow.Warned, "what init or join made of this machine is about to be taken back")
	s.say(flow.Printed, "[reset] Go on? [y/N]: ")
	answer, err := p.answer(ctx)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return problem.New("", errors.New("nothing was changed: the answer was not yes"), "answer y, or give --force to go on without being asked")
}

// answer is the next line that the user types, unless he interrupts.
func (p *program) answer(ctx context.Context) (string, error) {
	var line string
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		if line, err = bufio.NewReader(p.In).ReadString('\n'); errors.Is(err, io.EOF) {
			err = nil
		}
	}()
	select {
	case <-read:
		return line, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *program) resolveReset(c *cobra.Command, real world.World, o *resetOptions) (node.Reset, config.Run, error) {
	file, facts, err := p.inputs(c, real, o.file, o.RefuseMixed)
	if err != nil {
		return node.Reset{}, config.Run{}, err
	}
	return config.Reset(file, o.ResetFlags, facts)
}
