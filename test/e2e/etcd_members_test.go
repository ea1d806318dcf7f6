//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// etcdMember is a member as etcdctl prints it.
type etcdMember struct {
	ID        uint64
	Name      string
	PeerURLs  []string
	IsLearner bool
}

// etcdctl runs etcdctl against the member of a control plane. It retries, since requests fail
// during an election.
func etcdctl(t *testing.T, cp *nodes.Node, args ...string) string {
	t.Helper()
	var said string
	await(t, "an answer to etcdctl "+strings.Join(args, " "), waitLimit, func() error {
		result, err := cp.Run(t.Context(), etcdctlCommand(args...)...)
		said = strings.TrimSpace(result.Stdout)
		return err
	})
	return said
}

func etcdctlCommand(args ...string) []string {
	const pki = "/etc/kubernetes/pki/etcd/"
	return append([]string{"etcdctl", "--endpoints=https://127.0.0.1:2379",
		"--cacert=" + pki + "ca.crt",
		"--cert=" + pki + "healthcheck-client.crt", "--key=" + pki + "healthcheck-client.key",
		"--dial-timeout=10s", "--command-timeout=20s"}, args...)
}

// awaitQuorum waits until the member of a control plane is healthy: there is a leader and a
// quorum.
func awaitQuorum(t *testing.T, cp *nodes.Node) {
	t.Helper()
	await(t, "an etcd quorum on "+cp.Name(), waitLimit, func() error {
		_, err := cp.Run(t.Context(), etcdctlCommand("endpoint", "health")...)
		return err
	})
}

func listMembers(t *testing.T, cp *nodes.Node) []etcdMember {
	t.Helper()
	awaitQuorum(t, cp)
	var list struct{ Members []etcdMember }
	if err := json.Unmarshal([]byte(etcdctl(t, cp, "member", "list", "--write-out=json")),
		&list); err != nil {
		t.Fatal(err)
	}
	return list.Members
}

// findLeaderID returns the ID of etcd's leader, 0 while there is none.
func findLeaderID(t *testing.T, cp *nodes.Node) uint64 {
	t.Helper()
	var all []struct{ Status struct{ Leader uint64 } }
	if err := json.Unmarshal([]byte(etcdctl(t, cp, "endpoint", "status", "--write-out=json")),
		&all); err != nil {
		t.Fatal(err)
	}
	return all[0].Status.Leader
}

// moveLeader makes a node's member etcd's leader. The leader may change before the request
// arrives.
func moveLeader(t *testing.T, s *haCluster, n *nodes.Node) {
	t.Helper()
	await(t, n.Name()+" to lead etcd", waitLimit, func() error {
		all, now := listMembers(t, s.cp), findLeaderID(t, s.cp)
		i := slices.IndexFunc(all, func(m etcdMember) bool { return m.ID == now })
		own := slices.IndexFunc(all, func(m etcdMember) bool { return m.Name == n.Name() })
		if i < 0 || own < 0 {
			return fmt.Errorf("the leader is %d of the members %v", now, all)
		}
		if i == own {
			return nil
		}
		_, err := s.Node(all[i].Name).Run(t.Context(),
			etcdctlCommand("move-leader", fmt.Sprintf("%x", all[own].ID))...)
		return errors.Join(fmt.Errorf("the leader is %s", all[i].Name), err)
	})
}

// checkVotingMembers waits until etcd's members are exactly those of these nodes, each a voter at
// its node's address, and all of them healthy.
func checkVotingMembers(t *testing.T, all ...*nodes.Node) {
	t.Helper()
	var want []string
	for _, n := range all {
		want = append(want, n.Name()+" votes at https://"+n.Address()+":2380")
	}
	slices.Sort(want)
	// A member publishes its name some time after it starts.
	await(t, "the members of etcd", waitLimit, func() error {
		if got := describeMembers(t, all[0]); !slices.Equal(got, want) {
			return fmt.Errorf("they are%s\nbut should be%s", indentLines(got), indentLines(want))
		}
		return nil
	})
	await(t, "all etcd members to be healthy", waitLimit, func() error {
		_, err := all[0].Run(t.Context(), etcdctlCommand("endpoint", "health", "--cluster")...)
		return err
	})
}

// describeMembers lists etcd's members with their peer URLs, and whether each is a voter or a
// learner.
func describeMembers(t *testing.T, cp *nodes.Node) []string {
	t.Helper()
	var all []string
	for _, m := range listMembers(t, cp) {
		role := " votes at "
		if m.IsLearner {
			role = " learns at "
		}
		all = append(all, m.Name+role+strings.Join(m.PeerURLs, ","))
	}
	slices.Sort(all)
	return all
}
