package defrag

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// machine is a control plane node with three fragmented members, the first of which leads.
type machine struct {
	*fake.World
	after func(change.Change) // is called after each change
	did   []change.Change
	renew bool // the holder of the Lease renews it all the time
	reads int
}

func newMachine() *machine {
	m := &machine{World: fake.New(), after: func(change.Change) {}}
	m.RemoteAPIServer = true
	m.MemberStatuses = map[uint64]state.MemberStatus{}
	for i := range uint64(3) {
		host := fmt.Sprintf("https://192.0.2.%d", 10+i)
		m.MemberList = append(m.MemberList, state.Member{ID: i + 1, Name: fmt.Sprintf("cp%d", i+1),
			PeerURLs: []string{host + ":2380"}, ClientURLs: []string{host + ":2379"}})
		m.MemberStatuses[i+1] = state.MemberStatus{AppliedIndex: 100, CommittedIndex: 100, Leader: 1, Revision: 50,
			DBSize: 400 << 20, DBInUse: 100 << 20, DBQuota: 2 << 30}
	}
	for name, args := range map[string]string{"kube-apiserver": `"--etcd-servers=https://192.0.2.10:2379"`,
		"etcd": `"--advertise-client-urls=https://192.0.2.10:2379"`} {
		m.Files["/etc/kubernetes/manifests/"+name+".yaml"] = memory.File{Data: fmt.Appendf(nil,
			"metadata: {name: %s}\nspec: {containers: [{name: %[1]s, command: [%[1]s, %s]}]}", name, args)}
	}
	return m
}

func (m *machine) Do(ctx context.Context, c change.Change) error {
	if err := m.World.Do(ctx, c); err != nil {
		return err
	}
	m.did = append(m.did, c)
	m.after(c)
	return nil
}

func (m *machine) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	u, err := m.World.Object(ctx, ref)
	if err == nil && m.renew {
		m.reads++
		err = unstructured.SetNestedField(u.Object, fmt.Sprintf("2026-11-25T12:00:00.%06dZ", m.reads), "spec", "renewTime")
	}
	return u, err
}

func (m *machine) Await(ctx context.Context, c world.Condition) error {
	var err error
	for range 5 {
		if err = c.Check(ctx, m); err == nil || world.IsPermanent(err) {
			break
		}
	}
	return err
}

// defragmented returns the names of the members in their order.
func (m *machine) defragmented() (names []string) {
	for _, c := range m.did {
		if d, ok := c.(change.Defragment); ok {
			names = append(names, d.Member.Name)
		}
	}
	return names
}

func (m *machine) lockedBy(t *testing.T, holder string) {
	t.Helper()
	if err := m.AddObjects(fmt.Sprintf("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: %s, namespace: kube-system}, "+
		"spec: {holderIdentity: %s, renewTime: '2026-11-25T12:00:00.000000Z'}}", clusterlock.LeaseName, holder)); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) run(t *testing.T) (said string, err error) {
	t.Helper()
	var all []string
	e := engine.New(engine.Env{World: m, Local: node.Local{Name: "cp1", Paths: node.DefaultPaths()},
		Admin: engine.As(state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"}),
		Emit:  func(ev engine.Event) { all = append(all, ev.Text) }})
	err = run(t.Context(), e)
	return strings.Join(all, "\n"), err
}

// The leader is the last one, also if it becomes another member meanwhile.
func TestLeaderIsLast(t *testing.T) {
	m := newMachine()
	m.after = func(c change.Change) {
		if _, ok := c.(change.Defragment); !ok || len(m.defragmented()) > 1 {
			return
		}
		for id, s := range m.MemberStatuses {
			s.Leader = 3
			m.MemberStatuses[id] = s
		}
	}
	if _, err := m.run(t); err != nil {
		t.Fatal(err)
	}
	if got := m.defragmented(); !slices.Equal(got, []string{"cp2", "cp1", "cp3"}) {
		t.Errorf("the order was %v", got)
	}
	var successors []uint64
	for _, c := range m.did {
		if d, ok := c.(change.Defragment); ok {
			successors = append(successors, d.Successor)
		}
	}
	if !slices.Equal(successors, []uint64{0, 0, 1}) { // only a leader has one
		t.Errorf("the successors are %v", successors)
	}
}

// A member that fails while the lock is waited for is noticed before another one is paused.
func TestHealthIsCheckedUnderLock(t *testing.T) {
	m := newMachine()
	m.after = func(c change.Change) {
		if _, ok := c.(change.MutateObject); ok { // takes the lock
			m.UnreachableMembers = []uint64{2}
		}
	}
	if _, err := m.run(t); err == nil || !strings.Contains(err.Error(), "etcd member cp2 is not healthy") ||
		len(m.defragmented()) > 0 {
		t.Errorf("got %v, defragmented %v", err, m.defragmented())
	}
}

// While another node holds the lock, a full cluster is not changed either.
func TestFullClusterIsLocked(t *testing.T) {
	m := newMachine()
	m.lockedBy(t, "cp2")
	m.renew = true
	m.MemberProblems = []string{"memberID:1 alarm:NOSPACE "}
	if _, err := m.run(t); !errors.Is(err, clusterlock.ErrHeld) || len(m.did) > 0 {
		t.Errorf("got %v, did %v", err, m.did)
	}
}

// A lock that another node takes as soon as it can is a proof that writes work.
func TestLockOfOtherNodeProvesWrites(t *testing.T) {
	m := newMachine()
	m.MemberProblems = []string{"memberID:1 alarm:NOSPACE "}
	m.after = func(c change.Change) {
		if _, ok := c.(change.DisarmAlarm); ok {
			m.lockedBy(t, "cp2")
			m.renew = true
		}
	}
	if said, err := m.run(t); err != nil || !strings.Contains(said, "the cluster accepts writes again") {
		t.Errorf("got %v\n%s", err, said)
	}
}

// An alarm that is raised during the run is disarmed too.
func TestLaterAlarmIsDisarmed(t *testing.T) {
	m := newMachine()
	m.MemberProblems = []string{"memberID:1 alarm:NOSPACE "}
	m.after = func(c change.Change) {
		if _, ok := c.(change.CompactHistory); ok {
			m.MemberProblems = append(m.MemberProblems, "memberID:3 alarm:NOSPACE ")
		}
	}
	if _, err := m.run(t); err != nil || len(m.MemberProblems) > 0 {
		t.Errorf("got %v, alarms %q", err, m.MemberProblems)
	}
}

// Writing gigabytes may take longer than the kubelet's patience.
func TestLargeDatabaseIsWarnedOf(t *testing.T) {
	m := newMachine()
	for id, s := range m.MemberStatuses {
		s.DBSize, s.DBInUse = 8<<30, 5<<30
		m.MemberStatuses[id] = s
	}
	if said, err := m.run(t); err != nil || !strings.Contains(said, "etcd member cp2 answers nothing until 5.0 GiB are written") {
		t.Errorf("got %v\n%s", err, said)
	}
}
