package laws

import (
	"context"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/nodename"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// newRenamedMachine is a control plane node whose host has been renamed.
func newRenamedMachine(t testing.TB) *fake.World {
	w := newReconfiguredMachine(t)
	w.Info.Hostname = "renamed"
	kubelet := w.Services["kubelet"] // which is older than what the run writes, also by a clock that stands still
	kubelet.Since = w.Now().Add(-time.Hour)
	w.Services["kubelet"] = kubelet
	return w
}

// newRenamedWorker is a worker whose host has been renamed.
func newRenamedWorker(t testing.TB) *fake.World { return newWorkerOf(t, newRenamedMachine(t)) }

// keepNodeName returns the command that lets a node keep its name.
func keepNodeName(machine func(testing.TB) *fake.World) subject {
	return subject{name: "node-name keep", phases: workflow.KeepNodeName, node: "cp1", machine: machine,
		restores: true, repeats: true, replacesSome: true,
		setUp: func(t testing.TB, e *engine.Env) error {
			t.Helper()
			here, err := openAddress(t, e)
			if err != nil {
				return err
			}
			w, err := nodename.FindKeep(t.Context(), e, here)
			if err != nil {
				return err
			}
			e.Local, e.Node, e.Intent, e.Admin = w.Node.Local, engine.Resolved(w.Node), w.Intent, engine.As(w.As)
			return nil
		}}
}

// checkKept checks that the kubelet of a machine is told the name of its Node, and was started since.
func checkKept(t *testing.T, w *fake.World) {
	t.Helper()
	p := node.DefaultPaths()
	local := node.Local{Hostname: w.Info.Hostname, Paths: p}
	if k, err := nodename.ReadKubelet(t.Context(), w, local); err != nil || k.Name != "cp1" {
		t.Errorf("the kubelet has its name from %+v: %v", k, err)
	}
	if w.Services["kubelet"].Since.Before(w.Files[p.KubeletFlags()].ModTime) {
		t.Error("the kubelet is older than its arguments")
	}
	if _, isLeft := w.Files[p.Journal()+"/node-name.json"]; isLeft {
		t.Error("the record of an interrupted run is left")
	}
}

// A node keeps its name, and the same command again changes nothing. Wherever it is killed, it completes the next time.
func TestNodeKeepsItsName(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"a control plane node": newRenamedMachine,
		"a worker": newRenamedWorker, "prepared": newReconfiguredMachine} {
		t.Run(name, func(t *testing.T) {
			s := keepNodeName(machine)
			r := s.newRun(machine(t))
			r.mustSucceed(t)
			checkKept(t, r.machine)
			if again := s.withoutRepeated(s.newRun(r.machine).mustSucceed(t).did); len(again) > 0 {
				t.Errorf("the same command changes %v", describeChanges(again))
			}
			s.killEverywhere(t, func(t *testing.T, r killedRun) {
				again := r.rerun()
				again.mustSucceed(t)
				checkKept(t, again.machine)
			})
		})
	}
}

// A kubelet that does not become healthy gets its previous arguments again, also if the first run was killed.
func TestKeptNameIsTakenBack(t *testing.T) {
	flags := node.DefaultPaths().KubeletFlags()
	for name, machine := range map[string]func(testing.TB) *fake.World{"a control plane node": newRenamedMachine,
		"a worker": newRenamedWorker} {
		t.Run(name, func(t *testing.T) {
			s := keepNodeName(machine)
			before := string(s.machine(t).Files[flags].Data)
			s.killEverywhere(t, func(t *testing.T, r killedRun) {
				again := r.rerun()
				again.machine.BrokenKubelet = "--hostname-override"
				out := again.execute(t)
				isComplete := strings.HasPrefix(r.name, "after") && len(describeChanges(s.withoutRepeated(r.did))) > 0 &&
					again.machine.Files[node.DefaultPaths().Journal()+"/node-name.json"].Data == nil
				if out.err == nil || !isComplete && !strings.Contains(out.err.Error(), "previous arguments again") {
					t.Errorf("the command ended with: %v", out.err)
				}
				if now := string(again.machine.Files[flags].Data); !isComplete && now != before {
					t.Errorf("the kubelet has the arguments %s", now)
				}
			})
		})
	}
}

// A file that did not exist is removed again.
func TestKeptNameRemovesItsFile(t *testing.T) {
	flags := node.DefaultPaths().KubeletFlags()
	s := keepNodeName(func(t testing.TB) *fake.World {
		w := newRenamedWorker(t)
		delete(w.Files, flags)
		return w
	})
	r := s.newRun(s.machine(t))
	r.machine.BrokenKubelet = "--hostname-override"
	if out := r.execute(t); out.err == nil {
		t.Error("the command succeeds")
	}
	if f, isLeft := r.machine.Files[flags]; isLeft {
		t.Errorf("%s is left: %s", flags, f.Data)
	}
}

// A name in the environment file of an administrator counts, and is the one that changes.
func TestNameOfAdministratorIsReplaced(t *testing.T) {
	const file = "/etc/default/kubelet"
	s := keepNodeName(func(t testing.TB) *fake.World {
		w := newRenamedMachine(t)
		w.Files[file] = memory.File{Mode: 0o644,
			Data: []byte("# --hostname-override=a\nKUBELET_EXTRA_ARGS=\"--v=2 --hostname-override=renamed --v=3\"\n")}
		return w
	})
	r := s.newRun(s.machine(t))
	r.mustSucceed(t)
	checkKept(t, r.machine)
	want := "# --hostname-override=a\nKUBELET_EXTRA_ARGS=\"--v=2 --hostname-override=cp1 --v=3\"\n"
	if got := string(r.machine.Files[file].Data); got != want {
		t.Errorf("the file is\n%s", got)
	}
	if flags := r.machine.Files[node.DefaultPaths().KubeletFlags()].Data; strings.Contains(string(flags), "hostname-override") {
		t.Errorf("it is set twice: %s", flags)
	}
}

// What else changes the kubelet of the node keeps its name: other arguments, an upgrade.
func TestOtherCommandsKeepTheName(t *testing.T) {
	w := newRenamedMachine(t)
	keepNodeName(newRenamedMachine).newRun(w).mustSucceed(t)
	args, err := config.ParseKubeletArgs([]string{"max-pods=50"})
	if err != nil {
		t.Fatal(err)
	}
	reconfigureNode(args).newRun(w).mustSucceed(t)
	checkKept(t, w)
	reconfigure(changedConfig).newRun(w).mustSucceed(t)
	checkKept(t, w)
}

// While a change of the configuration is interrupted on the node, the files of its kubelet are not edited.
func TestNameIsNotKeptWithinAnotherChange(t *testing.T) {
	r := reconfigure(changedConfig).killAt(t, "config.yaml")
	flags := node.DefaultPaths().KubeletFlags()
	before := string(r.machine.Files[flags].Data)
	out := keepNodeName(newRenamedMachine).newRun(r.machine).execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "a change of the configuration was interrupted on this node") {
		t.Errorf("the command ended with: %v", out.err)
	}
	if now := string(r.machine.Files[flags].Data); now != before {
		t.Errorf("the kubelet has the arguments %s", now)
	}
}

// What cannot be kept is refused, and nothing is changed.
func TestKeepIsRefused(t *testing.T) {
	w := newRenamedMachine(t)
	if err := w.PutFile("/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", memory.File{Mode: 0o644,
		Data: []byte("[Service]\nExecStart=/usr/bin/kubelet --hostname-override=$HOSTNAME\n")}); err != nil {
		t.Fatal(err)
	}
	before := w.Snapshot()
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := nodename.FindKeep(ctx, e, here)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "10-kubeadm.conf sets the name of the kubelet") {
		t.Errorf("got %v", err)
	}
	if diff := diffLines(before, w.Snapshot()); diff != "" {
		t.Errorf("it has changed something:\n%s", diff)
	}
}

// If the kubelet cannot be restarted, it has its previous arguments again.
func TestFailedRestartIsTakenBack(t *testing.T) {
	s := keepNodeName(newRenamedWorker)
	r := s.newRun(s.machine(t))
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	for i, c := range whole.did {
		if c.Target() == "service:kubelet" {
			r.fault = &fault.World{At: i}
		}
	}
	before := string(r.machine.Files[node.DefaultPaths().KubeletFlags()].Data)
	if out := r.execute(t); out.err == nil || !strings.Contains(out.err.Error(), "previous arguments again") {
		t.Errorf("the command ended with: %v", out.err)
	}
	if now := string(r.machine.Files[node.DefaultPaths().KubeletFlags()].Data); now != before {
		t.Errorf("the kubelet has the arguments %s", now)
	}
}
