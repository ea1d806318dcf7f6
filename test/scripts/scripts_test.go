// Package scripts_test runs the whole command line in process, over a machine in memory: help,
// streams, exit codes, results and errors. A script is a txtar file in testdata; besides the
// usual commands of testscript it has those of commands.
package scripts_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/version"

	"kubeadm/internal/cli"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: furnish, Cmds: commands()})
}

// machine is what the commands of one script share.
type machine struct {
	world   *fake.World
	journal *journal.Memory
	stdin   string
}

// furnish gives the script a machine on which its files lie in the working directory.
func furnish(env *testscript.Env) error {
	m := &machine{world: machineInOrder(), journal: &journal.Memory{}}
	env.Values["machine"] = m
	return filepath.WalkDir(env.WorkDir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(env.WorkDir, file)
		if err != nil || d.IsDir() {
			m.world.Files[name] = memory.File{Mode: fs.ModeDir | 0o755}
			return err
		}
		data, err := os.ReadFile(file)
		m.world.Files[name] = memory.File{Data: data, Mode: 0o644}
		return err
	})
}

type command = func(ts *testscript.TestScript, neg bool, args []string)

func commands() map[string]command {
	return map[string]command{
		"kubeadm": kubeadm, // runs the program; ! if it must fail
		"answer":  answer,  // what the next kubeadm reads from its standard input
		"machine": alter,   // what is special about the machine
		"file":    file,    // the machine has a file; ! if not
		"lose":    lose,    // the machine loses files
		"objects": objects, // the cluster gets the objects of a file
		"keep":    keep,    // the machine gets a file with what was said last on standard output
		"fetch":   fetch,   // the script gets a file of the machine, and says its mode
	}
}

func of(ts *testscript.TestScript) *machine { return ts.Value("machine").(*machine) }

func kubeadm(ts *testscript.TestScript, neg bool, args []string) {
	m := of(ts)
	var errs bytes.Buffer
	host := cli.Host{
		In: strings.NewReader(m.stdin), Out: ts.Stdout(), Err: io.MultiWriter(ts.Stderr(), &errs),
		Getenv:  func(name string) (string, bool) { v := ts.Getenv(name); return v, v != "" },
		World:   func() world.World { return m.world },
		Journal: func(dir string) (cli.Journal, error) { return store{m.journal, m.world, dir}, nil },
		Random:  func(string) io.Reader { return rand.Reader },
		Chroot:  func(dir string) error { return fmt.Errorf("no chroot to %s in a test", dir) },
		Log:     func(int, string) error { return nil },
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1", GitTreeState: "clean", GoVersion: "go1.26", Compiler: "gc", Platform: "linux/amd64"},
	}
	m.stdin = ""
	err := cli.Run(context.Background(), host, args)
	if err != nil {
		report.Error(host.Err, err)
	}
	if failed := err != nil; failed != neg {
		ts.Fatalf("kubeadm %s: failed is %v, not %v\n%s", strings.Join(args, " "), failed, neg, &errs)
	}
}

// store is a journal that is never locked. It is gone when its directory is, as after a reset.
type store struct {
	*journal.Memory
	machine *fake.World
	dir     string
}

func (s store) Load(name string) ([]byte, error) {
	if _, there := s.machine.Files[s.dir]; !there {
		return nil, errors.Join(s.Memory.Clear(), fs.ErrNotExist)
	}
	return s.Memory.Load(name)
}

func (s store) Append(name string, data []byte) error {
	s.machine.Files[s.dir] = memory.File{Mode: fs.ModeDir | 0o700}
	return s.Memory.Append(name, data)
}

func (store) Close() error { return nil }

func answer(ts *testscript.TestScript, _ bool, args []string) {
	of(ts).stdin = strings.Join(args, " ") + "\n"
}

func alter(ts *testscript.TestScript, _ bool, args []string) {
	w := of(ts).world
	switch what, value := args[0], args[1]; what {
	case "user":
		id, err := strconv.Atoi(value)
		ts.Check(err)
		w.Info.UserID = id
	case "port":
		w.Taken[value] = args[2]
	case "free":
		delete(w.Taken, value)
	case "socket":
		w.Sockets = append(w.Sockets, value)
	case "cluster":
		ts.Check(w.AddCluster(fake.ExistingCluster{
			Version: value, Kubelet: value, EtcdTag: args[2], CoreDNSTag: args[3],
			ControlPlanes: []string{"cp1", "cp2"}, Workers: []string{"worker"},
		}))
	case "published":
		w.Names["dl.k8s.io"] = []string{"192.0.2.80"}
		if w.Published == nil {
			w.Published = map[string]string{}
		}
		w.Published[value] = args[2]
	case "unpullable":
		w.Unpullable = append(w.Unpullable, value)
	case "unreachable":
		w.Unreachable = append(w.Unreachable, value)
	case "slow":
		w.Slow = append(w.Slow, value)
	case "with", "without":
		part(ts, w, value, what == "with")
	default:
		ts.Fatalf("a machine has no %s", what)
	}
}

// part gives the machine one of its parts or takes it away.
func part(ts *testscript.TestScript, w *fake.World, name string, there bool) {
	whole := machineInOrder()
	if !there {
		whole = &fake.World{Paths: map[string]string{}}
	}
	switch name {
	case "kubelet":
		w.Kubelet, w.Paths["kubelet"] = whole.Kubelet, whole.Paths["kubelet"]
		if !there {
			delete(w.Paths, "kubelet")
		}
	case "runtime":
		w.Sockets = whole.Sockets
	case "route":
		w.Interfaces = whole.Interfaces
	default:
		ts.Fatalf("%s is no part of a machine", name)
	}
}

// machineInOrder is one on which init succeeds.
func machineInOrder() *fake.World {
	w := fake.New()
	w.Paths["kubelet"] = "/usr/bin/kubelet"
	return w
}

func file(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		if _, there := of(ts).world.Files[name]; there == neg {
			ts.Fatalf("file %s: there is %v; %v", name, there, slices.Collect(files(of(ts).world)))
		}
	}
}

func lose(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		delete(of(ts).world.Files, name)
	}
}

func objects(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(of(ts).world.AddObjects(ts.ReadFile(args[0])))
}

func keep(ts *testscript.TestScript, _ bool, args []string) {
	of(ts).world.Files[args[0]] = memory.File{Data: []byte(ts.ReadFile("stdout")), Mode: 0o644}
}

func fetch(ts *testscript.TestScript, _ bool, args []string) {
	f := of(ts).world.Files[args[0]]
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), f.Data, 0o600))
	fmt.Fprintf(ts.Stdout(), "mode %o\n", f.Mode.Perm())
}

func files(w *fake.World) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range w.Files {
			if strings.HasPrefix(name, "/etc/kubernetes") && !yield(name) {
				return
			}
		}
	}
}
