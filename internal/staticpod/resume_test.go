package staticpod_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// attempt runs until it ends or crashes.
func attempt(t *testing.T, in world.World, kept map[string]string,
	wanted []staticpod.Manifest) (out outcome, crashed bool) {
	t.Helper()
	defer func() {
		if p := recover(); p == (fault.Crash{}) {
			crashed = true
		} else if p != nil {
			panic(p)
		}
	}()
	return replace(t.Context(), in, kept, wanted...), false
}

// Wherever a run is killed, the same command ends with all new manifests, or with all old ones if
// the new do not work.
func TestKilledRunConverges(t *testing.T) {
	for name, c := range map[string]struct {
		first, second []staticpod.Manifest
		ends          string
	}{
		"the same manifests": {all("v2"), all("v2"), "v2 v2 v2 v2"},
		"manifests that do not work": {withArgument(all("v2"), scheduler, "v2", "--bad"),
			withArgument(all("v2"), scheduler, "v2", "--bad"), "v1 v1 v1 v1"},
		"corrected since": {withArgument(all("v2"), scheduler, "v2", "--bad"),
			all("v2"), "v2 v2 v2 v2"},
		"others that do not work either": {withArgument(all("v2"), controllers, "v2", "--bad"),
			withArgument(all("v3"), controllers, "v3", "--worse"), ""},
		"back to the old ones": {withArgument(all("v2"), controllers, "v2", "--bad"), all("v1"),
			"v1 v1 v1 v1"},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 0; ; at++ {
				for _, after := range []bool{false, true} {
					w := controlPlane(t)
					kept := map[string]string{}
					broken := &fault.World{World: w, At: at, After: after, Crash: true}
					if _, crashed := attempt(t, broken, kept, c.first); !crashed {
						if at < 10 {
							t.Fatalf("only %d changes", at)
						}
						return
					}
					w.Clock = seconds(w.Now().Add(time.Hour))
					out := replace(t.Context(), w, kept, c.second...)
					works := running(t, w) == 4
					if c.ends != "" && versions(w) != c.ends || !works {
						t.Errorf("killed at change %d (after it: %v): %s, works: %v, %v", at, after,
							versions(w), works, out.err)
					}
					for _, name := range left(w) {
						if strings.Contains(name, "replacing") {
							t.Errorf("killed at change %d: %s is left", at, name)
						}
					}
				}
			}
		})
	}
}

// Both runs together make each change once, so that nothing is restarted for nothing.
func TestResumedRunRepeatsNothing(t *testing.T) {
	whole := controlPlane(t)
	want := replace(t.Context(), whole, map[string]string{}, all("v2")...).targets()
	for at := range want {
		w := controlPlane(t)
		kept := map[string]string{}
		first := &noting{World: w}
		if _, crashed := attempt(t, &fault.World{World: first, At: at, After: true, Crash: true},
			kept, all("v2")); !crashed {
			t.Fatal("not killed")
		}
		second := &noting{World: w}
		if out := replace(t.Context(), second, kept, all("v2")...); out.err != nil {
			t.Fatal(out.err)
		}
		got := slices.Concat(first.targets, second.targets)
		if a, b := slices.Sorted(slices.Values(want)),
			slices.Sorted(slices.Values(got)); !slices.Equal(a, b) {
			t.Errorf("killed after change %d:\nwant %v\ngot  %v", at, a, b)
		}
	}
}

// noting notes the targets of changes.
type noting struct {
	world.World
	targets []string
}

func (n *noting) Do(ctx context.Context, c change.Change) error {
	n.targets = append(n.targets, c.Target())
	return n.World.Do(ctx, c)
}

// What an unfinished run of a cluster that is gone has left leads nowhere.
func TestRecordOfAnotherManifestIsIgnored(t *testing.T) {
	w := controlPlane(t)
	record := "/etc/kubernetes/tmp/kubeadm-journal/replacing-kube-scheduler.json"
	for name, text := range map[string]string{
		"of another manifest": `{"backup":"/etc/kubernetes/tmp/old.yaml","previous":"aa","written":["bb"],"podUIDs":["u"]}`,
		"no JSON":             "{",
	} {
		w.Files[record] = memory.File{Data: []byte(text), Mode: 0o600}
		out := replace(t.Context(), w, map[string]string{}, all("v1")...)
		if _, there := w.Files[record]; out.err != nil || there || len(out.did) != 1 {
			t.Errorf("%s: did %v, left %v: %v", name, out.targets(), left(w), out.err)
		}
	}
}
