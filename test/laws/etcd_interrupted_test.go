package laws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// Between an interrupted run of restore, rejoin or recover and the next one the members may change: they
// come back, or are removed by another node.

const ownPeer = "https://192.0.2.10:2380"

var allLost = etcddata.Options{Lost: []string{"cp2", "cp3"}}

// readExchange is what an interrupted run has stored; nil if nothing.
func readExchange(t testing.TB, m *fake.World) *etcddata.Exchange {
	t.Helper()
	x, err := etcddata.Read(t.Context(), m, node.DefaultPaths())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// electingEtcd is an etcd that does not list its members at the first request.
type electingEtcd struct {
	world.World
	asked int
}

func (w *electingEtcd) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if w.asked++; w.asked == 1 {
		return nil, errors.New("etcdserver: no leader")
	}
	return w.World.Members(ctx, via)
}

func (w *electingEtcd) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, w) }
	return w.World.Await(ctx, c)
}

// A recover that had not forced a new cluster yet forces none if the members that were declared lost are
// back, even if one read fails, and leaves nothing that other commands would have to wait for.
func TestResumedRecoverFindsMembersBack(t *testing.T) {
	s := recoverSubjectOf(allLost)
	for name, c := range map[string]struct {
		back func(*fake.World)
		word string // of the error; empty if there is nothing to recover
	}{
		"a quorum": {back: func(m *fake.World) { m.UnreachableMembers = nil }},
		"a quorum without this node's member": {func(m *fake.World) { m.UnreachableMembers = []uint64{1} },
			"the other members of etcd have a quorum"},
		"one of them": {func(m *fake.World) { m.UnreachableMembers, m.PeersOnly = []uint64{1, 3}, []uint64{1} },
			"the etcd member of cp2 answers"},
	} {
		resumed := 0
		s.forEachKill(t, func(r killedRun) {
			m := r.machine
			if readExchange(t, m) == nil || strings.Contains(string(m.Files[etcdYAML].Data), "force-new-cluster") ||
				len(m.MemberList) == 1 {
				return
			}
			resumed++
			c.back(m)
			r.observe = func(below world.World) world.World { return &electingEtcd{World: below} }
			// what the other commands print has no flags
			r.phases = workflow.RecoverEtcd(etcddata.Options{})
			again := r.rerun().execute(t)
			if c.word == "" && again.err != nil ||
				c.word != "" && (again.err == nil || !strings.Contains(again.err.Error(), c.word)) {
				t.Errorf("%s, %s: %v", name, r.name, again.err)
			}
			if len(m.MemberList) != 3 || slices.ContainsFunc(again.did, isForcing) {
				t.Errorf("%s, %s: a new cluster was forced, of %v", name, r.name, memberNames(m))
			}
			if x := readExchange(t, m); x != nil {
				t.Errorf("%s, %s: the exchange %+v is left", name, r.name, x)
			}
			for file := range m.Files {
				if strings.Contains(file, "/kubeadm-journal/replacing") {
					t.Errorf("%s, %s: %s is left", name, r.name, file)
				}
			}
		})
		if resumed == 0 {
			t.Error("no run was killed between its record and the forced manifest")
		}
	}
}

func isForcing(c change.Change) bool {
	w, ok := c.(change.WriteFile)
	return ok && w.Path == etcdYAML && strings.Contains(string(w.Data), "--force-new-cluster")
}

// A restore without a quorum that did not run etcd with the restored data yet does not do so if the members
// that were declared lost have a quorum by then. The previous data can be put back.
func TestResumedRestoreFindsMembersBack(t *testing.T) {
	s := restoreSubject(allLost)
	s.machine = machineWithoutQuorum
	resumed := map[etcddata.Stage]int{}
	s.forEachKill(t, func(r killedRun) {
		m := r.machine
		_, starts := m.Files[etcdYAML]
		x := readExchange(t, m)
		if x == nil || x.Stage != etcddata.Exchanging && (x.Stage != etcddata.Starting || starts) {
			return
		}
		resumed[x.Stage]++
		m.UnreachableMembers = []uint64{1}
		again := r.rerun().execute(t)
		const word = "the other members of etcd have a quorum"
		if again.err == nil || !strings.Contains(again.err.Error(), word) ||
			!slices.Contains(problem.Hints(again.err), "to put the previous data back: kubeadm etcd restore --undo") {
			t.Errorf("%s: %v, %q", r.name, again.err, problem.Hints(again.err))
		}
		if len(again.did) > 0 || len(m.MemberList) != 3 {
			t.Errorf("%s: it has gone on: %v", r.name, describeChanges(again.did))
		}
		back := restoreSubject(etcddata.Options{Undo: true}).newRun(m)
		said := printed(back.mustSucceed(t))
		if string(m.Files[memberDir+"/db"].Data) != "previous" || len(m.MemberList) != 3 {
			t.Errorf("%s: the previous data are not in use", r.name)
		}
		_, exists := m.Files[x.NotStarted()]
		if strings.Contains(said, "-not-started") != exists {
			t.Errorf("%s: there are data in %s: %v; it says %q", r.name, x.NotStarted(), exists, said)
		}
	})
	if resumed[etcddata.Exchanging] == 0 || resumed[etcddata.Starting] == 0 {
		t.Errorf("runs were killed at %v", resumed)
	}
}

// interruptedRejoinSubject is "kubeadm etcd rejoin" of a damaged member of three.
func interruptedRejoinSubject() subject {
	s := rejoinSubject()
	s.machine = func(t testing.TB) *fake.World {
		m := machineOfThree(t)
		data := m.Files[etcdYAML]
		data.Data = []byte(strings.Replace(string(data.Data), "cp1=https://192.0.2.10:2380",
			"cp1=https://192.0.2.10:2380,cp2=https://192.0.2.11:2380", 1))
		m.Files[etcdYAML] = data
		m.MemberProblems = []string{"memberID:1 alarm:CORRUPT "}
		return m
	}
	return s
}

// publishOwn gives this machine's member, if it has started, the name that it publishes.
func publishOwn(m *fake.World) {
	for i, one := range m.MemberList {
		if _, started := m.Files[memberDir]; started && slices.Contains(one.PeerURLs, ownPeer) {
			m.MemberList[i].Name, m.MemberList[i].ClientURLs = "cp1", []string{"https://192.0.2.10:2379"}
		}
	}
}

// The data that a rejoin has brought are the newest once its member votes: recover keeps them. Those of a
// learner, which may be incomplete, are replaced by older ones only if the user agrees.
func TestRecoverKeepsRejoinedData(t *testing.T) {
	s := interruptedRejoinSubject()
	var voters, learners, absent int
	s.forEachKill(t, func(r killedRun) {
		m := r.machine
		x := readExchange(t, m)
		if x == nil || x.Stage != etcddata.Starting {
			return
		}
		m.MemberProblems, m.UnreachableMembers = nil, []uint64{2, 3}
		publishOwn(m)
		kept := x.Kept + "/db"
		if _, brought := m.Files[memberDir]; !brought {
			m.MemberList = machineOfThree(t).MemberList // as the kept data know it
			if absent++; absent == 1 {
				checkRecoverResumes(t, m.Clone())
			}
			recoverSubjectOf(allLost).newRun(m).mustSucceed(t)
			checkRecoveredEtcd(t, m)
			return
		}
		m.Files[memberDir+"/db"] = memory.File{Data: []byte("brought"), Mode: 0o600}
		var asked []string
		o := allLost
		o.Ask = func(_ context.Context, what string) error {
			asked = append(asked, what)
			if strings.Contains(what, x.Kept) {
				return errors.New("the user does not agree")
			}
			return nil
		}
		again := recoverSubjectOf(o).newRun(m).execute(t)
		if string(m.Files[memberDir+"/db"].Data) != "brought" || string(m.Files[kept].Data) != "previous" {
			t.Errorf("%s: the data in use are %q", r.name, m.Files[memberDir+"/db"].Data)
		}
		own := slices.IndexFunc(m.MemberList, func(m state.Member) bool { return slices.Contains(m.PeerURLs, ownPeer) })
		if own >= 0 && m.MemberList[own].Learner {
			learners++
			if again.err == nil || len(asked) != 1 || !strings.Contains(asked[0], memberDir) ||
				!strings.Contains(asked[0], x.NotStarted()) {
				t.Errorf("%s: asked %q, then %v", r.name, asked, again.err)
			}
			return
		}
		voters++
		if again.err != nil || len(m.MemberList) != 1 || len(asked) != 1 {
			t.Errorf("%s: members %v, asked %q, %v", r.name, memberNames(m), asked, again.err)
		}
	})
	if (voters == 0 || learners == 0 || absent == 0) && !testing.Short() {
		t.Errorf("killed with %d voters, %d learners, %d times without data", voters, learners, absent)
	}
}

// checkRecoverResumes kills a recover that puts the data back at each change. The same command ends as one
// run, and so does the rejoin if the other members are back by then.
func checkRecoverResumes(t *testing.T, m *fake.World) {
	t.Helper()
	s := recoverSubjectOf(allLost)
	s.machine = func(testing.TB) *fake.World { return m.Clone() }
	var undoing int
	s.forEachKill(t, func(r killedRun) {
		if x := readExchange(t, r.machine); x != nil && x.Stage == etcddata.Undoing {
			undoing++
			back := r.machine.Clone()
			back.UnreachableMembers = nil
			rejoined := rejoinSubject().newRun(back)
			rejoined.mustSucceed(t)
			checkExchanged(t, back, "cp2", "cp3", "cp1")
		}
		r.rerun().mustSucceed(t)
		checkRecoveredEtcd(t, r.machine)
	})
	if undoing == 0 && !testing.Short() {
		t.Error("no run was killed while it put the data back")
	}
}

// Whether the data that a rejoin has brought are complete is not known if etcd does not run: nothing is
// replaced then.
func TestRecoverAfterRejoinWithoutEtcd(t *testing.T) {
	s := interruptedRejoinSubject()
	refused := 0
	s.forEachKill(t, func(r killedRun) {
		m := r.machine
		x := readExchange(t, m)
		if _, brought := m.Files[memberDir]; x == nil || x.Stage != etcddata.Starting || !brought {
			return
		}
		refused++
		m.MemberProblems, m.UnreachableMembers = nil, nil
		publishOwn(m)
		for _, one := range m.MemberList {
			m.UnreachableMembers = append(m.UnreachableMembers, one.ID)
		}
		before := m.Snapshot()
		err := recoverSubjectOf(allLost).newRun(m).execute(t).err
		if err == nil || !strings.Contains(err.Error(), "it is not known whether they are complete") {
			t.Errorf("%s: %v", r.name, err)
		}
		if before != m.Snapshot() {
			t.Errorf("%s: it changed the machine", r.name)
		}
	})
	if refused == 0 {
		t.Error("no run was killed with new data")
	}
}

// staleEtcd is an etcd that cannot start with the data of a member that was removed.
type staleEtcd struct {
	world.World
	machine *fake.World
}

const staleFile = memberDir + "/of-the-removed-member"

func (w *staleEtcd) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	all, err := w.World.Members(ctx, via)
	_, isStale := w.machine.Files[staleFile]
	for i, m := range all {
		if isStale && slices.Contains(m.PeerURLs, ownPeer) {
			all[i].Name, all[i].ClientURLs = "", nil
		}
	}
	return all, err
}

func (w *staleEtcd) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, w) }
	return w.World.Await(ctx, c)
}

// A rejoin whose member was removed after it had started begins again, with other data and another ID, also
// if a run in between has added a member that cannot start with the data.
func TestResumedRejoinAfterRemoval(t *testing.T) {
	s := rejoinSubject()
	for name, isAdded := range map[string]bool{"removed": false, "added again": true} {
		resumed := 0
		s.forEachKill(t, func(r killedRun) {
			m := r.machine
			x := readExchange(t, m)
			if _, brought := m.Files[memberDir]; x == nil || x.Stage != etcddata.Starting || !brought {
				return
			}
			resumed++
			m.Files[staleFile] = memory.File{Data: []byte("x"), Mode: 0o600}
			m.MemberList = slices.DeleteFunc(m.MemberList, func(m state.Member) bool { return slices.Contains(m.PeerURLs, ownPeer) })
			if isAdded {
				m.MemberList = append(m.MemberList, state.Member{ID: 500, PeerURLs: []string{ownPeer}, Learner: true})
			}
			r.observe = func(below world.World) world.World { return &staleEtcd{World: below, machine: m} }
			again := r.rerun().execute(t)
			if again.err != nil {
				t.Errorf("%s, %s: %v", name, r.name, again.err)
				return
			}
			checkExchanged(t, m, "cp2", "cp1")
			if last := m.MemberList[len(m.MemberList)-1]; last.ID == 500 {
				t.Errorf("%s, %s: etcd has started without its data, and with the same ID", name, r.name)
			}
			if _, isStale := m.Files[staleFile]; isStale {
				t.Errorf("%s, %s: the data of the removed member are in use", name, r.name)
			}
		})
		if resumed == 0 {
			t.Errorf("%s: no run was killed with new data", name)
		}
	}
}

// removingEtcd is an etcd from which another node removes this machine's learner while it catches up.
type removingEtcd struct {
	world.World
	machine *fake.World
	removed bool
}

func (w *removingEtcd) Await(ctx context.Context, c world.Condition) error {
	if strings.HasSuffix(c.Name, "to catch up with the others") && !w.removed {
		w.removed = true
		w.machine.MemberList = slices.DeleteFunc(w.machine.MemberList,
			func(m state.Member) bool { return slices.Contains(m.PeerURLs, ownPeer) })
	}
	return w.World.Await(ctx, c)
}

// If the learner is removed while a rejoin waits for it, the same command adds it again, as the error says.
func TestRejoinWhoseLearnerIsRemoved(t *testing.T) {
	s := rejoinSubject()
	r := s.newRun(s.machine(t))
	etcd := &removingEtcd{machine: r.machine}
	r.observe = func(below world.World) world.World { etcd.World = below; return etcd }
	err := r.execute(t).err
	hints := strings.Join(problem.Hints(err), "\n")
	if err == nil || !strings.Contains(err.Error(), "it has been removed from etcd in the meantime") ||
		hints != "re-run the command, which adds it again" {
		t.Errorf("%v, %q", err, hints)
	}
	r.rerun().mustSucceed(t)
	checkExchanged(t, r.machine, "cp2", "cp1")
}

// A restore that was killed between the removal of the other members and its record names them in the end.
func TestRestoreNamesRemovedMembers(t *testing.T) {
	s := restoreSubject(etcddata.Options{})
	s.machine = func(t testing.TB) *fake.World {
		m := machineOfThree(t)
		for _, name := range []string{"cp1", "cp2", "cp3"} {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(state.NodeKind)
			u.SetName(name)
			u.SetLabels(map[string]string{node.ControlPlaneLabel: ""})
			u.SetCreationTimestamp(metav1.Time{})
			if err := m.PutObject(u); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	out := s.newRun(s.machine(t)).mustSucceed(t)
	const want = "that still has its machine (cp2, cp3)"
	if !strings.Contains(printed(out), want) {
		t.Errorf("%q is not in %s", want, printed(out))
	}
	resumed := 0
	s.forEachKill(t, func(r killedRun) {
		if len(r.machine.MemberList) == 3 || readExchange(t, r.machine) != nil {
			return
		}
		resumed++
		if said := printed(r.rerun().mustSucceed(t)); !strings.Contains(said, want) {
			t.Errorf("%s: %q is not in %s", r.name, want, said)
		}
	})
	if resumed == 0 {
		t.Error("no run was killed between the removals and the record")
	}
	r := s.newRun(s.machine(t))
	r.fault = &fault.World{At: slices.IndexFunc(out.did, func(c change.Change) bool {
		m, ok := c.(change.SetMember)
		return ok && strings.Contains(m.PeerURL, "192.0.2.12")
	})}
	err := r.execute(t).err
	if err == nil || !slices.ContainsFunc(problem.Hints(err), func(hint string) bool {
		return strings.HasSuffix(hint, "kubeadm etcd rejoin on the nodes of cp2, cp3")
	}) {
		t.Errorf("a removal fails: %v, %q", err, problem.Hints(err))
	}
}

// That no snapshot can be saved before the data are changed is part of the question.
func TestRecoverAsksWithoutSnapshot(t *testing.T) {
	for _, serves := range []bool{true, false} {
		var asked string
		o := allLost
		o.Ask = func(_ context.Context, what string) error { asked = what; return nil }
		r := recoverSubjectOf(o).newRun(machineWithoutQuorum(t))
		if !serves {
			r.machine.UnreachableMembers, r.machine.PeersOnly = []uint64{1, 2, 3}, []uint64{1}
		}
		out := r.mustSucceed(t)
		if strings.Contains(asked, "No snapshot can be saved before") == serves {
			t.Errorf("etcd serves clients: %v; it asks %q", serves, asked)
		}
		saved := slices.ContainsFunc(out.did, func(c change.Change) bool { _, ok := c.(change.SaveSnapshot); return ok })
		if saved != serves {
			t.Errorf("etcd serves clients: %v; a snapshot was saved: %v", serves, saved)
		}
		if warned := slices.ContainsFunc(out.events, func(e engine.Event) bool {
			return e.Kind == engine.Warned && strings.Contains(e.Text, "no snapshot is saved")
		}); warned == serves {
			t.Errorf("etcd serves clients: %v; warned: %v", serves, warned)
		}
	}
}
