// Command kubeadm creates and manages Kubernetes clusters.
package main

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"kubeadm/internal/cli"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/cri"
	"kubeadm/internal/world/portable"
	"kubeadm/internal/world/real"
)

func main() {
	// A closed pipe, as behind head(1), must not kill a run that changes the machine. A command
	// that only prints exits as if killed, below.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	go cancelOnSignal(cancel)
	host := newHost()
	if err := cli.Run(ctx, host, os.Args[1:]); err != nil {
		if isClosedOutput(err) {
			os.Exit(128 + int(syscall.SIGPIPE)) // the exit code of a program killed by the signal
		}
		report.Error(host.Err, host.Style, err)
		os.Exit(problem.ExitCode(err))
	}
}

// nameFileInPlaceOfDir adds a hint which part of a path is a file in place of a directory: the
// system's error names the whole path.
func nameFileInPlaceOfDir(err error) error {
	var failed *fs.PathError
	if !errors.As(err, &failed) || !errors.Is(failed.Err, syscall.ENOTDIR) {
		return err
	}
	for path := filepath.Dir(failed.Path); path != filepath.Dir(path); path = filepath.Dir(path) {
		if info, unknown := os.Stat(path); unknown == nil && !info.IsDir() {
			return problem.New(err,
				fmt.Sprintf("%q is a file, but must be a directory: use another path, or move the file", path))
		}
	}
	return err
}

// isClosedOutput reports whether the only failure was to write to a closed pipe, as behind
// head(1).
func isClosedOutput(err error) bool {
	for err != nil {
		if path, ok := any(err).(*fs.PathError); ok { // err itself, not what it wraps
			return path.Path == os.Stdout.Name() && slices.ContainsFunc(closedPipe,
				func(closed error) bool { return errors.Is(path.Err, closed) })
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) == 1 {
			err = many.Unwrap()[0]
		} else {
			err = errors.Unwrap(err) // nil for several
		}
	}
	return false
}

// cancelOnSignal interrupts the run at the first signal; a second Ctrl-C kills. SIGTERM counts
// once, since timeout(1) sends it twice: to the process and to its group.
func cancelOnSignal(cancel context.CancelCauseFunc) {
	handled := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) does; Notify would undo it
		handled = append(handled, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, handled...)
	<-signals
	signal.Reset(os.Interrupt)
	cancel(errors.New("interrupted"))
}

// newHost is the machine on which this program runs.
func newHost() cli.Host {
	cri.LogTo(io.Discard, io.Discard) // until Log is called
	out, screen := io.Writer(os.Stdout), io.Writer(os.Stderr)
	var terminal *report.Terminal
	if isSameTerminal(os.Stdout, os.Stderr) {
		terminal = report.NewTerminal(os.Stderr, func() int { return columns(os.Stderr) }, portable.Ticks)
		out, screen = terminal, terminal
	}
	var hideInput func() (restore func(), err error)
	if isTerminal(os.Stdin) {
		hideInput = func() (func(), error) { return hideTyping(os.Stdin) }
	}
	return cli.Host{
		In: os.Stdin, Out: out, Err: screen, HideInput: hideInput,
		Terminal: terminal, ErrIsTerminal: isTerminal(os.Stderr), Style: &report.Style{},
		Getenv: os.LookupEnv,
		World: func() world.World {
			w := real.New()
			w.UserAgent = "kubeadm/" + gitVersion // for the audit logs of API servers
			return w
		},
		Journal:   openJournal,
		CreateLog: createLog,
		Random:    portable.Random,
		NewKey:    newKey,
		Chroot:    chroot,
		Explain:   nameFileInPlaceOfDir,
		Edit: portable.Editor{ // that of kubectl
			Command: cmp.Or(os.Getenv("KUBE_EDITOR"), os.Getenv("EDITOR"), "vi"),
			In:      os.Stdin, Out: os.Stdout, Err: os.Stderr}.Edit,
		Log: func(level int, files string) error {
			warnings, errs, err := report.Log(screen, level, files)
			cri.LogTo(warnings, errs)
			return err
		},
		Version: buildInfo(),
	}
}

func newKey(a pki.Algorithm) (crypto.Signer, error) { return pki.NewKey(portable.Random("keys"), a) }
