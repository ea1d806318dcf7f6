package etcd_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/etcd"
	"kubeadm/internal/world/worldtest"
	"kubeadm/internal/world/worldtest/plane"
)

func TestRealMembers(t *testing.T) {
	e := plane.StartEtcd(t)
	peer := e.PeerURL(t)
	worldtest.Members(t, etcd.New(os.ReadFile), e.Via,
		worldtest.JoiningMember{PeerURL: peer, Start: func() { e.Join(t, peer) }})

	t.Run("a failed endpoint is skipped", func(t *testing.T) {
		via := e.Via
		via.Endpoints = append([]string{"https://127.0.0.1:1"}, via.Endpoints...)
		all, err := listMembersUntil(t, via, "")
		if err != nil || len(all) != 1 || all[0].Name != "first" ||
			all[0].ClientURLs[0] != e.Via.Endpoints[0] {
			t.Errorf("%+v, %v", all, err)
		}
	})
	t.Run("another CA", func(t *testing.T) {
		via := e.Via
		via.CAFile = strings.Replace(via.CAFile, "etcd/ca.crt", "ca.crt", 1)
		wantProblem(t, via, "signed by unknown authority", "belongs to another cluster")
	})
	t.Run("a client certificate of another CA", func(t *testing.T) {
		via := e.Via
		for _, file := range []*string{&via.CertFile, &via.KeyFile} {
			*file = strings.Replace(*file, "etcd/healthcheck-client", "front-proxy-client", 1)
		}
		wantProblem(t, via, "",
			"front-proxy-client.crt: x509: certificate signed by unknown authority")
	})
}

func TestRealMemberRemoval(t *testing.T) {
	e := plane.StartEtcd(t)
	k := etcd.New(os.ReadFile)
	var peers []string
	var kills []func()
	for range 2 {
		peer := e.PeerURL(t)
		for _, state := range []change.MemberState{change.Learner, change.Voter} {
			if err := k.Do(t.Context(),
				change.SetMember{PeerURL: peer, State: state, Via: e.Via}); err != nil {
				t.Fatal(err)
			}
			if state == change.Learner {
				peers, kills = append(peers, peer), append(kills, e.Join(t, peer))
			}
		}
	}
	kills[1]()
	// more than twice the time after which etcd counts a member as connected
	k.RefusalTimeout = 12 * time.Second
	worldtest.MemberRemovals(t, k, e.Via, peers[1])
}

func TestRealQuorumLoss(t *testing.T) {
	e := plane.StartEtcd(t)
	k := etcd.New(os.ReadFile)
	peer := e.PeerURL(t)
	if err := k.Do(t.Context(),
		change.SetMember{PeerURL: peer, State: change.Learner, Via: e.Via}); err != nil {
		t.Fatal(err)
	}
	kill := e.Join(t, peer)
	if err := k.Do(t.Context(),
		change.SetMember{PeerURL: peer, State: change.Voter, Via: e.Via}); err != nil {
		t.Fatal(err)
	}
	kill()
	worldtest.QuorumLoss(t, k, e.Via)
}

func wantProblem(t *testing.T, via state.Etcd, text, hint string) {
	t.Helper()
	_, err := listMembersUntil(t, via, hint)
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v does not contain %q", err, text)
	}
	if hints := strings.Join(problem.Hints(err), "\n"); !strings.Contains(hints, hint) {
		t.Errorf("hints %q of error %v do not contain %q", hints, err, hint)
	}
}

// listMembersUntil lists the members until the error has that hint, or, if it is empty, until
// there is no error: on a busy machine one request may time out earlier.
func listMembersUntil(t *testing.T, via state.Etcd, hint string) (all []state.Member, err error) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		all, err = etcd.New(os.ReadFile).Members(t.Context(), via)
		if hint == "" && err == nil || hint != "" &&
			strings.Contains(strings.Join(problem.Hints(err), "\n"), hint) {
			break
		}
	}
	return all, err
}
