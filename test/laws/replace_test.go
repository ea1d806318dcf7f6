package laws

import (
	"context"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// replacement is a command that gives every component of a running control plane one more argument.
// It stands for all commands that replace static Pods.
func newReplaceSubject() subject {
	phase := engine.Phase{Name: "control-plane", Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		wanted, err := moreVerbose(ctx, e, *n)
		if err != nil {
			return err
		}
		as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"), Server: n.LocalServerURL()}
		_, err = staticpod.Replacement{Node: n, As: as}.Replace(ctx, e, wanted...)
		return err
	}}
	return subject{
		name: "replace the control plane", phases: []engine.Phase{phase},
		machine: runningControlPlane, setUp: setUpInit,
		node: "cp1", restores: true,
	}
}

// moreVerbose are the manifests of a node whose components are more verbose.
func moreVerbose(ctx context.Context, e *engine.Env, n node.Node) ([]staticpod.Manifest, error) {
	verbosity := []node.Arg{{Name: "v", Value: "2"}}
	n.Cluster.APIServer.Args, n.Cluster.ControllerManager.Args = verbosity, verbosity
	n.Cluster.Scheduler.Args, n.Cluster.Etcd.Args = verbosity, verbosity
	var wanted []staticpod.Manifest
	for _, component := range append([]string{manifest.Etcd}, manifest.Components()...) {
		m, err := staticpod.Render(ctx, e, &n, component, nil)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, m)
	}
	return wanted, nil
}

// runningControlPlane is a machine on which init has begun a cluster. Its clock goes on by a second
// at each look, so that what must last for some seconds does.
func runningControlPlane(t testing.TB) *fake.World {
	w := initializedMachine(t)
	from, tick := w.Now(), memory.NewTickingClock(w.Now())
	w.Clock = func() (now time.Time) { return from.Add(1000 * tick().Sub(from)) }
	return w
}

// Wherever a change fails, all components run by their previous manifests at the end.
func TestFailedReplacementPutsTheControlPlaneBack(t *testing.T) {
	s := newReplaceSubject()
	n := len(s.newRun(s.machine(t)).mustSucceed(t).did)
	before := s.machine(t)
	forEachFault(n-len(componentFiles()), func(at *fault.World) { // at the end the records are removed
		t.Run(faultName(at), func(t *testing.T) {
			r := s.newRun(s.machine(t))
			r.fault = at
			if out := r.execute(t); out.err == nil {
				t.Fatal("it succeeds")
			}
			for _, file := range componentFiles() {
				if diff := diffLines(string(before.Files[file].Data),
					string(r.machine.Files[file].Data)); diff != "" {
					t.Errorf("%s:\n%s", file, diff)
				}
			}
		})
	})
}

func componentFiles() []string {
	var files []string
	for _, component := range append([]string{manifest.Etcd}, manifest.Components()...) {
		files = append(files, node.DefaultPaths().Manifest(component))
	}
	return files
}
