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

// Wherever a run is killed, the same command ends with all new manifests, or with all old ones if
// the new do not work.
func TestKilledRunConverges(t *testing.T) {
	for name, c := range map[string]struct {
		first, second []staticpod.Manifest
		ends          string
	}{
		"the same manifests": {all("v2"), all("v2"), "v2 v2 v2 v2"},
		"manifests that do not work": {withArgument(all("v2"), scheduler, "v2", "--bad"),
			withArgument(all("v2"), scheduler, "v2", "--bad"), "v2 v1 v1 v1"},
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
					w.PodLag = at % 4
					broken := &fault.World{World: w, At: at, After: after, Crash: true}
					if _, crashed := attempt(t, broken, c.first); !crashed {
						if at < 10 {
							t.Fatalf("only %d changes", at)
						}
						return
					}
					w.Clock = seconds(w.Now().Add(time.Hour))
					out := replace(t.Context(), w, c.second...)
					works := running(t, w) == 4
					if c.ends != "" && versions(w) != c.ends || !works {
						t.Errorf("killed at change %d (after it: %v): %s, works: %v, %v", at, after,
							versions(w), works, out.err)
					}
					for _, name := range left(w) {
						if strings.Contains(name, "replacing") {
							t.Errorf("killed at change %d (after it: %v): %s is left: %v", at,
								after, name, out.err)
						}
					}
				}
			}
		})
	}
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
