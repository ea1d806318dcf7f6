package laws

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

func TestDryRunMatchesRun(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) { checkDryRun(t, s.newRun(s.machine(t))) })
}

// checkDryRun makes a dry run of a command and then executes it: the dry run must change nothing and announce
// exactly what the run does. ServiceAccounts of controllers do not count: a cluster that does not
// exist yet has no list of them.
func checkDryRun(t testing.TB, r run) outcome {
	t.Helper()
	before := r.machine.Snapshot()
	seen := r.asDryRun(t).mustSucceed(t)
	removeDryRunFiles(r.machine)
	if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
		t.Errorf("the dry run changed the machine (-before +after):\n%s", diff)
	}
	out := r.mustSucceed(t)
	if diff := diffLines(strings.Join(withoutControllerAccounts(announcedChanges(seen)), "\n"),
		strings.Join(withoutControllerAccounts(doneChanges(out)), "\n")); diff != "" {
		t.Errorf("announced and done differ (-announced +done):\n%s", diff)
	}
	return out
}

func withoutControllerAccounts(all []string) []string {
	return slices.DeleteFunc(all, func(change string) bool {
		return slices.ContainsFunc(controllerNames,
			func(c string) bool {
				return strings.HasSuffix(change,
					":ServiceAccount:kube-system/"+c)
			})
	})
}

// announcedChanges lists the changes and waits that a dry run prints, by kind and target.
func announcedChanges(out outcome) []string {
	var changes []change.Change
	var waits []string
	for _, e := range out.events {
		switch e.Kind {
		case engine.Did:
			changes = append(changes, e.Change)
		case engine.Waiting:
			waits = append(waits, "wait for "+e.Text)
		}
	}
	return slices.Sorted(slices.Values(append(describeChanges(changes), waits...)))
}

// doneChanges lists the changes and waits of a run.
func doneChanges(out outcome) []string {
	all := describeChanges(out.did)
	for _, w := range out.waits {
		all = append(all, "wait for "+w)
	}
	return slices.Sorted(slices.Values(all))
}

// removeDryRunFiles removes the copies that a dry run writes for the user.
func removeDryRunFiles(m *fake.World) {
	maps.DeleteFunc(m.Files, func(name string, _ memory.File) bool {
		return name == dryRunDir || strings.HasPrefix(name, dryRunDir+"/")
	})
}
