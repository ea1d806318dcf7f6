// Package defrag returns the free space of etcd's databases to the file systems, one member at a time,
// and makes a cluster that has run out of space accept writes again.
package defrag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Phase defragments the database of each member, the leader's last. If a member has raised the alarm
// NOSPACE, it first compacts the history of the keys, and at the end disarms the alarm.
var Phase = engine.Phase{
	Name:  "etcd",
	Short: "Return the free space of etcd's databases to the file systems",
	Run:   run,
}

func run(ctx context.Context, e *engine.Env) error {
	as, err := e.Admin(ctx)
	if err != nil {
		return err
	}
	client, err := etcdcluster.ReadClient(ctx, e.World, e.Local.Paths)
	if err != nil {
		return err
	}
	if client.External {
		return problem.New(errors.New("kubeadm does not run the members of an external etcd"),
			"defragment them where they run: etcdctl defrag")
	}
	c := cluster{Client: client, timeout: cmp.Or(e.Local.Timeouts.EtcdAPI, 2*time.Minute)}
	alarms, err := c.awaitHealth(ctx, e)
	if err != nil {
		return problem.New(err, "check the members: kubeadm etcd members")
	}
	lock := clusterlock.Lock{Node: e.Local.Name, Purpose: "defragmenting etcd", As: []state.Identity{as}}
	if len(alarms) > 0 {
		return c.cure(ctx, e, lock, alarms)
	}
	return lock.Hold(ctx, e, c.defragmentAll)
}

// cluster is the etcd cluster of this node.
type cluster struct {
	etcdcluster.Client
	timeout time.Duration      // of a wait for healthy members
	last    etcdcluster.Health // the newest one, without alarms
}

// awaitHealth waits until all members are healthy and up to date, and returns the alarms.
func (c *cluster) awaitHealth(ctx context.Context, e *engine.Env) (alarms []etcdcluster.Alarm, err error) {
	err = e.Await(ctx, world.Condition{Name: "all etcd members to be healthy", Timeout: c.timeout, External: true,
		Check: func(ctx context.Context, r state.Reader) error {
			health, err := etcdcluster.CheckHealth(ctx, r, c.Etcd)
			if err != nil {
				return err
			}
			c.last, alarms = health.SplitAlarms()
			return c.check(alarms)
		}})
	return alarms, err
}

// check returns an error unless each member may be out of service for a while.
func (c *cluster) check(alarms []etcdcluster.Alarm) error {
	for _, a := range alarms {
		if a.Kind != etcdcluster.NoSpace {
			return world.Permanent(fmt.Errorf("etcd has raised the alarm %s: its members must not be defragmented now", a.Kind))
		}
	}
	var errs []error
	for _, m := range c.last.Members {
		name := etcdcluster.MemberName(m)
		switch {
		case m.Learner:
			errs = append(errs, fmt.Errorf("etcd member %s is a learner, which is still joining", name))
		case c.last.Unhealthy[m.ID] != nil:
			errs = append(errs, fmt.Errorf("etcd member %s is not healthy: %w", name, c.last.Unhealthy[m.ID]))
		default:
			if err := c.last.CheckAppliedIndex(m.ID); err != nil {
				errs = append(errs, fmt.Errorf("etcd member %s is behind: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// cure makes a cluster that has run out of space accept writes again. The order matters: an alarm that
// is disarmed while a database is full is raised again by the next write. The cluster's lock cannot be
// held before, as taking it is a write.
func (c *cluster) cure(ctx context.Context, e *engine.Env, lock clusterlock.Lock, alarms []etcdcluster.Alarm) error {
	e.Warn("etcd has run out of space and rejects writes; do not run this command on another node before it has ended")
	var revision int64
	for _, s := range c.last.Healthy {
		revision = max(revision, s.Revision)
	}
	e.Say("compacting etcd's history before revision %d", revision)
	if err := e.Do(ctx, change.CompactHistory{Revision: revision, Via: c.Etcd}); err != nil {
		return err
	}
	c.awaitFreePages(ctx, e)
	if err := c.defragmentAll(ctx, e); err != nil {
		return err
	}
	if err := e.Await(ctx, world.Condition{Name: "the databases of etcd to be smaller than their quota", Timeout: time.Second,
		Check: func(context.Context, state.Reader) error { return c.checkQuota() }}); err != nil {
		return err
	}
	for _, a := range alarms {
		e.Say("disarming the alarm %s of etcd member %s", a.Kind, c.nameOf(a.Member))
		if err := e.Do(ctx, change.DisarmAlarm{Member: a.Member, Kind: a.Kind, Via: c.Etcd}); err != nil {
			return err
		}
	}
	if err := e.Await(ctx, world.Condition{Name: "etcd to have no alarm", Timeout: c.timeout,
		Check: func(ctx context.Context, r state.Reader) error {
			health, err := etcdcluster.CheckHealth(ctx, r, c.Etcd)
			if err != nil {
				return err
			}
			if _, alarms := health.SplitAlarms(); len(alarms) > 0 {
				return fmt.Errorf("member %s has raised the alarm %s", c.nameOf(alarms[0].Member), alarms[0].Kind)
			}
			return nil
		}}); err != nil {
		return err
	}
	// Taking the lock is a write through the API server.
	if err := lock.Hold(ctx, e, func(context.Context, *engine.Env) error { return nil }); err != nil {
		return problem.During("checking that the cluster accepts writes", err, "re-run the command")
	}
	e.Say("the cluster accepts writes again")
	return nil
}

// freePagesTimeout is how long members may take to compact their histories, of which only one waits for
// the end.
const freePagesTimeout = 30 * time.Second

// awaitFreePages waits until each member has free pages. If a member has not, it had no history: that is
// no error, since there may be other free space.
func (c *cluster) awaitFreePages(ctx context.Context, e *engine.Env) {
	_ = e.Await(ctx, world.Condition{Name: "etcd members to free the pages of their histories", Timeout: freePagesTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			health, err := etcdcluster.CheckHealth(ctx, r, c.Etcd)
			if err != nil {
				return err
			}
			c.last, _ = health.SplitAlarms()
			for _, m := range c.last.Members {
				if !change.HasFreeSpace(c.last.Healthy[m.ID]) {
					return fmt.Errorf("etcd member %s has none", etcdcluster.MemberName(m))
				}
			}
			return nil
		}})
}

// checkQuota is an error if a database is still as large as its quota.
func (c *cluster) checkQuota() error {
	for _, m := range c.last.Members {
		s := c.last.Healthy[m.ID]
		if s.DBQuota > 0 && s.DBSize >= s.DBQuota {
			return world.Permanent(problem.New(fmt.Errorf("the database of etcd member %s is still full: %s is in use, and the quota is %s",
				etcdcluster.MemberName(m), mebibytes(s.DBInUse), mebibytes(s.DBQuota)),
				"delete objects that are not needed, such as old Events or custom resources, and re-run the command",
				"or raise the quota: etcd.local.extraArgs, quota-backend-bytes"))
		}
	}
	return nil
}

// defragmentAll defragments one member after the other, the leader last: when it is its turn, all others
// have done theirs. Between two of them all members must be healthy.
func (c *cluster) defragmentAll(ctx context.Context, e *engine.Env) error {
	order := slices.Clone(c.last.Members)
	slices.SortStableFunc(order, func(a, b state.Member) int {
		leads := func(m state.Member) int {
			if c.last.Healthy[m.ID].Leader == m.ID {
				return 1
			}
			return 0
		}
		return leads(a) - leads(b)
	})
	var freed int64
	for _, m := range order {
		name := etcdcluster.MemberName(m)
		before := c.last.Healthy[m.ID]
		if !change.HasFreeSpace(before) {
			e.Say("etcd member %s has nothing to free: %s, of which %s is in use", name, mebibytes(before.DBSize),
				mebibytes(before.DBInUse))
			continue
		}
		e.Say("defragmenting etcd member %s: %s, of which %s is in use", name, mebibytes(before.DBSize),
			mebibytes(before.DBInUse))
		if err := e.Do(ctx, change.Defragment{Member: m, Via: c.Etcd}); err != nil {
			return err
		}
		if _, err := c.awaitHealth(ctx, e); err != nil {
			return problem.New(err, "check the members: kubeadm etcd members")
		}
		after := c.last.Healthy[m.ID]
		freed += before.DBSize - after.DBSize
		e.Say("etcd member %s has freed %s and has %s now", name, mebibytes(before.DBSize-after.DBSize),
			mebibytes(after.DBSize))
	}
	e.Say("freed %s in total", mebibytes(freed))
	return nil
}

func (c *cluster) nameOf(id uint64) string {
	if m := c.last.FindByNameOrID(etcdcluster.FormatID(id)); m != nil {
		return etcdcluster.MemberName(*m)
	}
	return etcdcluster.FormatID(id)
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
