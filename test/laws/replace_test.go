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

// newReplaceSubject is a command that adds an argument to every component of a control plane. It
// stands for all commands that replace static Pods.
func newReplaceSubject() subject {
	replace := func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		wanted, err := renderVerboseManifests(ctx, e, *n)
		if err != nil {
			return err
		}
		as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"),
			Server: n.LocalServerURL()}
		_, err = staticpod.Replacement{Node: n, As: as}.Replace(ctx, e, wanted...)
		return err
	}
	return subject{
		name:    "replace the control plane",
		phases:  []engine.Phase{{Name: "control-plane", Run: replace}},
		machine: newRunningControlPlane, setUp: setUpInit,
		node: "cp1", restores: true,
	}
}

// renderVerboseManifests renders the manifests of all components with a higher log verbosity.
func renderVerboseManifests(ctx context.Context, e *engine.Env,
	n node.Node) ([]staticpod.Manifest, error) {
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

// newRunningControlPlane is a machine on which init has created a cluster.
func newRunningControlPlane(t testing.TB) *fake.World {
	return withFastClock(initializedMachine(t))
}

// withFastClock makes the clock of a machine advance by a second at each reading, so that a
// component can stay healthy for some seconds.
func withFastClock(w *fake.World) *fake.World {
	from, tick := w.Now(), memory.NewTickingClock(w.Now())
	w.Clock = func() (now time.Time) { return from.Add(1000 * tick().Sub(from)) }
	return w
}

// Whichever change fails, all components run with their previous manifests in the end.
func TestFailedReplacementIsRolledBack(t *testing.T) {
	s := newReplaceSubject()
	n := len(s.newRun(s.machine(t)).mustSucceed(t).did)
	before := s.machine(t)
	// the last changes remove the records
	forEachFault(n-len(listManifests()), func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			r := s.newRun(s.machine(t))
			r.fault = at
			if out := r.execute(t); out.err == nil {
				t.Fatal("the run succeeded")
			}
			for _, file := range listManifests() {
				if diff := diffLines(string(before.Files[file].Data),
					string(r.machine.Files[file].Data)); diff != "" {
					t.Errorf("%s:\n%s", file, diff)
				}
			}
		})
	})
}

func listManifests() []string {
	var files []string
	for _, component := range append([]string{manifest.Etcd}, manifest.Components()...) {
		files = append(files, node.DefaultPaths().Manifest(component))
	}
	return files
}
