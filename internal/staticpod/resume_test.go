package staticpod_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
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
func attempt(t *testing.T, in world.World,
	wanted []staticpod.Manifest) (out outcome, crashed bool) {
	t.Helper()
	defer func() {
		if p := recover(); p == (fault.Crash{}) {
			crashed = true
		} else if p != nil {
			panic(p)
		}
	}()
	return replace(t.Context(), in, wanted...), false
}

// killed is a run that was killed at a change, and the next one.
type killed struct {
	first, second []staticpod.Manifest
	ends          string // the versions at the end; empty for any that work

	at    int
	after bool // the change took effect
	lag   int  // of the kubelet
	later bool // the next run comes after the kubelet has acted on all manifests
}

// Wherever a run is killed, the next one ends with all new manifests, or with all old ones if the
// new ones do not work.
func TestKilledRunConverges(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	bad := func(component, version, arg string) []staticpod.Manifest {
		return withArgument(all(version), component, version, arg)
	}
	for name, k := range map[string]killed{
		"the same manifests": {first: all("v2"), second: all("v2"), ends: "v2 v2 v2 v2"},
		"manifests that do not work": {first: bad(scheduler, "v2", "--bad"),
			second: bad(scheduler, "v2", "--bad"), ends: "v2 v1 v1 v1"},
		"corrected since": {first: bad(scheduler, "v2", "--bad"), second: all("v2"),
			ends: "v2 v2 v2 v2"},
		"others, as bad": {first: bad(controllers, "v2", "--bad"),
			second: bad(controllers, "v3", "--worse")},
		"back to the old ones": {first: bad(controllers, "v2", "--bad"), second: all("v1"),
			ends: "v1 v1 v1 v1"},
	} {
		for _, k.lag = range []int{0, 3} {
			for _, k.later = range []bool{false, true} {
				k := k
				t.Run(fmt.Sprintf("%s, lag %d, later %v", name, k.lag, k.later),
					func(t *testing.T) {
						t.Parallel()
						for k.at = 0; ; k.at += step {
							for _, k.after = range []bool{false, true} {
								if !k.converges(t) {
									return
								}
							}
						}
					})
			}
		}
	}
}

// converges reports whether the first run got as far as the change.
func (k killed) converges(t *testing.T) bool {
	w := controlPlane(t)
	w.PodLag = k.lag
	broken := &fault.World{World: w, At: k.at, After: k.after, Crash: true}
	if _, crashed := attempt(t, broken, k.first); !crashed {
		if k.at < 10 {
			t.Fatalf("only %d changes", k.at)
		}
		return false
	}
	if k.later {
		running(t, w)
		w.Clock = seconds(w.Now().Add(time.Hour))
	}
	out := replace(t.Context(), w, k.second...)
	works := running(t, w) == 4
	if k.ends != "" && versions(w) != k.ends || !works {
		t.Errorf("killed at change %d (after it: %v): %s, works: %v, %v",
			k.at, k.after, versions(w), works, out.err)
	}
	for _, name := range left(w) {
		if strings.Contains(name, "replacing") {
			t.Errorf("killed at change %d (after it: %v): %s is left: %v", k.at, k.after, name,
				out.err)
		}
	}
	return true
}

// Both runs together make each change once, so that nothing is restarted for nothing.
func TestResumedRunRepeatsNothing(t *testing.T) {
	wanted := withArgument(all("v2"), etcdComponent, "v1", "--v=2")
	whole := controlPlane(t)
	want := replace(t.Context(), whole, wanted...).targets()
	for at := range want {
		w := controlPlane(t)
		first := &noting{World: w}
		if _, crashed := attempt(t, &fault.World{World: first, At: at, After: true, Crash: true},
			wanted); !crashed {
			t.Fatal("not killed")
		}
		second := &noting{World: w}
		if out := replace(t.Context(), second, wanted...); out.err != nil {
			t.Fatal(out.err)
		}
		got := slices.Concat(first.targets, second.targets)
		for _, targets := range [][]string{want, got} {
			for i, target := range targets {
				targets[i] = backupTime.ReplaceAllString(target, "TIME")
			}
		}
		if a, b := slices.Sorted(slices.Values(want)),
			slices.Sorted(slices.Values(got)); !slices.Equal(a, b) {
			t.Errorf("killed after change %d:\nwant %v\ngot  %v", at, a, b)
		}
	}
}

var backupTime = regexp.MustCompile(`\d{4}(-\d\d){5}`)

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
		out := replace(t.Context(), w, all("v1")...)
		if _, there := w.Files[record]; out.err != nil || there || len(out.did) != 1 {
			t.Errorf("%s: did %v, left %v: %v", name, out.targets(), left(w), out.err)
		}
	}
}

// A backup that an unfinished run has made of another component is not overwritten.
func TestBackupOfAnotherVersionIsKept(t *testing.T) {
	w := controlPlane(t)
	const dir = "/etc/kubernetes/tmp/kubeadm-backup-manifests-2026-01-01-00-00-00/"
	have(t, w, dir+"kube-scheduler.yaml", "older")
	have(t, w, "/etc/kubernetes/tmp/kubeadm-journal/replacing-kube-controller-manager.json",
		fmt.Sprintf(`{"backup":%q,"previous":"%x"}`, dir+"kube-controller-manager.yaml",
			sha256.Sum256(manifestOf(controllers, "v1"))))
	out := replace(t.Context(), w, all("v2")...)
	if text := string(w.Files[dir+"kube-scheduler.yaml"].Data); out.err != nil || text != "older" {
		t.Errorf("the backup holds %q: %v", text, out.err)
	}
	if text := w.Files[dir+
		"kube-controller-manager.yaml"].Data; string(text) != string(manifestOf(controllers,
		"v1")) {
		t.Errorf("the directory of the unfinished run is not used: %v", left(w))
	}
}
