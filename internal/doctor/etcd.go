package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

const (
	// defaultQuota is the size of the database at which etcd refuses writes, if it is not configured.
	defaultQuota = 2 << 30
	// fullDatabase is the part of the quota, in percent, from which there is a warning.
	fullDatabase = 80
)

func checkMembers(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	if !m.hasEtcd {
		rep.Skip("no etcd member runs on this machine")
		return
	}
	health, err := m.members(ctx, r)
	if err != nil {
		const remedy = "read the log of etcd on this node: crictl logs, or journalctl -xeu kubelet"
		addError(rep, preflight.Finding{Remedy: remedy},
			fmt.Errorf("etcd's members cannot be listed: %w", err))
		return
	}
	health, alarms := health.SplitAlarms()
	if err := health.CheckQuorum(); err != nil {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:     "etcd has no quorum, so the cluster cannot be changed",
			Evidence: err.Error(), Remedy: "bring the unhealthy members back"})
	}
	for _, member := range health.Members {
		name := etcdcluster.MemberName(member)
		if err := health.Unhealthy[member.ID]; err != nil {
			rep.Add(newMemberFinding(member, err))
		}
		if f, found := comparePeerURL(ctx, r, m, member); found {
			rep.Add(f)
		}
		if member.Learner {
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text: fmt.Sprintf("etcd member %s is a learner, which does not vote", name),
				Remedy: "wait until that node has joined; if its join was interrupted, re-run it there, or " +
					"run kubeadm reset there"})
		}
		checkDatabase(rep, name, health.Healthy[member.ID])
	}
	addConflicts(ctx, r, rep, m, health)
	for _, a := range alarms {
		rep.Add(newAlarmFinding(health, a))
	}
	checkMembersOfNodes(ctx, r, rep, m.cluster, health)
}

// addConflicts finds members that contradict the others about who is a member.
func addConflicts(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine, health etcdcluster.Health) {
	conflicts := etcdcluster.FindConflicts(ctx, r, etcdcluster.LocalClient(m.Paths), health)
	for _, member := range health.Members {
		if err := conflicts[member.ID]; err != nil {
			rep.Add(preflight.Finding{Severity: preflight.Error,
				Text: etcdcluster.DescribeConflict(member), Evidence: err.Error(),
				Remedy: etcdcluster.RejoinRemedy, Command: "kubeadm etcd rejoin"})
		}
	}
}

// comparePeerURL finds a member of this node that the others reach at another address than it advertises.
func comparePeerURL(ctx context.Context, r state.Reader, m *machine, member state.Member) (f preflight.Finding, found bool) {
	pod := m.Pods[manifest.Etcd]
	if pod == nil || member.Name != m.Name || m.Name == "" {
		return f, false
	}
	own := strings.Split(manifest.ArgumentValue(pod, "initial-advertise-peer-urls"), ",")
	if own[0] == "" || slices.ContainsFunc(own, func(u string) bool { return slices.Contains(member.PeerURLs, u) }) {
		return f, false
	}
	to := node.HostOf(own[0])
	if all, err := r.Addresses(ctx); err == nil && !nodeaddress.IsOn(all, to) && len(member.PeerURLs) > 0 &&
		nodeaddress.IsOn(all, node.HostOf(member.PeerURLs[0])) { // it has lost the one from which it moves
		to = node.HostOf(member.PeerURLs[0])
	}
	return preflight.Finding{Severity: preflight.Error,
		Text: fmt.Sprintf("etcd's members know the member of this node, %s, at another address", member.Name),
		Evidence: fmt.Sprintf("it is listed with %s, but advertises %s",
			untrusted.Line(strings.Join(member.PeerURLs, ", ")), untrusted.Line(strings.Join(own, ", "))),
		Remedy:  "complete the move of this node, or let the machine have the address that the other members know",
		Command: untrusted.Command("kubeadm address change", to)}, true
}

func newAlarmFinding(health etcdcluster.Health, a etcdcluster.Alarm) preflight.Finding {
	name := etcdcluster.FormatID(a.Member)
	if member := health.FindByNameOrID(name); member != nil {
		name = etcdcluster.MemberName(*member)
	}
	f := preflight.Finding{Severity: preflight.Error,
		Text:     fmt.Sprintf("etcd member %s has raised the alarm %s", name, a.Kind),
		Evidence: "etcd's members report it", Remedy: "read the log of etcd on that node"}
	switch a.Kind {
	case etcdcluster.NoSpace:
		f.Text += ": its database is full, and the cluster is read-only"
		f.Remedy = "delete what fills it, then free the space and clear the alarm: kubeadm etcd defrag"
	case etcdcluster.Corrupt:
		f.Text += ": its data differs from that of the other members"
		f.Remedy = "follow https://etcd.io/docs/latest/op-guide/data_corruption/ to replace its data from the " +
			"healthy members or, if there are none, from a backup"
	}
	return f
}

// newMemberFinding is about a member that does not answer or reports a problem.
func newMemberFinding(member state.Member, err error) preflight.Finding {
	name := etcdcluster.MemberName(member)
	f := preflight.Finding{Severity: preflight.Error,
		Text: fmt.Sprintf("etcd member %s is not healthy", name), Evidence: err.Error(),
		Remedy: untrusted.CommandHint("check that its machine is up and reachable; if it is permanently lost, "+
			"join a new one with the flags --control-plane and --replace-member, which names it",
			"kubeadm join --control-plane --replace-member", name)}
	_, answers := errors.AsType[etcdcluster.ReportedProblems](err)
	_, isOther := errors.AsType[etcdcluster.OtherCluster](err)
	switch {
	case isOther:
		f.Text = fmt.Sprintf("etcd member %s is not healthy: its data are those of another etcd cluster", name)
		f.Remedy, f.Command = etcdcluster.RejoinRemedy, "kubeadm etcd rejoin"
	case answers:
		f.Remedy = "read the log of etcd on that node"
	case member.Name == "":
		f.Text = fmt.Sprintf("etcd member %s has been added but has not started", name)
		f.Remedy = untrusted.CommandHint("re-run kubeadm join on its machine, or remove it",
			"kubeadm etcd members remove", name)
	}
	return f
}

// checkDatabase warns before the database reaches its quota.
func checkDatabase(rep *preflight.Report, name string, s state.MemberStatus) {
	quota := s.DBQuota
	if quota <= 0 {
		quota = defaultQuota
	}
	if s.DBSize*100 < quota*fullDatabase {
		return
	}
	const mib = 1 << 20
	f := preflight.Finding{Severity: preflight.Warning,
		Text: fmt.Sprintf("the database of etcd member %s has reached %d%% of the size at which etcd rejects writes",
			name, s.DBSize*100/quota),
		Evidence: fmt.Sprintf("%d MiB, of which %d MiB is in use; the quota is %d MiB", s.DBSize/mib,
			s.DBInUse/mib, quota/mib),
		Remedy: "find what fills it, or raise etcd.local.extraArgs, quota-backend-bytes"}
	if s.DBInUse*2 < s.DBSize {
		f.Remedy = "free the unused space: kubeadm etcd defrag"
	}
	rep.Add(f)
}

// checkMembersOfNodes finds members that a lost control plane node has left behind.
func checkMembersOfNodes(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster,
	health etcdcluster.Health) {
	if _, err := c.api(ctx, r); err != nil || c.as.Kubeconfig == "" {
		return
	}
	all, err := c.nodes(ctx, r)
	if err != nil {
		return // check Nodes reports it
	}
	names := map[string]bool{}
	for _, n := range all {
		names[n.Name] = true
	}
	for _, member := range health.Members {
		if member.Name != "" && !names[member.Name] {
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text:   fmt.Sprintf("there is no Node with the name of etcd member %s", member.Name),
				Remedy: fmt.Sprintf("if its node is gone, remove the member: kubeadm etcd members remove %x", member.ID)})
		}
	}
}
