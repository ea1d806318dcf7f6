package reconfiguration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/redact"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// The reasons of the Events of a Node that tell what became of a change on it.
const (
	followedReason  = "ReconfiguredNode"
	takenBackReason = "ReconfigurationTakenBack"
)

// notRecorded is the warning if an Event cannot be created.
const notRecorded = "could not record Event %s for this node (informational only): %v"

// nodeEvent is an Event of the Node of a machine. It is of core/v1: the ClusterRole system:node lets a kubelet create
// Events of no other API group.
type nodeEvent struct {
	id      string // distinguishes it from the other ones of this program for the same Node
	reason  string
	message string
}

// ReportFollowed creates the Event which tells that a node has followed the change. Its name depends on the node and the
// change only: a run that was killed before the Node says that it has followed finds the Event when it is resumed. Nothing
// depends on the Event, so a failure is a warning.
func ReportFollowed(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) {
	intent := IntentOf(e)
	s := intent.Change
	message := fmt.Sprintf("Applied configuration change %s (started on %s", untrusted.Line(s.ID), untrusted.Line(s.Node))
	if s.Undoes != "" {
		message += "; reverts " + untrusted.Line(s.Undoes)
	}
	message += ")"
	fields, err := changedFields(intent, n)
	if err != nil {
		e.Warn(notRecorded, followedReason, err)
		return
	}
	if len(fields) > 0 {
		message += ": " + strings.Join(fields, ", ")
	}
	message += ". Run \"kubeadm reconfigure status\" on a control plane node to see all nodes."
	event := nodeEvent{id: "reconfigured-" + s.ID, reason: followedReason, message: message}
	event.create(ctx, e, n, as)
}

// ReportTakenBack creates the Event which tells that a change was taken back on a node. The same failure of the same change
// has the same name. A failure to create it is a warning: what took place is the error of the command.
func ReportTakenBack(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity, cause error) {
	s := IntentOf(e).Change
	id, message := s.ID, "A change of this node's kubelet arguments was rolled back"
	if s.Forgets {
		id = s.Undoes
	}
	if id != "" {
		message = fmt.Sprintf("Configuration change %s was rolled back on this node", untrusted.Line(id))
	}
	if cause != nil && errors.As(cause, new(*BrokenAddon)) && s.DNS != nil && s.DNS.After.Corefile != nil {
		message += ": new Pods of CoreDNS or kube-proxy do not run" // the log of CoreDNS may quote credentials of its Corefile
	} else if cause != nil {
		message += ": " + shortCause(cause)
	}
	name := "taken-back-" + strings.TrimPrefix(id+"-", "-") + shortDigest(message)
	if s.Forgets { // once, also by a run that no longer knows the cause
		name = "taken-back-" + id
	}
	event := nodeEvent{id: name, reason: takenBackReason, message: message}
	event.create(ctx, e, n, as)
}

// shortCause is the first line of an error without secrets: more users may read Events than the output of a command.
func shortCause(cause error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(redact.Text(cause.Error())), "\n")
	return untrusted.Line(line)
}

// changedFields names the fields that the change has changed, as far as they concern the node, without their values. A worker
// reads only a part of the configuration before the change.
func changedFields(intent Intent, n *node.Node) (names []string, err error) {
	const most = 12
	const kubelet = "KubeletConfiguration"
	all, err := config.ListChanges(&intent.Before.Cluster, &n.Cluster)
	if err != nil {
		return nil, err
	}
	if n.Role != node.ControlPlane {
		all = slices.DeleteFunc(all, func(f config.FieldChange) bool { return f.Kind != kubelet })
	}
	for _, f := range all[:min(most, len(all))] {
		names = append(names, f.Kind+" "+cut(untrusted.Line(redact.Text(f.Field)), 48))
	}
	if len(all) > most {
		names = append(names, fmt.Sprintf("and %d more", len(all)-most))
	}
	return append(names, intent.Change.DNS.names()...), nil
}

// cut returns the beginning of a text of at most that many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}

// create creates the Event unless it exists.
func (v nodeEvent) create(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) {
	const longestName, longestMessage = 253, 1024 // that the API server accepts
	at := metav1.Time{Time: e.World.Now()}.Rfc3339Copy()
	suffix := ".kubeadm-" + v.id
	name, kind := n.Name+suffix, corev1.EventTypeNormal
	if len(name) > longestName {
		name = shortDigest(n.Name) + suffix
	}
	if v.reason == takenBackReason {
		kind = corev1.EventTypeWarning
	}
	err := e.Do(ctx, change.ApplyObject{Keep: true, Unreadable: true, As: as, Object: &corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		// Events of objects without a namespace are in this one.
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		// kubectl looks for the name of a Node instead of its UID too, as kubelets create Events without knowing it.
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: types.UID(n.Name)},
		Reason:         v.reason, Message: cut(v.message, longestMessage), Type: kind,
		Source:              corev1.EventSource{Component: "kubeadm", Host: n.Name},
		ReportingController: "kubeadm.kubernetes.io/kubeadm", ReportingInstance: n.Name,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}})
	if err != nil && ctx.Err() == nil {
		e.Warn(notRecorded, v.reason, err)
	}
}
