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

// runUntilCrash runs Replace until it returns or crashes.
func runUntilCrash(t *testing.T, in world.World,
	wanted []staticpod.Manifest) (out outcome, crashed bool) {
	t.Helper()
	defer func() {
		if p := recover(); p == (fault.Crash{}) {
			crashed = true
		} else if p != nil {
			panic(p)
		}
	}()
	return runReplace(t.Context(), in, wanted...), false
}

// killedRun is a run that is killed at a change, and the next one.
type killedRun struct {
	first, second []staticpod.Manifest
	want          string // image versions in the end; empty for any that are healthy

	at    int
	after bool // the change took effect
	lag   int  // of the kubelet
	later bool // the next run starts after the kubelet has read all manifests
}

// At whichever change a run is killed, the next one ends with all new manifests, or with all
// previous ones if the new ones fail.
func TestReplaceResumesAfterKill(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	bad := func(component, version, arg string) []staticpod.Manifest {
		return withArgument(newManifests(version), component, version, arg)
	}
	for name, k := range map[string]killedRun{
		"the same manifests": {first: newManifests("v2"), second: newManifests("v2"),
			want: "v2 v2 v2 v2"},
		"bad manifests": {first: bad(scheduler, "v2", "--bad"),
			second: bad(scheduler, "v2", "--bad"), want: "v2 v1 v1 v1"},
		"fixed manifests": {first: bad(scheduler, "v2", "--bad"), second: newManifests("v2"),
			want: "v2 v2 v2 v2"},
		"other bad manifests": {first: bad(controllers, "v2", "--bad"),
			second: bad(controllers, "v3", "--worse")},
		"previous manifests": {first: bad(controllers, "v2", "--bad"), second: newManifests("v1"),
			want: "v1 v1 v1 v1"},
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

// converges reports whether the first run reached the change.
func (k killedRun) converges(t *testing.T) bool {
	w := newMachine(t)
	w.PodLag = k.lag
	broken := &fault.World{World: w, At: k.at, After: k.after, Crash: true}
	if _, crashed := runUntilCrash(t, broken, k.first); !crashed {
		if k.at < 10 {
			t.Fatalf("only %d changes", k.at)
		}
		return false
	}
	if k.later {
		countRunning(t, w)
		w.Clock = newSecondsClock(w.Now().Add(time.Hour))
	}
	out := runReplace(t.Context(), w, k.second...)
	healthy := countRunning(t, w) == 4
	if k.want != "" && imageVersions(w) != k.want || !healthy {
		t.Errorf("killed at change %d (after it: %v): %s, healthy: %v, %v",
			k.at, k.after, imageVersions(w), healthy, out.err)
	}
	for _, name := range listTemporaryFiles(w) {
		if strings.Contains(name, "replacing") {
			t.Errorf("killed at change %d (after it: %v): %s is left: %v", k.at, k.after, name,
				out.err)
		}
	}
	return true
}

// Both runs together make each change once, so that no component is restarted twice.
func TestResumedRunRepeatsNoChange(t *testing.T) {
	wanted := withArgument(newManifests("v2"), etcdComponent, "v1", "--v=2")
	whole := newMachine(t)
	want := runReplace(t.Context(), whole, wanted...).targets()
	for at := range want {
		w := newMachine(t)
		first := &targetRecorder{World: w}
		broken := &fault.World{World: first, At: at, After: true, Crash: true}
		if _, crashed := runUntilCrash(t, broken, wanted); !crashed {
			t.Fatal("not killed")
		}
		second := &targetRecorder{World: w}
		if out := runReplace(t.Context(), second, wanted...); out.err != nil {
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

// targetRecorder records the targets of changes.
type targetRecorder struct {
	world.World
	targets []string
}

func (n *targetRecorder) Do(ctx context.Context, c change.Change) error {
	n.targets = append(n.targets, c.Target())
	return n.World.Do(ctx, c)
}

// A record may be left of a cluster that was removed.
func TestRecordOfOtherManifestIsIgnored(t *testing.T) {
	w := newMachine(t)
	record := "/etc/kubernetes/tmp/kubeadm-journal/replacing-kube-scheduler.json"
	for name, text := range map[string]string{
		"of another manifest": `{"backup":"/etc/kubernetes/tmp/old.yaml","previous":"aa",` +
			`"written":["bb"],"podUIDs":["u"]}`,
		"no JSON": "{",
	} {
		w.Files[record] = memory.File{Data: []byte(text), Mode: 0o600}
		out := runReplace(t.Context(), w, newManifests("v1")...)
		if _, there := w.Files[record]; out.err != nil || there || len(out.did) != 1 {
			t.Errorf("%s: did %v, left %v: %v", name, out.targets(), listTemporaryFiles(w), out.err)
		}
	}
}

// The backup of another version in the directory of an unfinished run is not overwritten.
func TestBackupOfOtherVersionIsKept(t *testing.T) {
	w := newMachine(t)
	const dir = "/etc/kubernetes/tmp/kubeadm-backup-manifests-2026-01-01-00-00-00/"
	writeFile(t, w, dir+"kube-scheduler.yaml", "older")
	writeFile(t, w, "/etc/kubernetes/tmp/kubeadm-journal/replacing-kube-controller-manager.json",
		fmt.Sprintf(`{"backup":%q,"previous":"%x"}`, dir+"kube-controller-manager.yaml",
			sha256.Sum256(newManifest(controllers, "v1"))))
	out := runReplace(t.Context(), w, newManifests("v2")...)
	if text := string(w.Files[dir+"kube-scheduler.yaml"].Data); out.err != nil || text != "older" {
		t.Errorf("the backup holds %q: %v", text, out.err)
	}
	if text := w.Files[dir+
		"kube-controller-manager.yaml"].Data; string(text) != string(newManifest(controllers,
		"v1")) {
		t.Errorf("the directory of the unfinished run is not used: %v", listTemporaryFiles(w))
	}
}
