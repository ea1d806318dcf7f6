// Command kubeadm makes a Kubernetes cluster out of machines.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"kubeadm/internal/cli"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/linux"
	"kubeadm/internal/world/real"
)

func main() {
	// That nobody reads along any more, as behind head(1), is no reason to stop half-way.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	go interrupt(cancel)
	if err := cli.Run(ctx, host(), os.Args[1:]); err != nil {
		report.Error(os.Stderr, err)
		os.Exit(1)
	}
}

// interrupt ends the run in good order at the first signal; a second Ctrl-C kills. SIGTERM counts
// once, since timeout(1) and its like send it twice in a row: to the process and to its group.
func interrupt(cancel context.CancelCauseFunc) {
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

// host is the machine that this program runs on.
func host() cli.Host {
	return cli.Host{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv:  os.LookupEnv,
		World:   surroundings,
		Journal: func(dir string) (cli.Journal, error) { return linux.NewStore(dir) },
		Random:  linux.Random,
		Chroot:  linux.Chroot,
		Log:     report.Log,
		Version: built(),
	}
}

// surroundings are the machine and all that it reaches. API servers note in their audit logs who asked.
func surroundings() world.World {
	w := real.New()
	w.UserAgent = "kubeadm/" + gitVersion
	return w
}
