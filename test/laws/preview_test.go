package laws

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

func TestPreviewMatchesRun(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) { checkPreview(t, s.newRun(s.machine(t))) })
}

// checkPreview previews a run and then does it: the preview must have changed nothing and have
// announced just what comes to pass. The accounts of controllers do not count: the API server names them, and a cluster that
// is not there yet has none.
func checkPreview(t testing.TB, r run) outcome {
	t.Helper()
	before := r.machine.Snapshot()
	seen := r.asPreview(t).mustSucceed(t)
	removeDryRunFiles(r.machine)
	if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
		t.Errorf("the preview changed the machine (-before +after):\n%s", diff)
	}
	out := r.mustSucceed(t)
	if diff := diffLines(strings.Join(withoutControllerAccounts(announcedChanges(seen)), "\n"), strings.Join(withoutControllerAccounts(doneChanges(out)), "\n")); diff != "" {
		t.Errorf("announced and done differ (-announced +done):\n%s", diff)
	}
	return out
}

func withoutControllerAccounts(all []string) []string {
	return slices.DeleteFunc(all, func(change string) bool {
		return slices.ContainsFunc(controllerNames, func(c string) bool { return strings.HasSuffix(change, ":ServiceAccount:kube-system/"+c) })
	})
}

// announcedChanges is what the user of a preview reads, by kind and target.
func announcedChanges(out outcome) []string {
	var changes []change.Change
	var waits []string
	for _, e := range out.events {
		switch e.Kind {
		case flow.Did:
			changes = append(changes, e.Change)
		case flow.Waiting:
			waits = append(waits, "wait for "+e.Text)
		}
	}
	return slices.Sorted(slices.Values(append(describeChanges(changes), waits...)))
}

// doneChanges is what happened to the machine.
func doneChanges(out outcome) []string {
	all := describeChanges(out.did)
	for _, w := range out.waits {
		all = append(all, "wait for "+w)
	}
	return slices.Sorted(slices.Values(all))
}

// removeDryRunFiles takes away what a preview leaves for the user to look at.
func removeDryRunFiles(m *fake.World) {
	maps.DeleteFunc(m.Files, func(name string, _ memory.File) bool {
		return name == dryRunDir || strings.HasPrefix(name, dryRunDir+"/")
	})
}
