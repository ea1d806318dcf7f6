package addon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	failing map[string]bool    // nodes on which one of these was not ready, for a reason that is not the change
}

// watchPods notes the Pods of an addon before its roll-out.
func (a addons) watchPods(ctx context.Context, e *engine.Env, label string) (w newPods, err error) {
	w = newPods{addons: a, earlier: map[types.UID]bool{}, failing: map[string]bool{}, query: state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
		As: a.as, Namespace: metav1.NamespaceSystem, LabelSelector: "k8s-app=" + label,
		Fields: []string{"metadata", "spec.nodeName", "status.conditions", "status.containerStatuses"}}}
	all, err := e.List(ctx, w.query)
	if err != nil {
		return w, err
	}
	for _, u := range all {
		w.earlier[u.GetUID()] = true
		if pod, ok := toPod(u); ok && !isReady(pod) {
			w.failing[pod.Spec.NodeName] = true
		}
	}
	return w, nil
}

// findBroken is a *reconfiguration.BrokenAddon if a new Pod exits again and again. At the end of the wait, an image that
// cannot be pulled is one too. On a node that is not ready, or whose Pod was not before, that is no evidence against the
// change.
func (w newPods) findBroken(ctx context.Context, r state.Reader, isEnd bool) error {
	all, err := r.List(ctx, w.query)
	if err != nil {
		return nil // the wait goes on
	}
	for _, u := range all {
		pod, ok := toPod(u)
		if !ok || w.earlier[pod.UID] || w.failing[pod.Spec.NodeName] || pod.DeletionTimestamp != nil {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			if cause := w.describeFailure(ctx, r, pod, c, isEnd); cause != "" && w.isOnReadyNode(ctx, r, pod) {
				return &reconfiguration.BrokenAddon{Err: problem.New(fmt.Errorf("container %s of the new Pod %s on node %s %s",
					untrusted.Line(c.Name), untrusted.Line(pod.Name), untrusted.Line(pod.Spec.NodeName), cause), untrusted.CommandHint(
					"look at the Pods", "kubectl get pods --namespace kube-system --selector", w.query.LabelSelector))}
			}
		}
	}
	return nil
}

// isOnReadyNode reports whether the node of a Pod is ready, as far as that can be read.
func (w newPods) isOnReadyNode(ctx context.Context, r state.Reader, pod corev1.Pod) bool {
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: pod.Spec.NodeName, As: w.as})
	var n corev1.Node
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n)
	}
	return err == nil && !isDown(n)
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
