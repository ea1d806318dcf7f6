// Package scripts_test runs the whole command line in process, on a machine in memory: help,
// streams, exit codes, results and errors. A script is a txtar file in testdata; besides the
// commands of testscript it can use those that commands lists.
package scripts_test

import (
	"bytes"
	"context"
	"crypto"
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

	"kubeadm/internal/change"
	"kubeadm/internal/cli"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/pki"
	"kubeadm/internal/report"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/worldtest/keys"
)

func TestScripts(t *testing.T) {
	var stock keys.Pool
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: commands(),
		Setup: func(env *testscript.Env) error { return setUpMachine(env, stock.ForMachine()) }})
}

// machine is the state that the commands of a script share.
type machine struct {
	world   *fake.World
	journal *journal.Memory
	newKey  func(pki.Algorithm) (crypto.Signer, error)
	stdin   string
}

// setUpMachine creates the script's machine, with the script's files in the working directory.
func setUpMachine(env *testscript.Env, newKey func(pki.Algorithm) (crypto.Signer, error)) error {
	m := &machine{world: newHealthyMachine(), journal: &journal.Memory{}, newKey: newKey}
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
		"kubeadm": runKubeadm,    // runs the program; ! if it must fail
		"answer":  setStdin,      // sets the standard input of the next kubeadm
		"machine": changeMachine, // changes the machine
		"file":    checkFile,     // checks that the machine has a file; ! if not
		"lose":    removeFiles,   // removes files from the machine
		"objects": addObjects,    // adds the objects of a file to the cluster
		"keep":    saveStdout,    // writes the last standard output to a file on the machine
		"fetch":   fetchFile,     // copies a file of the machine to the script, and prints its mode
	}
}

func machineOf(ts *testscript.TestScript) *machine { return ts.Value("machine").(*machine) }

func runKubeadm(ts *testscript.TestScript, neg bool, args []string) {
	m := machineOf(ts)
	var errs bytes.Buffer
	host := cli.Host{
		In: strings.NewReader(m.stdin), Out: ts.Stdout(), Err: io.MultiWriter(ts.Stderr(), &errs),
		Getenv: func(name string) (string, bool) { v := ts.Getenv(name); return v, v != "" },
		World:  func() world.World { return m.world },
		Journal: func(dir string) (cli.Journal, error) {
			return machineJournal{m.journal, m.world, dir}, nil
		},
		Random: func(string) io.Reader { return rand.Reader },
		NewKey: m.newKey,
		Chroot: func(dir string) error { return fmt.Errorf("no chroot to %s in a test", dir) },
		Log:    func(int, string) error { return nil },
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1", GitTreeState: "clean",
			GoVersion: "go1.26", Compiler: "gc", Platform: "linux/amd64"},
	}
	m.stdin = ""
	err := cli.Run(context.Background(), host, args)
	if err != nil {
		report.Error(host.Err, nil, err)
	}
	if failed := err != nil; failed != neg {
		ts.Fatalf("kubeadm %s: failed is %v, not %v\n%s", strings.Join(args, " "), failed, neg,
			&errs)
	}
}

// machineJournal is a journal without a lock. It is empty once its directory is removed, as after
// a reset.
type machineJournal struct {
	*journal.Memory
	machine *fake.World
	dir     string
}

func (s machineJournal) Load(name string) ([]byte, error) {
	if _, err := s.machine.Stat(context.Background(), s.dir); err != nil {
		return nil, errors.Join(s.Memory.Clear(), fs.ErrNotExist)
	}
	return s.Memory.Load(name)
}

func (s machineJournal) Append(name string, data []byte) error {
	if err := s.machine.World.Do(context.Background(),
		change.MakeDir{Path: s.dir, Mode: 0o700}); err != nil {
		return err
	}
	return s.Memory.Append(name, data)
}

func (machineJournal) Close() error { return nil }

func setStdin(ts *testscript.TestScript, _ bool, args []string) {
	machineOf(ts).stdin = strings.Join(args, " ") + "\n"
}

func changeMachine(ts *testscript.TestScript, _ bool, args []string) {
	w := machineOf(ts).world
	switch what, value := args[0], args[1]; what {
	case "user":
		id, err := strconv.Atoi(value)
		ts.Check(err)
		w.Info.UserID = id
	case "disable":
		s := w.Services[value]
		s.Enabled = false
		w.Services[value] = s
	case "forward":
		w.Files["/proc/sys/net/ipv4/ip_forward"] = memory.File{Data: []byte(value + "\n"), Mode: 0o644}
	case "port":
		w.PortsInUse[value] = args[2]
	case "free":
		delete(w.PortsInUse, value)
	case "socket":
		w.Sockets = append(w.Sockets, value)
	case "cluster":
		ts.Check(w.AddCluster(fake.ExistingCluster{
			Version: value, Kubelet: value, EtcdTag: args[2], CoreDNSTag: args[3],
			ControlPlanes: []string{"cp1", "cp2"}, Workers: []string{"worker"},
		}))
	case "member":
		id := uint64(len(w.MemberList))
		host := fmt.Sprintf("https://192.0.2.%d", 10+id)
		w.MemberList = append(w.MemberList, state.Member{ID: id + 1, Name: value,
			PeerURLs: []string{host + ":2380"}, ClientURLs: []string{host + ":2379"}})
	case "address": // another one of this machine
		w.Interfaces = append(w.Interfaces, state.Address{IP: value, Bits: 24, Interface: "eth0"})
	case "file":
		w.Files[expand(ts, value)] = memory.File{Data: []byte("x"), Mode: 0o600}
	case "database": // of a member: its ID, size and what is in use of it, in MiB
		id, err := strconv.ParseUint(value, 10, 64)
		ts.Check(err)
		size, err := strconv.ParseInt(args[2], 10, 64)
		ts.Check(err)
		used, err := strconv.ParseInt(args[3], 10, 64)
		ts.Check(err)
		if w.MemberStatuses == nil {
			w.MemberStatuses = map[uint64]state.MemberStatus{}
		}
		w.MemberStatuses[id] = state.MemberStatus{AppliedIndex: 100, CommittedIndex: 100, Leader: 1, Revision: 5000,
			Version: "3.7.0", DBSize: size << 20, DBInUse: used << 20, DBQuota: 2 << 30}
	case "alarm":
		w.MemberProblems = append(w.MemberProblems, value)
	case "noalarm":
		w.MemberProblems = nil
	case "nohistory":
		w.NoHistory = true
	case "etcdsize":
		size, err := strconv.ParseUint(value, 10, 64)
		ts.Check(err)
		w.EtcdSize = size
	case "sandbox":
		w.Pods = append(w.Pods, state.Sandbox{ID: value, Namespace: "kube-system", Component: value})
	case "snapshot":
		ts.Check(w.World.Do(context.Background(), change.SaveSnapshot{Path: value}))
	case "silent":
		id, err := strconv.ParseUint(value, 10, 64)
		ts.Check(err)
		w.UnreachableMembers = append(w.UnreachableMembers, id)
	case "answering":
		w.UnreachableMembers = slices.DeleteFunc(w.UnreachableMembers,
			func(id uint64) bool { return strconv.FormatUint(id, 10) == value })
	case "published":
		w.Names["dl.k8s.io"] = []string{"192.0.2.80"}
		if w.Published == nil {
			w.Published = map[string]string{}
		}
		w.Published[value] = args[2]
	case "unpullable":
		w.MissingImages = append(w.MissingImages, value)
	case "unreachable":
		w.UnreachableRegistries = append(w.UnreachableRegistries, value)
	case "slow":
		w.SlowImages = append(w.SlowImages, value)
	case "with", "without":
		setPart(ts, w, value, what == "with")
	default:
		ts.Fatalf("a machine has no %s", what)
	}
}

// setPart adds a part to the machine or removes it.
func setPart(ts *testscript.TestScript, w *fake.World, name string, there bool) {
	whole := newHealthyMachine()
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
		ts.Fatalf("a machine has no part %s", name)
	}
}

// newHealthyMachine is a machine on which init succeeds.
func newHealthyMachine() *fake.World {
	w := fake.New()
	w.Paths["kubelet"] = "/usr/bin/kubelet"
	return w
}

func checkFile(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		if _, there := machineOf(ts).world.Files[expand(ts, name)]; there == neg {
			ts.Fatalf("file %s: there is %v; %v", name, there,
				slices.Collect(listFiles(machineOf(ts).world)))
		}
	}
}

// expand replaces CLUSTER in the name of a file by the ID of the machine's cluster.
func expand(ts *testscript.TestScript, name string) string {
	if !strings.Contains(name, "CLUSTER") {
		return name
	}
	ca, err := pki.ParseCertificates(machineOf(ts).world.Files["/etc/kubernetes/pki/ca.crt"].Data)
	ts.Check(err)
	return strings.ReplaceAll(name, "CLUSTER", etcdsnapshot.ClusterID(pki.PinOf(ca[0]).String()))
}

func removeFiles(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		delete(machineOf(ts).world.Files, name)
	}
}

func addObjects(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(machineOf(ts).world.AddObjects(ts.ReadFile(args[0])))
}

func saveStdout(ts *testscript.TestScript, _ bool, args []string) {
	machineOf(ts).world.Files[args[0]] = memory.File{Data: []byte(ts.ReadFile("stdout")),
		Mode: 0o644}
}

func fetchFile(ts *testscript.TestScript, _ bool, args []string) {
	f := machineOf(ts).world.Files[args[0]]
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), f.Data, 0o600))
	fmt.Fprintf(ts.Stdout(), "mode %o\n", f.Mode.Perm())
}

func listFiles(w *fake.World) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range w.Files {
			if strings.HasPrefix(name, "/etc/kubernetes") && !yield(name) {
				return
			}
		}
	}
}
