package reset_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const etcdPod = `apiVersion: v1
kind: Pod
metadata:
  name: etcd
  annotations: {kubeadm.kubernetes.io/etcd.advertise-client-urls: https://192.0.2.1:2379}
spec:
  containers:
  - command:
    - etcd
    - --advertise-client-urls=https://192.0.2.1:2379
    - --initial-advertise-peer-urls=https://192.0.2.1:2380
    - --initial-cluster=%s
    - --trusted-ca-file=/certs/etcd/ca.crt
  volumes:
  - {name: etcd-data, hostPath: {path: /var/lib/etcd}}
`

// scene is a control plane, cp1, that is reset.
type scene struct {
	*fake.World
	e        *engine.Env
	intent   *node.Reset
	lines    []string
	leaves   []change.SetMember // that were carried out, or refused
	removals []change.Remove

	leaderless bool    // the members answer that etcd has no leader
	unanswered int     // how many of the next member lists fail
	refused    []error // by etcd, one for each of the next removals; nil: carried out
	meanwhile  func()  // is called with each refusal
}

// Members fails while etcd elects a leader.
func (s *scene) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if s.unanswered > 0 {
		s.unanswered--
		return nil, errors.New("etcdserver: no leader")
	}
	return s.World.Members(ctx, via)
}

// MemberStatus has a problem while etcd elects a leader.
func (s *scene) MemberStatus(ctx context.Context, via state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	status, err := s.World.MemberStatus(ctx, via, m)
	if s.leaderless {
		status.Problems = []string{"etcdserver: no leader"}
	}
	return status, err
}

// Await reads from the scene and not from the fake World in it.
func (s *scene) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, s) }
	return s.World.Await(ctx, c)
}

// Do records removals, and the members that are asked to remove a member.
func (s *scene) Do(ctx context.Context, c change.Change) error {
	if remove, ok := c.(change.Remove); ok {
		s.removals = append(s.removals, remove)
	}
	if set, ok := c.(change.SetMember); ok {
		s.leaves = append(s.leaves, set)
		if len(s.refused) > 0 {
			err := s.refused[0]
			s.refused = s.refused[1:]
			s.meanwhile()
			return err
		}
	}
	return s.World.Do(ctx, c)
}

// newScene returns cp1 without an API server. initial is its --initial-cluster.
func newScene(initial string, members ...state.Member) *scene {
	s := &scene{World: fake.New()}
	s.Services["kubelet"] = state.Service{Exists: true, Active: true}
	s.Files["/etc/kubernetes/manifests/etcd.yaml"] = memory.File{Data: fmt.Appendf(nil, etcdPod,
		initial), Mode: 0o600}
	for _, dir := range []string{"/var", "/var/lib", "/var/lib/etcd", "/var/lib/etcd/member"} {
		s.Files[dir] = memory.File{Mode: fs.ModeDir | 0o700}
	}
	s.MemberList = members
	s.Interfaces = []state.Address{{IP: "192.0.2.1", Interface: "eth0", DefaultRoute: true}}
	s.intent = &node.Reset{}
	s.e = engine.New(engine.Env{World: s, Intent: s.intent, Local: node.Local{Paths: node.DefaultPaths()},
		Emit: func(e engine.Event) {
			s.lines = append(s.lines, fmt.Sprintf("%s: %s", e.Kind, e.Text))
		}})
	s.e.Admin = func(context.Context) (state.Identity, error) {
		return state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"}, nil
	}
	return s
}

func (s *scene) reset(t *testing.T) {
	t.Helper()
	if err := reset.Etcd.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	if _, there := s.Files["/var/lib/etcd/member"]; there {
		t.Error("the data are still there")
	}
}

func (s *scene) said(text string) bool {
	return slices.ContainsFunc(s.lines,
		func(line string) bool { return strings.Contains(line, text) })
}

// member returns the member of cp1, cp2 and so on.
func member(id uint64) state.Member {
	host := fmt.Sprintf("https://192.0.2.%d", id)
	return state.Member{ID: id, Name: fmt.Sprintf("cp%d", id), PeerURLs: []string{host + ":2380"},
		ClientURLs: []string{host + ":2379"}}
}

func learner(id uint64) state.Member {
	m := member(id)
	m.Learner = true
	return m
}

const alone, both = "cp1=https://192.0.2.1:2380",
	"cp2=https://192.0.2.2:2380,cp1=https://192.0.2.1:2380"

func TestMemberIsRemovedThroughOthers(t *testing.T) {
	for name, c := range map[string]struct {
		initial string
		members []state.Member
		silent  []uint64
		asked   string // endpoints; empty if no member is to be removed
		says    string
		warns   int
	}{
		"one of three": {alone, []state.Member{member(1), member(2), member(3)}, nil,
			"[https://192.0.2.2:2379 https://192.0.2.3:2379]", "through cp2, cp3", 0},
		"it is down itself": {both, []state.Member{member(1), member(2), member(3)},
			[]uint64{1}, "[https://192.0.2.2:2379 https://192.0.2.3:2379]", "through cp2, cp3", 0},
		"another is down": {alone,
			[]state.Member{member(1), member(2), member(3), member(4)}, []uint64{3},
			"[https://192.0.2.2:2379 https://192.0.2.4:2379 https://192.0.2.3:2379]", "through cp",
			0},
		"it has no vote yet": {both, []state.Member{learner(1), member(2)}, []uint64{1},
			"[https://192.0.2.2:2379]", "through cp2", 0},
		"it costs the quorum": {alone, []state.Member{member(1), member(2), member(3)},
			[]uint64{3}, "[https://192.0.2.2:2379 https://192.0.2.3:2379]",
			"1 of 2 voting etcd members are healthy, and a quorum needs 2: getting the status of etcd member cp3",
			4},
		"there is no quorum": {alone, []state.Member{member(1), member(2)}, []uint64{2},
			"[https://192.0.2.2:2379]",
			"remove it on another control plane node: kubeadm etcd members remove 1", 4},
		"no member answers": {both, []state.Member{member(1), member(2)}, []uint64{1, 2}, "",
			"looking for the other members", 2},
		"it is the last": {alone, []state.Member{member(1)}, nil, "",
			"this is the last voting etcd member", 0},
		"it alone has a vote": {alone, []state.Member{member(1), learner(2)}, nil, "",
			"this is the last voting etcd member", 0},
		"it was removed before": {both, []state.Member{member(2), member(3)}, nil, "",
			"is no longer in the etcd cluster", 0},
		"the first, and it's down": {alone, []state.Member{member(1), member(2)}, []uint64{1}, "",
			"connection refused", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(c.initial, c.members...)
			s.UnreachableMembers = c.silent
			s.reset(t)
			asked := ""
			for _, l := range s.leaves {
				asked += fmt.Sprint(l.Via.Endpoints)
				if l.PeerURL != "https://192.0.2.1:2380" || l.State != change.Absent ||
					l.Via.Serializable || l.Via.CAFile != "/certs/etcd/ca.crt" {
					t.Errorf("asked for %+v", l)
				}
			}
			warns := 0
			for _, line := range s.lines {
				if strings.HasPrefix(line, "warning: ") {
					warns++
				}
			}
			if asked != c.asked || warns != c.warns || !s.said(c.says) {
				t.Errorf("asked %s, want %s, to remove it; %d warnings, want %d; want %q in\n%s",
					asked, c.asked, warns, c.warns, c.says, strings.Join(s.lines, "\n"))
			}
		})
	}
}

// What one check does not find out, while etcd elects a leader, the next one does.
func TestMemberIsRemovedDuringElection(t *testing.T) {
	for _, initial := range []string{alone, both} {
		for unanswered := range 12 {
			s := newScene(initial, member(1), member(2), member(3))
			s.unanswered = unanswered
			s.reset(t)
			if len(s.MemberList) != 2 || s.MemberList[0].ID != 2 {
				t.Errorf("%d unanswered: members left: %v\n%s", unanswered, s.MemberList,
					strings.Join(s.lines, "\n"))
			}
		}
	}
}

// A removal that fails is retried through the members of that moment.
func TestRemovalIsRetried(t *testing.T) {
	noLeader := errors.New("etcdserver: no leader")
	for name, c := range map[string]struct {
		refused   []error
		meanwhile func(s *scene)
		asked     int
		left      []uint64
		says      string
	}{
		"the leader comes back": {[]error{noLeader, noLeader}, func(*scene) {}, 3, []uint64{2, 3},
			"retrying: "},
		"another leaves at the same time": {[]error{noLeader}, func(s *scene) {
			s.MemberList = []state.Member{member(1), member(3)}
		}, 2, []uint64{3}, "retrying: "},
		"all others have left": {[]error{noLeader}, func(s *scene) {
			s.MemberList = []state.Member{member(1)}
		}, 1, []uint64{1}, "this is the last voting etcd member"},
		"the answer was lost": {[]error{noLeader}, func(s *scene) {
			s.MemberList = []state.Member{member(2), member(3)}
		}, 1, []uint64{2, 3}, "is no longer in the etcd cluster"},
		"etcd refuses for good": {[]error{change.ErrWouldLoseQuorum}, func(*scene) {}, 1,
			[]uint64{1, 2, 3}, "kubeadm etcd members remove 1"},
		"it never succeeds": {slices.Repeat([]error{noLeader}, 99), func(*scene) {}, 10,
			[]uint64{1, 2, 3}, "kubeadm etcd members remove 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(alone, member(1), member(2), member(3))
			s.refused, s.meanwhile = c.refused, func() { c.meanwhile(s) }
			s.reset(t)
			var left []uint64
			for _, m := range s.MemberList {
				left = append(left, m.ID)
			}
			if len(s.leaves) != c.asked || !slices.Equal(left, c.left) || !s.said(c.says) {
				t.Errorf("asked %d times, want %d; left are %v, want %v; want %q in\n%s",
					len(s.leaves), c.asked, left, c.left, c.says, strings.Join(s.lines, "\n"))
			}
		})
	}
}

// Members that do not answer for long mean that the quorum is lost: the reset continues sooner
// than after timeouts.etcdAPICall. Members that elect a leader answer, and the reset waits for
// them.
func TestLostQuorumAndElection(t *testing.T) {
	for name, c := range map[string]struct {
		silent      []uint64
		leaderless  bool
		backAfter   time.Duration // zero: never
		least, most time.Duration
		left        int
	}{
		"two of three are gone": {[]uint64{2, 3}, false, 0, 40 * time.Second, 60 * time.Second,
			3},
		"only one of them answers": {[]uint64{2, 3}, true, 0, 40 * time.Second, 60 * time.Second,
			3},
		"they are back in time": {[]uint64{2, 3}, false, 30 * time.Second, 30 * time.Second,
			45 * time.Second, 2},
		"they elect a leader": {nil, true, 70 * time.Second, 70 * time.Second, 85 * time.Second,
			2},
		"one elects beside them": {[]uint64{3}, true, 70 * time.Second, 70 * time.Second,
			85 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(alone, member(1), member(2), member(3))
			s.UnreachableMembers, s.leaderless = c.silent, c.leaderless
			if c.leaderless {
				s.refused, s.meanwhile = []error{errors.New("etcdserver: no leader")}, func() {}
			}
			begun := s.Now()
			now := begun
			s.Clock = func() time.Time {
				if now = now.Add(time.Second / 2); c.backAfter > 0 &&
					now.Sub(begun) >= c.backAfter {
					s.UnreachableMembers, s.leaderless = nil, false
				}
				return now
			}
			s.reset(t)
			if lasted := now.Sub(begun); lasted < c.least || lasted > c.most ||
				len(s.MemberList) != c.left {
				t.Errorf("%d members are left after %s, want %d after %s to %s\n%s",
					len(s.MemberList), lasted, c.left, c.least, c.most,
					strings.Join(s.lines, "\n"))
			}
		})
	}
}

// A clone of a control plane has the manifest and certificates of the original's member.
func TestMemberOfAnotherMachineIsNotRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		here []string // addresses of this machine
		peer string
		asks bool
	}{
		"the member's address": {[]string{"192.0.2.7", "192.0.2.1"},
			"https://192.0.2.1:2380", true},
		"another address": {[]string{"192.0.2.7"}, "https://192.0.2.1:2380", false},
		"no address":      {nil, "https://192.0.2.1:2380", false},
		"the member's IPv6 address": {[]string{"2001:db8::1"}, "https://[2001:db8:0::1]:2380",
			true},
		"another IPv6 address": {[]string{"2001:db8::2"}, "https://[2001:db8::1]:2380",
			false},
		"a name of this machine":    {[]string{"192.0.2.10"}, "https://cp1:2380", true},
		"a name of another machine": {[]string{"192.0.2.7"}, "https://cp1:2380", false},
		"a name that does not resolve": {[]string{"192.0.2.10"}, "https://none.example:2380",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			original := member(1)
			original.PeerURLs = []string{c.peer}
			s := newScene(alone, original, member(2), member(3))
			file := s.Files["/etc/kubernetes/manifests/etcd.yaml"]
			file.Data = []byte(strings.ReplaceAll(string(file.Data), "https://192.0.2.1:2380",
				c.peer))
			s.Files["/etc/kubernetes/manifests/etcd.yaml"] = file
			s.Interfaces = nil
			for _, ip := range c.here {
				s.Interfaces = append(s.Interfaces, state.Address{IP: ip, Interface: "eth0"})
			}
			s.reset(t)
			if asked := len(s.leaves) > 0; asked != c.asks || asked != (len(s.MemberList) == 2) {
				t.Errorf("asked: %v, members: %v\n%s", asked, s.MemberList,
					strings.Join(s.lines, "\n"))
			}
			if !c.asks && (!s.said("but this machine does not: it may be a clone") ||
				!s.said("kubeadm etcd members remove 1")) {
				t.Errorf("the user is not told why and what to do:\n%s",
					strings.Join(s.lines, "\n"))
			}
		})
	}
}

// The manifest of the first control plane names no other members. If its member is down, the API
// server at the shared endpoint may know them.
func TestMembersFromAPIServer(t *testing.T) {
	s := newScene(alone, member(1), member(2), member(3))
	s.UnreachableMembers, s.RemoteAPIServer = []uint64{1}, true
	for id := range uint64(3) {
		m := member(id + 1)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "etcd-" + m.Name, Namespace: "kube-system",
			Labels:      map[string]string{"component": "etcd", "tier": "control-plane"},
			Annotations: map[string]string{manifest.EtcdURLAnnotation: m.ClientURLs[0]},
		}}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		if err := s.World.Do(t.Context(), change.ApplyObject{Object: pod}); err != nil {
			t.Fatal(err)
		}
	}
	s.reset(t)
	if len(s.leaves) != 1 || len(s.MemberList) != 2 {
		t.Errorf("members left: %v\n%s", s.MemberList, strings.Join(s.lines, "\n"))
	}
}

// A join that was stopped right after it had added its learner leaves no manifest of etcd. The
// learner's address is that of the API server, in its manifest or in the kubeconfig of
// kube-controller-manager.
func TestMemberWithoutManifestIsRemoved(t *testing.T) {
	asks, err := pki.KubeconfigSpec{Server: "https://192.0.2.1:6443", Cluster: "c",
		User: "u"}.WithToken("").Encode()
	if err != nil {
		t.Fatal(err)
	}
	server := []byte(strings.ReplaceAll(fmt.Sprintf(etcdPod, alone), "- etcd\n",
		"- kube-apiserver\n    - --advertise-address=192.0.2.1\n"))
	for name, data := range map[string][]byte{"manifests/kube-apiserver.yaml": server,
		"controller-manager.conf": asks} {
		unstarted := state.Member{ID: 1, PeerURLs: []string{"https://192.0.2.1:2380"},
			Learner: true}
		s := newScene(alone, unstarted, member(2))
		s.RemoteAPIServer = true
		s.Files["/etc/kubernetes/"+name] = memory.File{Data: data, Mode: 0o600}
		delete(s.Files, "/etc/kubernetes/manifests/etcd.yaml")
		s.Files["/etc/kubernetes/pki/etcd/server.crt"] = memory.File{Mode: 0o644}
		s.reset(t)
		if len(s.leaves) != 1 || len(s.MemberList) != 1 {
			t.Errorf("%s: members left: %v\n%s", name, s.MemberList, strings.Join(s.lines, "\n"))
		}
	}
}
