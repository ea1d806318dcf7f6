// Command bench times kubeadm and upstream's kubeadm in turn on sandboxed nodes and prints a
// comparison. It fails only if a command fails, whatever the figures are.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kubeadm/test/nodes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, file, err := parseFlags(os.Args[1:])
	if err == nil {
		err = b.run(ctx)
		// An interrupted run reports what was measured so far.
		if err == nil || len(b.results.turns) > 0 {
			err = errors.Join(err, b.writeReport(file))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// bench holds what is compared, the settings, and the results so far.
type bench struct {
	bundle string
	older  string // bundle of the release that is upgraded
	// etcdTools is a directory with etcdctl and etcdutl
	etcdTools string
	programs  [2]program
	rounds    int
	kubelets  int // how many join at scale
	atOnce    int
	storm     stormSettings
	only      selection

	load     float64
	overhead *overhead
	results  measurements
	log      func(format string, args ...any)
}

// parseFlags reads the command line.
func parseFlags(args []string) (b *bench, file string, err error) {
	b = &bench{programs: [2]program{{name: ours}, {name: upstream}}, log: newProgress()}
	// In JSON an empty list, not null.
	b.results = measurements{failures: []failure{}, turns: []turn{}}
	var only string
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&b.bundle, "bundle", "",
		"directory of the components bundle, which has upstream's program too")
	flags.StringVar(&b.older, "older", "", "bundle of the release that upgrades begin with")
	flags.StringVar(&b.etcdTools, "etcd-tools", "", "directory with etcdctl and etcdutl, for the figures of etcd")
	flags.StringVar(&b.programs[0].path, "kubeadm", "", "our program")
	flags.IntVar(&b.rounds, "rounds", 3, "number of clusters that each program creates")
	flags.IntVar(&b.kubelets, "kubelets", 100,
		"number of simulated kubelets that join each program's cluster at scale")
	flags.IntVar(&b.atOnce, "at-once", 20, "number of kubelets that join at the same time")
	flags.IntVar(&b.storm.controlPlanes, "control-planes", 1,
		"number of control planes that machines join at scale, 1 or 3")
	flags.BoolVar(&b.storm.pressure, "pressure", false,
		"keep the API servers' seats for joining machines full at scale, so that they answer 429")
	flags.BoolVar(&b.storm.restart, "restart", false,
		"restart the control planes one after the other while machines join at scale")
	flags.BoolVar(&b.storm.hold, "hold", false,
		"let machines at scale do the local part of a join a few at a time, and hold their requests until as many as join at once are waiting")
	flags.StringVar(&b.storm.programs, "programs", ours+","+upstream,
		"programs that join machines at scale: "+ours+", "+upstream)
	flags.StringVar(&only, "only", "", "measure only these: "+strings.Join(allGroups(), ", "))
	flags.StringVar(&file, "json", "", "file to write all samples to")
	if err := flags.Parse(args); err != nil {
		return nil, "", err
	}
	b.programs[1].path = filepath.Join(b.bundle, "bin/kubeadm-upstream")
	b.only, err = parseSelection(only)
	return b, file, errors.Join(err, b.check(flags.Args()))
}

func (b *bench) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("bench takes no arguments, but got %q", rest)
	case b.bundle == "" || b.older == "" || b.programs[0].path == "":
		return errors.New("bench needs --bundle, --older and --kubeadm; make bench sets them")
	case b.rounds < 1:
		return fmt.Errorf("--rounds %d: want 1 or more", b.rounds)
	case b.kubelets < 1 || b.kubelets > maxMachines:
		return fmt.Errorf("--kubelets %d: want 1 to %d", b.kubelets, maxMachines)
	case b.atOnce < 1:
		return fmt.Errorf("--at-once %d: want 1 or more", b.atOnce)
	}
	if err := b.storm.check(b.only.includes(groupScale)); err != nil {
		return err
	}
	for _, p := range b.programs {
		if info, err := os.Stat(p.path); err != nil || !info.Mode().IsRegular() {
			return errors.Join(err, fmt.Errorf("%s program %s: not a regular file", p.name, p.path))
		}
	}
	return nil
}

// newProgress returns a function that prints lines, with the seconds since now, to standard error.
func newProgress() func(string, ...any) {
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(start).Seconds(),
			fmt.Sprintf(format, args...))
	}
}

// run measures. It returns no error if a measured program fails.
func (b *bench) run(ctx context.Context) error {
	if err := b.measureSizes(); err != nil {
		return err
	}
	others := slices.DeleteFunc(allGroups(), func(name string) bool { return name == groupSize })
	if !b.only.includes(others...) {
		return nil
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if err := b.measureCommands(ctx); err != nil {
		return err
	}
	if err := b.measureRenewal(ctx); err != nil {
		return err
	}
	if err := b.measureEtcd(ctx); err != nil {
		return err
	}
	older, err := nodes.ReleaseOf(b.older)
	if err != nil {
		return err
	}
	for round := range b.rounds {
		for _, p := range orderForRound(b.programs, round) {
			for _, c := range []scenario{&workerScenario{}, &limitScenario{}, &controlPlaneScenario{},
				&upgradeScenario{version: older},
				&planeUpgradeScenario{controlPlaneScenario{version: older}}} {
				if err := b.runScenario(ctx, round+1, p, c); err != nil {
					return err
				}
			}
		}
	}
	if !b.only.includes(groupScale) {
		return nil
	}
	for _, p := range b.storm.choosePrograms(b.programs) {
		if err := b.measureScale(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// prepare builds the node image, if it is missing, and waits until the machine is idle.
func (b *bench) prepare(ctx context.Context) error {
	c, err := nodes.NewCluster(ctx, nodes.Options{Bundle: b.bundle, Log: b.log})
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	b.load, err = awaitIdle(ctx, b.log)
	return err
}

// writeReport prints the figures, and saves them if a file is given.
func (b *bench) writeReport(file string) error {
	r := b.report()
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	if file != "" {
		if err := r.save(file); err != nil {
			return err
		}
	}
	if count := len(r.Failures); count > 0 {
		return fmt.Errorf("%d runs failed, see above", count)
	}
	return nil
}
