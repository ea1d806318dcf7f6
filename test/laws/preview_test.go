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

func TestPreviewTellsTheTruth(t *testing.T) {
	each(t, func(t *testing.T, s subject) { foretold(t, s.on(s.machine(t))) })
}

// foretold previews a run and then does it: the preview must have changed nothing and have
// announced just what comes to pass. The accounts of controllers do not count: the API server names them, and a cluster that
// is not there yet has none.
func foretold(t testing.TB, r run) outcome {
	t.Helper()
	before := r.machine.Snapshot()
	seen := r.previewed(t).succeed(t)
	removeCopies(r.machine)
	if diff := diff(before, r.machine.Snapshot()); diff != "" {
		t.Errorf("the preview changed the machine (-before +after):\n%s", diff)
	}
	out := r.succeed(t)
	if diff := diff(strings.Join(foreseeable(announced(seen)), "\n"), strings.Join(foreseeable(came(out)), "\n")); diff != "" {
		t.Errorf("announced and done differ (-announced +done):\n%s", diff)
	}
	return out
}

func foreseeable(all []string) []string {
	return slices.DeleteFunc(all, func(change string) bool {
		return slices.ContainsFunc(controllers, func(c string) bool { return strings.HasSuffix(change, ":ServiceAccount:kube-system/"+c) })
	})
}

// announced is what the user of a preview reads, by kind and target.
func announced(out outcome) []string {
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
	return slices.Sorted(slices.Values(append(of(changes), waits...)))
}

// came is what happened to the machine.
func came(out outcome) []string {
	all := of(out.did)
	for _, w := range out.waits {
		all = append(all, "wait for "+w)
	}
	return slices.Sorted(slices.Values(all))
}

// removeCopies takes away what a preview leaves for the user to look at.
func removeCopies(m *fake.World) {
	maps.DeleteFunc(m.Files, func(name string, _ memory.File) bool {
		return name == dryRunDir || strings.HasPrefix(name, dryRunDir+"/")
	})
}
