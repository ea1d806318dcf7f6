// Command kubeadm makes a Kubernetes cluster out of machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"kubeadm/internal/cli"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/cri"
	"kubeadm/internal/world/linux"
	"kubeadm/internal/world/real"
)

func main() {
	// A closed pipe, as behind head(1), must not kill a run that changes the machine half-way. A command that only
	// prints ends as if killed, below.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	go cancelOnSignal(cancel)
	if err := cli.Run(ctx, newHost(), os.Args[1:]); err != nil {
		if isClosedOutput(err) {
			os.Exit(128 + int(syscall.SIGPIPE)) // what a shell shows of a program that the signal has killed
		}
		report.Error(os.Stderr, nameFileInPlaceOfDir(err))
		os.Exit(1)
	}
}

// nameFileInPlaceOfDir adds which part of a path is a file where a directory must be: the system's error names the whole path.
func nameFileInPlaceOfDir(err error) error {
	var failed *fs.PathError
	if !errors.As(err, &failed) || !errors.Is(failed.Err, syscall.ENOTDIR) {
		return err
	}
	for path := filepath.Dir(failed.Path); path != filepath.Dir(path); path = filepath.Dir(path) {
		if info, unknown := os.Stat(path); unknown == nil && !info.IsDir() {
			return problem.New("", err, fmt.Sprintf("%q is a file where a directory must be: name another path, or move it away", path))
		}
	}
	return err
}

// isClosedOutput reports whether nothing failed but to write a result that is no longer read, as behind head(1).
func isClosedOutput(err error) bool {
	for err != nil {
		if path, ok := any(err).(*fs.PathError); ok { // err itself, not what it wraps
			return path.Path == os.Stdout.Name() && errors.Is(path.Err, syscall.EPIPE)
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) == 1 {
			err = many.Unwrap()[0]
		} else {
			err = errors.Unwrap(err) // nil for several
		}
	}
	return false
}

// cancelOnSignal ends the run in good order at the first signal; a second Ctrl-C kills. SIGTERM counts
// once, since timeout(1) and its like send it twice in a row: to the process and to its group.
func cancelOnSignal(cancel context.CancelCauseFunc) {
	heeded := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup(1) has it ignored, and Notify would end that
		heeded = append(heeded, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, heeded...)
	<-signals
	signal.Reset(os.Interrupt)
	cancel(errors.New("interrupted"))
}

// newHost is the machine that this program runs on.
func newHost() cli.Host {
	return cli.Host{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv:  os.LookupEnv,
		World:   newWorld,
		Journal: func(dir string) (cli.Journal, error) { return linux.NewStore(dir) },
		Random:  linux.Random,
		Chroot:  linux.Chroot,
		Log:     newLogSetter(os.Stderr),
		Version: buildInfo(),
	}
}

// newLogSetter sets what the libraries of this program log.
func newLogSetter(w io.Writer) func(level int, files string) error {
	cri.LogTo(io.Discard)
	return func(level int, files string) error {
		screened, err := report.Log(w, level, files)
		cri.LogTo(screened)
		return err
	}
}

// newWorld are the machine and all that it reaches. API servers note in their audit logs who asked.
func newWorld() world.World {
	w := real.New()
	w.UserAgent = "kubeadm/" + gitVersion
	return w
}
