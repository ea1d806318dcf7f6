package staticpod_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

func TestRestartRecreatesContainers(t *testing.T) {
	w := newMachine(t)
	w.Pods = []state.Sandbox{
		{ID: "1", Namespace: "kube-system", Component: etcdComponent},
		{ID: "2", Namespace: "kube-system", Component: scheduler},
		{ID: "3", Namespace: "kube-system", Component: apiserver},
	}
	before := listRunningIDs(t, w)
	var did []string
	e := engine.New(engine.Env{World: w, Emit: func(ev engine.Event) {
		if ev.Kind != engine.Did {
			return
		}
		did = append(did, ev.Text)
		want := 30 * time.Second
		if c, ok := ev.Change.(change.RemoveContainers); ok && c.Component == apiserver {
			want = change.ExitPeriod
		}
		if c, ok := ev.Change.(change.RemoveContainers); !ok || c.GracePeriod != want {
			t.Errorf("%v: the grace period is %s", ev.Change, c.GracePeriod)
		}
	}})
	if err := newReplacement().Restart(t.Context(), e, etcdComponent, scheduler, apiserver); err != nil {
		t.Fatal(err)
	}
	after := listRunningIDs(t, w)
	for _, c := range components {
		restarted := c.name == etcdComponent || c.name == scheduler || c.name == apiserver
		if (before[c.name] != after[c.name]) != restarted || after[c.name] == "" {
			t.Errorf("%s: before %s, after %s", c.name, before[c.name], after[c.name])
		}
	}
	if want := []string{"remove the containers of Pod etcd",
		"remove the containers of Pod kube-scheduler", "remove the containers of Pod kube-apiserver"}; !slices.Equal(did, want) {
		t.Errorf("did %q", did)
	}
}

func TestRestartErrorHasCause(t *testing.T) {
	w := newMachine(t)
	writeFile(t, w, "/etc/kubernetes/manifests/kube-scheduler.yaml",
		string(newManifest(scheduler, "v1", "--bad")))
	w.Pods = []state.Sandbox{{ID: "2", Namespace: "kube-system", Component: scheduler}}
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	err := newReplacement().Restart(t.Context(), e, scheduler)
	if err == nil || !strings.Contains(err.Error(), "restarting kube-scheduler: ") ||
		!strings.Contains(err.Error(), "unknown flag: --bad") {
		t.Errorf("got %v", err)
	}
}

// listRunningIDs returns the IDs of running containers by component.
func listRunningIDs(t *testing.T, w *fake.World) map[string]string {
	t.Helper()
	all, err := w.Containers(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, c := range all {
		if c.Running {
			ids[c.Component] = c.ID
		}
	}
	return ids
}
