package reconfiguration

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// eventReason is the reason of the Events that tell of nodes which have followed a change.
const eventReason = "Reconfigured"

// ReportEvent returns the change that creates the Event of a Node that has followed, for those who watch the cluster: kubectl
// describe node shows it. It names what was changed, and no values. There is one for each node and change.
func (s *State) ReportEvent(n *node.Node, as state.Identity, effects Effects, now time.Time) change.Change {
	at := metav1.Time{Time: now}.Rfc3339Copy()
	message := "This node has the configuration of change " + s.ID
	if s.Undoes != "" {
		message += ", which takes back change " + s.Undoes
	}
	if all := effects.onNode(n.Role == node.ControlPlane); len(all) > 0 {
		message += ": " + strings.Join(all, "; ")
	}
	return change.ApplyObject{Keep: true, Unread: true, As: as, Object: &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: n.Name + ".kubeadm-" + s.ID},
		// kubectl looks for the name of a Node in both: kubelets have only that.
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: types.UID(n.Name)},
		Reason:         eventReason, Message: message, Type: corev1.EventTypeNormal,
		Source:              corev1.EventSource{Component: "kubeadm", Host: n.Name},
		ReportingController: "kubeadm.kubernetes.io/kubeadm", ReportingInstance: n.Name,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}}
}

// onNode describes what of the effects is done on each node of that role.
func (f Effects) onNode(isControlPlane bool) (all []string) {
	if len(f.Certificates) > 0 && isControlPlane {
		all = append(all, "new certificates "+strings.Join(f.Certificates, ", "))
	}
	var restarted []string
	if isControlPlane {
		restarted = append(restarted, f.Restarted...)
	}
	if f.Kubelet {
		restarted = append(restarted, "kubelet")
	}
	if len(restarted) > 0 {
		all = append(all, "restarted "+strings.Join(restarted, ", "))
	}
	return all
}
