package existing

import (
	"context"
	"fmt"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// The command that changes the name of the node on which it runs. On a worker it needs the kubeconfig of an administrator:
// a kubelet cannot create another Node.
const (
	RenameCommand       = "kubeadm node-name change"
	RenameWorkerCommand = RenameCommand + " %s --kubeconfig ADMIN.CONF"
)

// NodeChange is a change of a node's address or name that is not complete: it is in progress, or was interrupted. Its Node
// says so, which the administrator has annotated.
type NodeChange struct {
	Node string `json:"node"`
	// MovingTo is the address that the node is to get; empty if that is not what changes.
	MovingTo string `json:"movingTo,omitempty"`
	// RenamedFrom is the name that the node had; empty if that is not what changes.
	RenamedFrom string `json:"renamedFrom,omitempty"`
	// Command completes the change, on that node; empty if a name is not fit to be copied into a shell.
	Command string `json:"command,omitempty"`
}

// ListNodeChanges lists the changes of nodes that are not complete. Of workers their own kubelets could say so, which must
// not keep others from anything: a label selects those that count.
func ListNodeChanges(ctx context.Context, r state.Reader, as state.Identity, selector string) (all []NodeChange, err error) {
	nodes, err := r.List(ctx, state.Query{GVK: state.NodeKind, As: as, LabelSelector: selector, Fields: []string{"metadata"}})
	if err != nil {
		return nil, fmt.Errorf("looking for changes of nodes that are not complete: %w", err)
	}
	for _, u := range nodes {
		annotations := u.GetAnnotations()
		if to := annotations[node.MovingToAnnotation]; to != "" {
			all = append(all, NodeChange{Node: u.GetName(), MovingTo: to, Command: untrusted.Command("kubeadm address change", to)})
		}
		if from := annotations[node.RenamedFromAnnotation]; from != "" && from != u.GetName() {
			command := RenameCommand
			if _, isControlPlane := u.GetLabels()[node.ControlPlaneLabel]; !isControlPlane {
				command = RenameWorkerCommand
			}
			all = append(all, NodeChange{Node: u.GetName(), RenamedFrom: from, Command: untrusted.Command(command, u.GetName())})
		}
	}
	return all, nil
}

// CheckNodeChanges is an error if a control plane node has half of another address or name. isOwn reports whether that is
// what this command completes; nil is nothing.
func CheckNodeChanges(ctx context.Context, r state.Reader, as state.Identity, isOwn func(NodeChange) bool) error {
	all, err := ListNodeChanges(ctx, r, as, node.ControlPlaneLabel)
	if err != nil {
		return err
	}
	for _, c := range all {
		if isOwn == nil || !isOwn(c) {
			return c.NewError()
		}
	}
	return nil
}

// NewError is the error of what cannot be done before the change is complete.
func (c NodeChange) NewError() error {
	err := fmt.Errorf("the move of node %s to %s is not complete", untrusted.Line(c.Node), untrusted.Line(c.MovingTo))
	if c.MovingTo == "" {
		err = fmt.Errorf("the change of a node's name from %s to %s is not complete", untrusted.Line(c.RenamedFrom),
			untrusted.Line(c.Node))
	}
	complete, annotation := "complete it there", node.MovingToAnnotation
	if c.Command != "" {
		complete += ": " + c.Command
	}
	if c.MovingTo == "" {
		annotation = node.RenamedFromAnnotation
	}
	return problem.New(err, complete,
		untrusted.CommandHint("if nothing is left to do there, as after etcd was restored, remove the mark", "kubectl annotate node",
			c.Node, annotation+"-"),
		untrusted.CommandHint("or, if that node is permanently lost, delete it", "kubectl delete node", c.Node))
}
