package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

func newEtcdMembersCommand(p *program) *cobra.Command {
	kubeconfig, out := "", newOutput()
	c := &cobra.Command{
		Use:   "members",
		Short: "List the members of etcd with their health",
		Long: `List the members of etcd: the role and health of each one, its version, the size of its database and the part of it
that is in use, the raft index that it has applied, how far that is behind the others, and its alarms.

Without a quorum, the list is the one that a single member knows.`,
		Example: `  kubeadm etcd members

  # machine-readable
  kubeadm etcd members --output json`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return listEtcdMembers(p, c, kubeconfig, &out)
		},
	}
	flagTargets{flag.Kubeconfig: &kubeconfig}.bind(c.Flags())
	out.bind(c.Flags())
	c.AddCommand(newRemoveMemberCommand(p))
	return c
}

// etcdMemberList is the result as an object.
type etcdMemberList struct {
	metav1.TypeMeta `json:",inline"`
	External        bool         `json:"external"`
	Members         []etcdMember `json:"members"`
}

// etcdMember is one member as an object. What a member that does not answer has not told is zero.
type etcdMember struct {
	ID           string   `json:"id"` // hexadecimal
	Name         string   `json:"name,omitempty"`
	Node         string   `json:"node,omitempty"`
	PeerURLs     []string `json:"peerURLs"`
	ClientURLs   []string `json:"clientURLs,omitempty"`
	Status       string   `json:"status"` // healthy, unhealthy, unreachable or not started
	Problem      string   `json:"problem,omitempty"`
	Role         string   `json:"role"` // leader, voter or learner
	Version      string   `json:"version,omitempty"`
	DBSize       int64    `json:"dbSize,omitempty"`
	DBSizeInUse  int64    `json:"dbSizeInUse,omitempty"`
	DBSizeQuota  int64    `json:"dbSizeQuota,omitempty"`
	AppliedIndex uint64   `json:"raftAppliedIndex,omitempty"`
	Lag          uint64   `json:"raftLag"`
	Alarms       []string `json:"alarms,omitempty"`
}

func listEtcdMembers(p *program, c *cobra.Command, kubeconfig string, out *output) (err error) {
	ctx := c.Context()
	encode, err := out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	if encode != nil {
		p.report.Text.Out = p.Err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "etcd", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	if err := checkRoot(ctx, p.World()); err != nil {
		return err
	}
	e := envOfNode(ctx, p, r, config.NewLocal(), "etcd")
	here, err := openEtcd(ctx, e, existing.Options{Kubeconfig: named(c, kubeconfig)})
	if err != nil {
		return err
	}
	for id, conflict := range etcdcluster.FindConflicts(ctx, e.World, here.client.Etcd, here.health) {
		here.health.Unhealthy[id] = conflict
	}
	list := newEtcdMemberList(here, etcdNodes(ctx, e, here))
	if encode != nil {
		return encode(p.Out, []any{list})
	}
	for _, m := range list.Members {
		if m.Problem != "" {
			e.Warn("etcd member %s: %s", cmp.Or(m.Name, m.ID), m.Problem)
		}
	}
	return list.write(p.Out)
}

// nodeNamesLimit limits the request for the names of the nodes, without which the list is useful too.
const nodeNamesLimit = 5 * time.Second

// etcdNodes returns the names of the Nodes on which etcd's Pods run, by client URL. It warns if the API
// server does not answer, as it may not while etcd has problems.
func etcdNodes(ctx context.Context, e *engine.Env, here etcdNode) map[string]string {
	if here.client.External {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeNamesLimit)
	defer cancel()
	pods, err := e.World.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
		Namespace: metav1.NamespaceSystem, LabelSelector: "component=etcd,tier=control-plane", As: here.As})
	if err != nil {
		e.Warn("the names of the nodes are unknown: %v", err)
	}
	nodes := map[string]string{}
	for _, pod := range pods {
		name, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
		nodes[pod.GetAnnotations()[manifest.EtcdURLAnnotation]] = untrusted.Line(name)
	}
	return nodes
}

func newEtcdMemberList(here etcdNode, nodes map[string]string) etcdMemberList {
	list := etcdMemberList{TypeMeta: outputMeta("EtcdMemberList"), External: here.client.External}
	health, alarms := here.health.SplitAlarms()
	var highest uint64
	for _, s := range health.Answered {
		highest = max(highest, s.CommittedIndex, s.AppliedIndex)
	}
	for _, m := range health.Members {
		status, answers := health.Answered[m.ID]
		row := etcdMember{ID: etcdcluster.FormatID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs,
			ClientURLs: m.ClientURLs, Status: "healthy", Role: "voter", Version: status.Version,
			DBSize: status.DBSize, DBSizeInUse: status.DBInUse, DBSizeQuota: status.DBQuota,
			AppliedIndex: status.AppliedIndex}
		for _, url := range m.ClientURLs {
			row.Node = cmp.Or(row.Node, nodes[url])
		}
		if answers {
			row.Lag = highest - status.AppliedIndex
		}
		switch {
		case m.Learner:
			row.Role = "learner"
		case answers && status.Leader == m.ID:
			row.Role = "leader"
		}
		err := health.Unhealthy[m.ID]
		switch {
		case err == nil:
		case m.Name == "":
			row.Status = "not started"
		case etcdcluster.Answers(err):
			row.Status, row.Problem = "unhealthy", err.Error()
		default:
			row.Status, row.Problem = "unreachable", err.Error()
		}
		for _, a := range alarms {
			if a.Member == m.ID || a.Member == 0 {
				row.Alarms = append(row.Alarms, a.Kind)
			}
		}
		slices.Sort(row.Alarms)
		list.Members = append(list.Members, row)
	}
	return list
}

// write prints a table.
func (l etcdMemberList) write(out io.Writer) error {
	w := report.NewTable(out, 2, "ID", "NAME", "NODE", "STATUS", "ROLE", "VERSION", "DB SIZE", "IN USE",
		"RAFT INDEX", "LAG", "ALARMS")
	for _, m := range l.Members {
		size, used, index, lag := "-", "-", "-", "-"
		if m.AppliedIndex > 0 {
			size, used = etcdcluster.FormatSize(m.DBSize), etcdcluster.FormatSize(m.DBSizeInUse)
			index, lag = fmt.Sprint(m.AppliedIndex), fmt.Sprint(m.Lag)
		}
		w.Row(m.ID, cmp.Or(m.Name, "-"), cmp.Or(m.Node, "-"), m.Status, m.Role, cmp.Or(m.Version, "-"),
			size, used, index, lag, cmp.Or(strings.Join(m.Alarms, ","), "-"))
	}
	return w.Flush()
}

// completeMembers offers the names of the members, and the IDs of those that have none.
func completeMembers(p *program) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
		defer cancel()
		client, err := etcdcluster.ReadClient(ctx, p.World(), node.DefaultPaths())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		members, err := p.World().Members(ctx, client.Etcd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for _, m := range members {
			names = append(names, etcdcluster.MemberName(m))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
