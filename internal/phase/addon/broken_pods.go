package addon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/crashlog"
	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// newPods finds out what is wrong with the Pods that an addon gets by its roll-out.
type newPods struct {
	addons
	query   state.Query
	earlier map[types.UID]bool // Pods from before the roll-out
}

// watchPods notes the Pods of an addon before its roll-out.
func (a addons) watchPods(ctx context.Context, e *engine.Env, label string) (w newPods, err error) {
	w = newPods{addons: a, earlier: map[types.UID]bool{}, query: state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
		As: a.as, Namespace: metav1.NamespaceSystem, LabelSelector: "k8s-app=" + label,
		Fields: []string{"metadata", "spec.nodeName", "status.containerStatuses"}}}
	all, err := e.List(ctx, w.query)
	if err != nil {
		return w, err
	}
	for _, u := range all {
		w.earlier[u.GetUID()] = true
	}
	return w, nil
}

// findBroken is a *reconfiguration.BrokenAddon if a new Pod exits again and again. At the end of the wait, an image that
// cannot be pulled is one too.
func (w newPods) findBroken(ctx context.Context, r state.Reader, isEnd bool) error {
	all, err := r.List(ctx, w.query)
	if err != nil {
		return nil // the wait goes on
	}
	for _, u := range all {
		pod, ok := toPod(u)
		if !ok || w.earlier[pod.UID] || pod.DeletionTimestamp != nil {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			if cause := w.describeFailure(ctx, r, pod, c, isEnd); cause != "" {
				return &reconfiguration.BrokenAddon{Err: problem.New(fmt.Errorf("container %s of the new Pod %s on node %s %s",
					untrusted.Line(c.Name), untrusted.Line(pod.Name), untrusted.Line(pod.Spec.NodeName), cause), untrusted.CommandHint(
					"look at the Pods", "kubectl get pods --namespace kube-system --selector", w.query.LabelSelector))}
			}
		}
	}
	return nil
}

// describeFailure says why a container does not run; empty if it runs, or may run soon.
func (w newPods) describeFailure(ctx context.Context, r state.Reader, pod corev1.Pod, c corev1.ContainerStatus,
	isEnd bool) string {
	if c.State.Running != nil {
		return ""
	}
	exited := c.State.Terminated
	if exited == nil {
		exited = c.LastTerminationState.Terminated
	}
	if exited != nil && exited.ExitCode != 0 && c.RestartCount > 0 { // the first time may be a coincidence
		text := fmt.Sprintf("exits with code %d", exited.ExitCode)
		if log := w.readLog(ctx, r, pod, c.Name); log != "" {
			text += ": " + crashlog.Cause(log, 2)
		}
		return text
	}
	if waits := c.State.Waiting; waits != nil && (waits.Reason == "InvalidImageName" ||
		isEnd && (waits.Reason == "ErrImagePull" || waits.Reason == "ImagePullBackOff")) {
		return fmt.Sprintf("does not start, %s: %s", waits.Reason, untrusted.Line(waits.Message))
	}
	return ""
}

// readLog reads the last lines of a container that runs on this machine; empty if it does not.
func (w newPods) readLog(ctx context.Context, r state.Reader, pod corev1.Pod, container string) (log string) {
	if pod.Spec.NodeName != w.node.Name {
		return ""
	}
	all, err := r.Containers(ctx, w.node.CRISocket)
	if err != nil {
		return ""
	}
	for _, c := range all { // oldest first
		if c.Pod == pod.Name && c.Namespace == pod.Namespace && c.Name == container && c.Log != "" {
			log = c.Log
		}
	}
	return log
}
