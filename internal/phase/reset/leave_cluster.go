package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/drain"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/nodename"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// LeaveCluster drains this node and deletes its Node object, if the user asks for it. A failure
// ends the reset before anything on this machine is removed.
var LeaveCluster = engine.Phase{
	Name:  "leave-cluster",
	Short: "With --leave-cluster, drain this node and delete its Node object",
	Long: `Drain this node and delete its Node object. As part of "kubeadm reset", the phase does this only if --leave-cluster is set.
Static Pods and the Pods of DaemonSets are not evicted. PodDisruptionBudgets are respected.`,
	Flags: []flag.Name{flag.DrainTimeout, flag.DryRun, flag.Kubeconfig},
	Run: func(ctx context.Context, e *engine.Env) error {
		if !intentOf(e).LeaveCluster {
			return nil
		}
		p := e.Local.Paths
		if _, err := e.World.Stat(ctx, p.KubeletConfig()); errors.Is(err, fs.ErrNotExist) {
			e.Note(nodeLeft)
			e.Warn("this machine is no longer a node of a cluster, so the name of its Node is unknown; %s",
				untrusted.CommandHint("delete the Node if it still exists", "kubectl delete node", e.Local.Name))
			return nil
		}
		as, err := readLeavingAdmin(ctx, e)
		if err != nil {
			return err
		}
		other, err := findReplacedNode(ctx, e, as)
		if err != nil {
			return explainLeaveFailure(e, as, nothingRemoved, err)
		}
		name, err := findLeavingNode(ctx, e, as, other)
		if name == "" || err != nil {
			return explainLeaveFailure(e, as, nothingRemoved, err)
		}
		if err := drain.Run(ctx, e, drain.Options{Node: name, As: as, Timeout: intentOf(e).DrainTimeout,
			Longer: fmt.Sprintf("set --%s to a longer time, and re-run the command", flag.DrainTimeout)}); err != nil {
			return explainLeaveFailure(e, as, nothingRemoved, err)
		}
		// A join that is run again must not find that it has finished.
		if err := e.Do(ctx, change.Remove{Path: p.Journal()}); err != nil {
			e.Warn("%v; remove it manually", err)
		}
		e.Say("deleting Node %s", name)
		ref := state.Ref{GVK: state.NodeKind, Name: name, As: as}
		if err := e.Do(ctx, change.DeleteObject{Ref: ref}); err != nil {
			err = explainLeaveFailure(e, as, fmt.Sprintf("node %s may be cordoned and drained; on this machine only the journal of init or join was removed",
				name), err)
			return problem.New(err, untrusted.CommandHint("or keep the node", "kubectl uncordon", name))
		}
		if other != nil && other.Name != name {
			e.Say("deleting Node %s, which a change of this node's name has left", untrusted.Line(other.Name))
			ref := state.Ref{GVK: state.NodeKind, Name: other.Name, As: as}
			warnOnError(e, e.Do(ctx, change.DeleteObject{Ref: ref, UID: string(other.UID)}),
				untrusted.CommandHint("delete it", "kubectl delete node", other.Name))
		}
		// A kubelet that is restarted would register the Node again.
		warnOnError(e, e.Do(ctx, change.SetService{Name: localkubelet.Service}),
			"stop the kubelet manually: "+e.Local.Platform.ServiceCommand("stop", "kubelet"))
		return nil
	},
}

// readLeavingAdmin returns the user who deletes the Node: anybody but the kubelet, which may not.
func readLeavingAdmin(ctx context.Context, e *engine.Env) (state.Identity, error) {
	as, err := e.Admin(ctx)
	if err != nil {
		return as, err
	}
	data, err := e.World.ReadFile(ctx, as.Kubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return as, problem.New(fmt.Errorf("--%s needs a kubeconfig that may evict Pods and delete the Node of this machine: %s does not exist",
			flag.LeaveCluster, as.Kubeconfig), leaveHints(e)...)
	}
	if err != nil {
		return as, err
	}
	config, err := pki.ParseKubeconfig(data)
	if err == nil {
		_, err = config.CurrentCluster()
	}
	if err != nil {
		return as, problem.During("reading "+as.Kubeconfig, err, leaveHints(e)...)
	}
	if kubelet := readNodeUser(ctx, e, as.Kubeconfig, config); kubelet != "" {
		return as, problem.New(fmt.Errorf("%s belongs to the kubelet of node %s, which may not delete its own Node",
			as.Kubeconfig, kubelet), leaveHints(e)...)
	}
	return as, nil
}

func leaveHints(e *engine.Env) []string {
	return []string{
		fmt.Sprintf("copy %s from a control plane node to this machine, and set --%s to the copy",
			e.Local.Paths.Kubeconfig("admin.conf"), flag.Kubeconfig),
		fmt.Sprintf("or leave out --%s and delete the Node on a control plane node: kubectl drain NODE --ignore-daemonsets, then kubectl delete node NODE",
			flag.LeaveCluster),
	}
}

const nothingRemoved = "nothing was removed from this machine"

// explainLeaveFailure adds what has happened so far and what to do to an error of the API server,
// and nothing to nil.
func explainLeaveFailure(e *engine.Env, as state.Identity, soFar string, err error) error {
	if err == nil {
		return nil
	}
	hints := leaveHints(e)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		err = fmt.Errorf("the user of %s may not do this: %w", as.Kubeconfig, err)
	} else {
		hints = hints[1:]
	}
	return problem.During("leaving the cluster; "+soFar, err, hints...)
}

// readNodeUser returns the name of the node whose kubelet a kubeconfig is for; empty for all other
// users.
func readNodeUser(ctx context.Context, e *engine.Env, file string, config *pki.Kubeconfig) string {
	config.ResolvePaths(path.Dir(file))
	certs, err := config.ClientPair(
		func(name string) ([]byte, error) { return e.World.ReadFile(ctx, name) })
	if err != nil || len(certs) == 0 {
		return ""
	}
	name, _ := strings.CutPrefix(certs[0].Subject.CommonName, "system:node:")
	if name == certs[0].Subject.CommonName {
		return ""
	}
	return name
}

// findLeavingNode returns the name of this machine's Node; empty if there is nothing to leave. A
// machine with the files of another one, such as a clone, must not delete the other's Node. Another
// Node of this machine, if there is one, is not counted.
func findLeavingNode(ctx context.Context, e *engine.Env, as state.Identity, other *corev1.Node) (string, error) {
	name := ""
	file := e.Local.Paths.KubeletKubeconfig()
	if data, err := e.World.ReadFile(ctx, file); err == nil {
		if config, err := pki.ParseKubeconfig(data); err == nil {
			name = readNodeUser(ctx, e, file, config)
		}
	}
	fromHost := name == ""
	if fromHost {
		name = e.Local.Name
	}
	node, err := e.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name, As: as})
	if apierrors.IsNotFound(err) {
		e.Say("the cluster has no Node %s: there is nothing to delete", name)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// Of three Nodes one is neither this one nor the one that it replaces.
	some, err := e.List(ctx, state.Query{GVK: state.NodeKind, As: as, Fields: []string{"metadata"}, Limit: 3})
	if err != nil {
		return "", err
	}
	others := slices.ContainsFunc(some, func(u unstructured.Unstructured) bool {
		return u.GetName() != name && (other == nil || u.GetName() != other.Name)
	})
	if !others {
		e.Say("%s is the only node, so the cluster ends with it: it is neither drained nor deleted", name)
		return "", nil
	}
	own, known, err := isOwnNode(ctx, e, *node)
	if err != nil {
		return "", err
	}
	if known && !own || !known && fromHost {
		return "", fmt.Errorf("node %s may be another machine: this one has none of its addresses", name)
	}
	return name, nil
}

// findReplacedNode finds the other Node of a machine whose name was changed incompletely; nil if there
// is none, or if it belongs to another machine.
func findReplacedNode(ctx context.Context, e *engine.Env, as state.Identity) (*corev1.Node, error) {
	record, err := nodename.ReadRename(ctx, e.World, e.Local.Paths)
	if err != nil {
		e.Warn("%v; another Node of this machine may be left", err)
	}
	if record == nil {
		return nil, nil
	}
	client, err := localkubelet.ReadClientCert(ctx, e.World, e.Local.Paths)
	if err != nil || client == nil {
		return nil, nil // nor is the name of the node known
	}
	record.To = client.NodeName(ctx, e.World)
	if record.To != record.Original && record.To != record.Other {
		return nil, nil
	}
	other, err := nodename.ReadNode(ctx, e.Reader(), as, record.From())
	if err != nil || other == nil || !record.Owns(other) {
		return nil, err
	}
	return other, nil
}

// isOwnNode reports whether this machine has an internal address of a Node, if any is known.
func isOwnNode(ctx context.Context, e *engine.Env,
	u unstructured.Unstructured) (own, known bool, err error) {
	var n corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return false, false, fmt.Errorf("reading Node %s: %w", u.GetName(), err)
	}
	local, err := e.World.Addresses(ctx)
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			known = true
			own = own || slices.ContainsFunc(local,
				func(l state.Address) bool { return l.IP == a.Address })
		}
	}
	return own, known, err
}
