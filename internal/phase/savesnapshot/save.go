// Package savesnapshot saves a snapshot of etcd to a file, alone or in an archive with the keys of the
// cluster, and removes old ones.
package savesnapshot

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/existing"
	"kubeadm/internal/problem"
	"kubeadm/internal/snapshots"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Save saves a snapshot. Each run saves one; what a killed run has left of an incomplete one is removed by
// the next run that saves to the same directory. onSaved is called with the path of the complete file.
func Save(o snapshots.Options, onSaved func(file string)) engine.Phase {
	return engine.Phase{Name: "etcd", Run: func(ctx context.Context, e *engine.Env) error {
		file, err := save(ctx, e, o)
		if err == nil {
			onSaved(file)
		}
		return err
	}}
}

func save(ctx context.Context, e *engine.Env, o snapshots.Options) (file string, err error) {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return "", err
	}
	here := existing.Machine{Local: n.Local, As: as}
	client, health, err := here.Etcd(ctx, e)
	if err != nil {
		return "", err
	}
	from, err := chooseSource(e, client, health)
	if err != nil {
		return "", err
	}
	dir, err := snapshots.Open(ctx, e.World, n.Local, o.Dir)
	if err != nil {
		return "", err
	}
	if file = o.File; file == "" {
		file, err = dir.Prepare(ctx, e, o.Suffix())
	} else {
		err = checkTarget(ctx, e.World, file, o.Suffix())
	}
	if err != nil {
		return "", err
	}
	var saving change.Change = change.SaveSnapshot{Path: file, Via: from.via}
	if o.WithKeys {
		keys, err := collectKeys(ctx, e, here, client)
		if err != nil {
			return "", err
		}
		saving = change.SaveArchive{Path: file, Via: from.via, Protection: o.Protection, Manifest: etcdsnapshot.Manifest{
			Node: n.Name, Time: e.World.Now().UTC(), Kubeadm: e.Tool.String(), Files: keys}}
	}
	e.Say("saving a snapshot of etcd to %s", untrusted.Quote(file))
	if err := e.Do(ctx, saving); err != nil {
		return "", err
	}
	switch {
	case o.Keep > 0 && from.doubt != "":
		e.Warn("no old snapshot is removed, because %s", from.doubt)
	case o.Keep > 0:
		if err := dir.Prune(ctx, e, o.Keep); err != nil {
			return file, problem.During("removing old snapshots", err, "the new snapshot is "+untrusted.Quote(file))
		}
	}
	return file, nil
}

// source is where a snapshot comes from.
type source struct {
	via   state.Etcd
	doubt string // why it may not have the state of the cluster; empty for none
}

// chooseSource returns a healthy voter that is up to date, and not the leader if there is another
// one. Without a quorum it is the member that has applied most. It is never one with corrupt data.
func chooseSource(e *engine.Env, client etcdcluster.Client, all etcdcluster.Health) (s source, err error) {
	health, alarms := all.SplitAlarms()
	corrupt := map[uint64]bool{}
	for _, a := range alarms {
		corrupt[a.Member] = corrupt[a.Member] || a.Kind == etcdcluster.Corrupt
	}
	switch {
	case corrupt[0], client.External && slices.Contains(slices.Collect(maps.Values(corrupt)), true):
		s.doubt = "etcd has raised the alarm CORRUPT, and this may be the member whose data are wrong"
	case health.CheckQuorum() != nil && !client.External:
		s.doubt = "etcd has no quorum, and the snapshot has the state that one member knows"
	}
	if s.doubt != "" {
		e.Warn("%s", s.doubt)
	}
	s.via = client.Etcd
	if client.External { // clients may reach the members at other addresses than they advertise
		return s, nil
	}
	voters := slices.DeleteFunc(slices.Clone(health.Members), func(m state.Member) bool {
		_, answers := health.Answered[m.ID]
		return m.Learner || !answers || corrupt[m.ID]
	})
	if len(voters) == 0 {
		return s, problem.New(errors.New("no voting etcd member answers whose data are not corrupt"),
			"check the members: kubeadm etcd members")
	}
	rank := func(m state.Member) int {
		switch {
		case health.Unhealthy[m.ID] != nil || health.CheckAppliedIndex(m.ID) != nil:
			return 2
		case health.Answered[m.ID].Leader == m.ID:
			return 1
		}
		return 0
	}
	best := slices.MinFunc(voters, func(a, b state.Member) int {
		if rank(a) < 2 || rank(b) < 2 {
			return cmp.Compare(rank(a), rank(b))
		}
		return cmp.Compare(health.Answered[b.ID].AppliedIndex, health.Answered[a.ID].AppliedIndex)
	})
	s.via.Endpoints = best.ClientURLs
	e.Say("using etcd member %s", etcdcluster.MemberName(best))
	return s, nil
}
