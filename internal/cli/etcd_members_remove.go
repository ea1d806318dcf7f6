package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flag"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

func newRemoveMemberCommand(p *program) *cobra.Command {
	o, yes := &etcdOptions{}, false
	c := &cobra.Command{
		Use:   "remove NAME|ID",
		Short: "Remove a member from etcd",
		Long: `Remove a member that is permanently lost from etcd, by its name or its ID. A member that was added and never started
has only an ID.

The command refuses to remove a member if the remaining ones would have no quorum, and the member of this node. If the
member is healthy, it asks for confirmation: etcd stops on that node, and its API server fails. If the member has changed
by the time the command holds the cluster's lock, it refuses too. To remove a node that still runs, run "kubeadm reset"
on it instead; it removes the member as well.`,
		Example: `  kubeadm etcd members remove cp3

  # a member that has never started has no name
  kubeadm etcd members remove 8e9e05c52164694d`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return problem.New(errors.New("the name or the ID of one member is required"),
				"list the members: kubeadm etcd members")
		},
		ValidArgsFunction: completeMembers(p),
		RunE: func(c *cobra.Command, args []string) error {
			return removeEtcdMember(p, c, o, removal{name: args[0], confirmed: yes})
		},
	}
	targets := o.values()
	targets[flag.Yes] = &yes
	targets.bind(c.Flags())
	return withRunOutput(p, c)
}

// removal is what the user wants to remove.
type removal struct {
	name      string
	confirmed bool
}

func removeEtcdMember(p *program, c *cobra.Command, o *etcdOptions, wanted removal) (err error) {
	ctx := c.Context()
	r, e, here, err := beginEtcdRun(p, c, o)
	if r != nil {
		defer closeRun(r, &err)
	}
	if err != nil {
		return err
	}
	m := here.health.FindByNameOrID(wanted.name)
	if m == nil {
		return problem.New(fmt.Errorf("etcd has no member %s", untrusted.Quote(wanted.name)),
			"list the members: kubeadm etcd members")
	}
	if err := checkMemberRemoval(ctx, e, here, *m); err != nil {
		return err
	}
	name := etcdcluster.MemberName(*m)
	if here.health.Unhealthy[m.ID] == nil && !o.dryRun && !wanted.confirmed {
		if err := confirm(ctx, p, r, fmt.Sprintf("etcd member %s at %s is healthy; without it, the API "+
			"server of its node fails", name, m.PeerURLs), flag.Yes); err != nil {
			return err
		}
	}
	wanted.confirmed = wanted.confirmed || here.health.Unhealthy[m.ID] == nil
	lock := clusterlock.Lock{Node: here.Name, Purpose: "removing etcd member " + name,
		As: []state.Identity{here.As}}
	err = lock.HoldIfReachable(ctx, e, func(ctx context.Context, e *engine.Env) error {
		now, err := wanted.findAgain(ctx, e, here, m.ID)
		if err != nil {
			return err
		}
		e.Say("removing etcd member %s at %s", name, now.PeerURLs)
		return e.Do(ctx, change.SetMember{PeerURL: now.PeerURLs[0], State: change.Absent, Via: here.client.Etcd})
	})
	if err != nil {
		return err
	}
	if r.IsDryRun() {
		e.Say("the dry run is complete: nothing was changed")
		return nil
	}
	e.Say("etcd member %s is removed", name)
	return nil
}

// findAgain returns the member with the ID that the user saw, or an error if it must not be removed any more:
// while the command asked and waited for the lock, another node may have removed it, added one in its place,
// or started it.
func (w removal) findAgain(ctx context.Context, e *engine.Env, here etcdNode, id uint64) (state.Member, error) {
	var err error
	if here.client, here.health, err = here.Etcd(ctx, e); err != nil {
		return state.Member{}, err
	}
	m := here.health.FindByNameOrID(etcdcluster.FormatID(id))
	if m == nil {
		return state.Member{}, problem.New(fmt.Errorf("etcd member %s has the ID %s no longer: it was removed in the "+
			"meantime, and may have been added again", untrusted.Quote(w.name), etcdcluster.FormatID(id)),
			"list the members: kubeadm etcd members")
	}
	if here.health.Unhealthy[id] == nil && !w.confirmed {
		return *m, problem.New(fmt.Errorf("etcd member %s has become healthy in the meantime",
			untrusted.Line(etcdcluster.MemberName(*m))), "to remove it nevertheless, re-run the command")
	}
	return *m, checkMemberRemoval(ctx, e, here, *m)
}

// checkMemberRemoval refuses to remove the member of this machine, and one without which etcd would
// have no quorum.
func checkMemberRemoval(ctx context.Context, e *engine.Env, here etcdNode, m state.Member) error {
	name := etcdcluster.MemberName(m)
	if len(m.PeerURLs) == 0 {
		return fmt.Errorf("etcd member %s has no peer URL", name)
	}
	if !here.client.External {
		own, err := etcdcluster.ReadLocalPeerURLs(ctx, e.World, here.Paths)
		if err == nil {
			own, err = nodeaddress.ListPeerURLs(ctx, e.World, here.Paths, own)
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.PeerURLs, func(url string) bool { return slices.Contains(own, url) }) {
			return problem.New(fmt.Errorf("etcd member %s is the one of this node", name),
				"to remove this node: kubeadm reset",
				"to remove only its member, run the command on another control plane node")
		}
	}
	if err := here.health.CheckRemoval(m); err != nil {
		hints := []string{"start the machines of the unreachable members: kubeadm etcd members"}
		if strings.Contains(err.Error(), "no voting etcd member is left") {
			hints = []string{"add another member first: kubeadm join --control-plane"}
		}
		return problem.During(fmt.Sprintf("etcd member %s cannot be removed", name), err, hints...)
	}
	return nil
}
