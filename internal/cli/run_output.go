package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
)

// runOutput is what programs get of a run: a result, events, a trace.
type runOutput struct {
	output
	events string // format; empty for none
	trace  string // file; empty for none

	recorder *report.Recorder // nil for commands that have no such output
	encode   encoder          // of the result; nil if it is not written, or by the stream
	stream   *report.Stream   // may be nil
	tracer   *report.Trace    // may be nil
}

// eventsFormat is the only format of events.
const eventsFormat = "json"

// withRunOutput adds the flags to a command.
func withRunOutput(p *program, c *cobra.Command) *cobra.Command {
	flagTargets{flag.Output: &p.output.format, flag.Events: &p.output.events,
		flag.Trace: &p.output.trace}.bind(c.Flags())
	describeOutputFormats(c.Flags())
	return c
}

// openRunOutput begins to collect what the flags ask for. Text then goes to standard error, unless
// standard output is free for it.
func openRunOutput(p *program, c *cobra.Command) (err error) {
	o := &p.output
	if c.Flag(string(flag.Events)) == nil {
		return nil
	}
	if o.encode, err = o.encoder(c.Context(), p.World()); err != nil {
		return err
	}
	if c.Flags().Changed(string(flag.Events)) && o.events != eventsFormat {
		return problem.New(fmt.Errorf("--%s: unknown format %q", flag.Events, o.events),
			fmt.Sprintf("set --%s=%s, or leave it out", flag.Events, eventsFormat))
	}
	if o.events != "" && o.format != plain && o.format != eventsFormat {
		return problem.New(fmt.Errorf("--%s and --%s=%s both write to standard output",
			flag.Events, flag.Output, o.format),
			fmt.Sprintf("leave out --%s: the last line of the events is the result", flag.Output))
	}
	if dryRun := c.Flag(string(flag.DryRun)); dryRun != nil {
		p.report.Preview = dryRun.Value.String() == "true"
	}
	name, now := commandName(c), p.World().Now()
	o.recorder = report.NewRecorder(name, now)
	p.report.Also = append(p.report.Also, o.recorder)
	if o.encode != nil || o.events != "" {
		p.report.Text.Out = p.Err
	}
	if o.events != "" {
		o.encode, o.stream = nil, &report.Stream{To: p.Out}
		p.report.Also = append(p.report.Also, o.stream)
	}
	if o.trace == "" {
		return nil
	}
	tracer := &report.Trace{Command: name, Start: now}
	if err := checkTraceFile(c.Context(), p, tracer); err != nil {
		return err
	}
	o.tracer = tracer
	p.report.Also = append(p.report.Also, tracer)
	return nil
}

// closeRunOutput ends the log file, and writes the trace and the result of a run that has ended with
// that error. It returns the error with those of writing, and with a hint at the log file.
func closeRunOutput(ctx context.Context, p *program, err error) error {
	o, interrupted, logFile := &p.output, ctx.Err() != nil, ""
	if o.tracer != nil {
		failed := writeTrace(context.WithoutCancel(ctx), p, o.tracer,
			report.OutcomeOf(err, interrupted), p.World().Now())
		if failed != nil {
			err = errors.Join(err, failed)
		}
	}
	if o.encode == nil && o.stream == nil {
		if lost := p.report.Text.OutError(); lost != nil {
			err = errors.Join(err, lost)
		}
	}
	if p.report.Log != nil {
		logFile = p.report.Log.End(func() time.Time { return p.World().Now() }, err)
	}
	if err != nil && logFile != "" {
		err = problem.New(err,
			append(problem.Hints(err), "the log of this run is "+logFile)...)
	}
	if o.recorder == nil {
		return err
	}
	result := o.recorder.Result(err, interrupted, p.World().Now())
	result.LogFile, result.Preview = logFile, result.Preview || p.report.Preview
	if p.report.Live != nil && err == nil {
		fmt.Fprint(p.Err, report.Summary(result))
	}
	var failed error
	switch {
	case o.stream != nil:
		failed = o.stream.End(result)
	case o.encode != nil:
		failed = o.encode(p.Out, []any{result})
	}
	if failed != nil {
		err = errors.Join(err, failed)
	}
	return err
}

// openRunLog prepares the log file of the command, which is created if it changes this machine.
func openRunLog(p *program, c *cobra.Command) {
	if p.CreateLog == nil {
		return
	}
	p.report.Log = &report.RunLog{
		Create: func() (report.LogFile, error) {
			return p.CreateLog(commandName(c), p.World().Now())
		},
		Failed: func(err error) {
			if p.verbosity > 0 {
				p.report.Text.Emit(engine.Event{Kind: engine.Info,
					Text: fmt.Sprintf("no log file is written: %v", err)})
			}
		},
	}
}

// commandName is the command without the program's name, "certs renew all".
func commandName(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// checkTraceFile writes an empty trace, so that a file that cannot be written is an error before
// anything else is done. What is no regular file, such as a FIFO, is only written at the end.
func checkTraceFile(ctx context.Context, p *program, t *report.Trace) error {
	info, err := p.World().Stat(ctx, p.output.trace)
	if err == nil && !info.Mode.IsRegular() && !info.Mode.IsDir() {
		return nil
	}
	return writeTrace(ctx, p, t, report.Interrupted, t.Start)
}

// writeTrace replaces the file of --trace. It is output like that on the terminal and no change of
// the run, so it is written in a dry run too.
func writeTrace(ctx context.Context, p *program, t *report.Trace, outcome report.Outcome,
	now time.Time) error {
	data, err := t.Encode(outcome, now)
	if path.Ext(p.output.trace) == ".svg" {
		data = t.Timeline(outcome, now)
	}
	if err == nil {
		err = p.World().Do(ctx, change.WriteFile{Path: p.output.trace, Data: data, Mode: 0o644,
			Output: true})
	}
	if err != nil {
		return problem.During("writing the trace", err,
			fmt.Sprintf("set --%s to a file that can be written", flag.Trace))
	}
	return nil
}
