package laws

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

// A run that is undone when it fails restores the machine, keeps the user's files, and names the
// changes that cannot be undone.
func TestFailedRunIsUndone(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		machine := newUserMachine(t, s)
		failed := 0
		n := len(s.newRun(machine.Clone()).mustSucceed(t).did)
		t.Run("at", func(t *testing.T) {
			forEachFault(n, func(at *fault.World) {
				t.Run(faultName(at), func(t *testing.T) {
					if checkUndone(t, s, machine, at) {
						failed++
					}
				})
			})
		})
		if testing.Short() { // the run may have survived all faults so far: try more until it fails
			for at := 0; at < n && failed == 0; at++ {
				if checkUndone(t, s, machine, &fault.World{At: at}) {
					failed++
				}
			}
		}
		if failed == 0 {
			t.Error("no fault made the run fail: nothing was tested")
		}
	})
}

// A phase of an upgrade whose objects only work together leaves them as they were if it fails.
func TestFailedUpgradePhaseIsUndone(t *testing.T) {
	subjects := upgradeSubjects()
	machine := subjects[0].machine
	subjects[0].machine = func(t testing.TB) *fake.World {
		m := machine(t) // with an object that upload-config creates
		delete(m.Objects, memory.Key{Kind: rbacv1.SchemeGroupVersion.WithKind("Role").GroupKind(),
			Namespace: "kube-system", Name: "kubeadm:kubelet-config"})
		return m
	}
	for _, c := range []struct {
		subject subject
		phases  []string
	}{
		{subjects[0], []string{"upload-config", "addon"}},
		{subjects[1], []string{"addon"}},
	} {
		for _, phase := range c.phases {
			t.Run(strings.ReplaceAll(c.subject.name, " ", "-")+"/"+phase, func(t *testing.T) {
				t.Parallel()
				checkPhaseUndone(t, c.subject, phase)
			})
		}
	}
}

// checkPhaseUndone injects a fault into each change of the phase of a run.
func checkPhaseUndone(t *testing.T, s subject, phase string) {
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	var objects []string
	for _, e := range whole.events {
		if e.Kind == engine.Did && strings.HasPrefix(e.Phase+"/", phase+"/") {
			objects = append(objects, e.Change.Target())
		}
	}
	if len(objects) < 2 {
		t.Fatalf("phase %s changes %d objects: nothing has to be undone", phase, len(objects))
	}
	first := slices.IndexFunc(whole.did,
		func(c change.Change) bool { return slices.Contains(objects, c.Target()) })
	for i := range objects {
		for _, after := range []bool{false, true} {
			before := s.machine(t)
			r := s.newRun(before.Clone())
			r.fault = &fault.World{At: first + i, After: after}
			out := r.execute(t)
			if out.err == nil || !strings.Contains(out.err.Error(), "phase "+phase) {
				t.Fatalf("fault %d (after: %t): the run ended with %v", i, after, out.err)
			}
			for key, was := range r.machine.Objects {
				target := state.Ref{GVK: was.GroupVersionKind(), Namespace: key.Namespace,
					Name: key.Name}.Target()
				if slices.Contains(objects, target) &&
					!reflect.DeepEqual(before.Objects[key], was) {
					t.Errorf("fault %d (after: %t): %s was not restored", i, after, target)
				}
			}
			if out := r.rerun().mustSucceed(t); len(out.did) == 0 {
				t.Error("the run after it had nothing to do")
			}
		}
	}
}

// Files of the user stay, unless Kubernetes writes files of the same name.
func TestUserFilesAreKept(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		r := s.newRun(newUserMachine(t, s))
		before := r.machine.Clone()
		r.mustSucceed(t)
		files := []string{"/etc/kubernetes/notes"}
		if s.name == "init" {
			files = append(files, "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/ca.key")
		}
		for _, f := range files {
			if diff := diffLines(string(before.Files[f].Data),
				string(r.machine.Files[f].Data)); diff != "" {
				t.Errorf("%s was changed:\n%s", f, diff)
			}
		}
		for k, o := range before.Objects {
			if k.Kind.Kind == "ConfigMap" && k.Name == "coredns" &&
				!reflect.DeepEqual(o, r.machine.Objects[k]) {
				t.Errorf("the Corefile was changed: %v", r.machine.Objects[k])
			}
		}
	})
}

// checkUndone injects a fault into a run on a copy of the machine and checks that the run was undone. It returns false if
// the run succeeded in spite of the fault.
func checkUndone(t *testing.T, s subject, machine *fake.World, at *fault.World) bool {
	before := machine.Clone()
	r := s.newRun(before.Clone())
	r.fault, r.phases = at, withUndo(s.phases)
	out := r.execute(t)
	if out.err == nil {
		return false
	}
	if !strings.Contains(out.err.Error(), fault.ErrInjected.Error()) {
		t.Fatalf("the run failed by itself: %v", out.err)
	}
	lost := listIrreversibleWarnings(t, out)
	done := at.At
	if at.After {
		done++
	}
	for _, c := range out.did[:min(done, len(out.did))] {
		if isIrreversible(c) &&
			!slices.Contains(describeChanges(lost), describeChanges([]change.Change{c})[0]) {
			t.Errorf("no warning that %s cannot be undone", c)
		}
	}
	for _, c := range slices.Backward(lost) { // as they were done
		if set, ok := c.(change.SetMember); ok && set.State == change.Voter {
			continue // a voter does not become a learner again, but is removed
		}
		for _, m := range []*fake.World{before, r.machine} {
			if err := m.Do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	removeKubeletState(s, before, r.machine)
	if diff := diffLines(before.Snapshot(), r.machine.Snapshot()); diff != "" {
		t.Errorf("the machine was not restored (-before +after):\n%s", diff)
	}
	checkJournalCleared(t, r, out)
	return true
}

// newUserMachine is the subject's machine with files and objects of the user.
func newUserMachine(t testing.TB, s subject) *fake.World {
	m := s.machine(t)
	if s.name == "init" {
		for _, f := range []string{"/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/ca.key"} {
			addFile(t, m, f, string(initializedMachine(t).Files[f].Data))
		}
		corefile := &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns",
				Labels: map[string]string{"of": "the user"}},
			Data: map[string]string{"Corefile": ".:53 {\n    forward . 192.0.2.53\n}\n"},
		}
		if err := m.World.Do(t.Context(), change.ApplyObject{Object: corefile}); err != nil {
			t.Fatal(err)
		}
	}
	addFile(t, m, "/var/lib/kubelet/config.yaml", "of: the user\n")
	addFile(t, m, "/etc/kubernetes/notes", "mine\n")
	return m
}

// addFile writes a file and its parent directories to a machine.
func addFile(t testing.TB, m *fake.World, name, text string) {
	t.Helper()
	if err := m.World.Do(t.Context(),
		change.WriteFile{Path: name, Data: []byte(text), Mode: 0o640,
			Secret: strings.HasSuffix(name, ".key")}); err != nil {
		t.Fatal(err)
	}
}

// withUndo is a workflow that undoes everything when it fails.
func withUndo(ps []engine.Phase) []engine.Phase {
	const top = "all"
	var below func(ps []engine.Phase) []engine.Phase
	below = func(ps []engine.Phase) []engine.Phase {
		ps = slices.Clone(ps)
		for i := range ps {
			ps[i].Phases, ps[i].Needs = below(ps[i].Phases), slices.Clone(ps[i].Needs)
			for j, need := range ps[i].Needs {
				ps[i].Needs[j] = top + "/" + need
			}
			for _, milestones := range []*[]engine.Milestone{&ps[i].After, &ps[i].Points} {
				*milestones = slices.Clone(*milestones)
				for j, m := range *milestones {
					(*milestones)[j] = top + "/" + m
				}
			}
		}
		return ps
	}
	return []engine.Phase{{Name: top, OnError: engine.Undo, Phases: below(ps)}}
}

// listIrreversibleWarnings lists the changes for which the run warns that they cannot be undone.
func listIrreversibleWarnings(t testing.TB, out outcome) []change.Change {
	var lost []change.Change
	for _, e := range out.events {
		if e.Kind != engine.Warned || e.Change == nil {
			continue
		}
		if !isIrreversible(e.Change) {
			t.Errorf("this can be undone: %s", e.Text)
		}
		lost = append(lost, e.Change)
	}
	return lost
}

func isIrreversible(c change.Change) bool {
	switch c := c.(type) {
	case change.PullImage, change.Unmount, change.RemoveContainers, change.RemoveInterface,
		change.RemovePacketRules, change.RemoveVirtualServers, change.RemoveControlGroup,
		change.EvictPod:
		return true
	case change.Remove:
		return c.Contents
	case change.SetMember:
		return c.State != change.Learner && c.From == ""
	case change.MutateObject:
		return c.Subresource != ""
	}
	return false
}

// removeKubeletState removes what the kubelet created by itself, which no run can undo.
func removeKubeletState(s subject, before, after *fake.World) {
	for _, f := range s.kubelets {
		for _, had := before.Files[f]; !had && f != "/"; _, had = before.Files[f] {
			delete(after.Files, f)
			f = path.Dir(f)
		}
	}
	for k := range after.Objects {
		if _, ok := before.Objects[k]; !ok && k.Kind.Kind == "Node" {
			delete(after.Objects, k)
		}
	}
	if s.name == "init from a backup" { // its etcd ran
		after.MemberList = before.MemberList
	}
}

// checkJournalCleared checks that the journal no longer lists changes that were undone.
func checkJournalCleared(t testing.TB, r run, out outcome) {
	j, err := journal.Open(r.machine, r.store, journal.RunID{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range out.did {
		if j.WasCreated(c.Target()) && !isIrreversible(c) {
			t.Errorf("the journal still lists %s", c.Target())
		}
	}
}
