package addon

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	workload state.Ref // the DaemonSet or Deployment
	query    state.Query
	tries    bool                    // whether a configuration works, so that one with which a Pod is not ready does not
	notReady reconfiguration.NodeSet // where a Pod was not ready before the change
	next     time.Time               // when findBroken lists them again
}

// The Pods of a roll-out are listed again after listPause for each that was listed, but at most maxListPause. Up to some 600 Pods
// that is within the pause between two checks.
const (
	listPause    = 3 * time.Millisecond
	maxListPause = 15 * time.Second
)

func (a addons) newPodsOf(one addon) newPods {
	return newPods{addons: a, workload: a.refOf(one), tries: one == dnsAddon && a.triesCorefile, notReady: a.notReady[one.label], query: state.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), As: a.as, Namespace: metav1.NamespaceSystem, LabelSelector: "k8s-app=" + one.label,
		Fields: []string{"metadata", "spec.nodeName", "status.conditions", "status.containerStatuses"}}}
}

// listNotReady returns the nodes on which a Pod of an addon is not ready.
func (a addons) listNotReady(ctx context.Context, e *engine.Env, one addon) (reconfiguration.NodeSet, error) {
	all, err := e.List(ctx, a.newPodsOf(one).query)
	var nodes []string
	for _, u := range all {
		if pod, ok := toPod(u); ok && !isReady(pod) && pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return reconfiguration.NewNodeSet(nodes), err
}

// list returns the Pods of the latest template, without those that are being deleted.
func (w newPods) list(ctx context.Context, r state.Reader) (pods []corev1.Pod, err error) {
	revision, err := findRevision(ctx, r, w.workload, w.query.LabelSelector)
	if err != nil || revision == "" {
		return nil, err
	}
	query := w.query
	query.LabelSelector += "," + revision
	all, err := r.List(ctx, query)
	for _, u := range all {
		if pod, ok := toPod(u); ok && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods, err
}

// evidenceOf returns those of the Pods that are evidence for or against the change: those of nodes whose Pod was ready before.
func (w newPods) evidenceOf(pods []corev1.Pod) (evidence []corev1.Pod) {
	for _, pod := range pods {
		if !w.notReady.Has(pod.Spec.NodeName) {
			evidence = append(evidence, pod)
		}
	}
	return evidence
}

// findBroken is a *reconfiguration.BrokenAddon if a Pod of the latest template exits again and again. At the end of the
// wait, an image that cannot be pulled is one too. On a node that is not ready, or whose Pod was not before the change, that
// is no evidence against the change. Before the end of the wait, many Pods are not listed again at once.
func (w *newPods) findBroken(ctx context.Context, r state.Reader, isEnd bool) error {
	// A longer pause is that of a clock that was set back.
	if pause := w.next.Sub(r.Now()); !isEnd && pause > 0 && pause <= maxListPause {
		return nil
	}
	pods, err := w.list(ctx, r)
	if err != nil {
		return nil // the wait goes on
	}
	w.next = r.Now().Add(min(time.Duration(len(pods))*listPause, maxListPause))
	return w.findBrokenOf(ctx, r, w.evidenceOf(pods), isEnd)
}

// findBrokenOf is findBroken of these Pods.
func (w newPods) findBrokenOf(ctx context.Context, r state.Reader, pods []corev1.Pod, isEnd bool) error {
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			// The log comes last: the API server waits long for that of a node that is down.
			cause := w.describeFailure(c, isEnd)
			if cause == "" || !w.isOnReadyNode(ctx, r, pod) {
				continue
			}
			if isCrashing(c) {
				cause += w.explainCrash(ctx, r, pod, c)
			}
			return &reconfiguration.BrokenAddon{Err: problem.New(fmt.Errorf("container %s of the new Pod %s on node %s %s",
				untrusted.Line(c.Name), untrusted.Line(pod.Name), untrusted.Line(pod.Spec.NodeName), cause), w.podsHint())}
		}
	}
	return nil
}

// podsHint says how to look at the Pods.
func (w newPods) podsHint() string {
	return untrusted.CommandHint("look at the Pods", "kubectl get pods --namespace kube-system --selector", w.query.LabelSelector)
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

// exitOf is how a container that does not run has exited; nil if it runs or has not.
func exitOf(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Running != nil {
		return nil
	}
	return cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
}

// isCrashing reports whether a container exits again and again. The first time may be a coincidence.
func isCrashing(c corev1.ContainerStatus) bool {
	exited := exitOf(c)
	return exited != nil && exited.ExitCode != 0 && c.RestartCount > 0
}

// explainCrash returns what the log says of a crash, to be appended to its description; empty if it says nothing.
func (w newPods) explainCrash(ctx context.Context, r state.Reader, pod corev1.Pod, c corev1.ContainerStatus) string {
	cause := crashlog.Cause(w.readLog(ctx, r, pod, c), 2)
	if cause == "" {
		return ""
	}
	return ": " + cause
}

// describeFailure says by its status what is wrong with a container; empty if it runs, or may run soon.
func (w newPods) describeFailure(c corev1.ContainerStatus, isEnd bool) string {
	if c.State.Running != nil {
		if isEnd && w.tries && !c.Ready {
			return "runs, but is not ready"
		}
		return ""
	}
	if isCrashing(c) {
		return fmt.Sprintf("exits with code %d", exitOf(c).ExitCode)
	}
	if waits := c.State.Waiting; waits != nil && (waits.Reason == "InvalidImageName" ||
		isEnd && (waits.Reason == "ErrImagePull" || waits.Reason == "ImagePullBackOff")) {
		return fmt.Sprintf("does not start, %s: %s", waits.Reason, untrusted.Line(waits.Message))
	}
	return ""
}

// readLog reads the last lines of a container that has exited: from the container runtime if it ran on this machine, and
// from the API server otherwise. It is empty if they cannot be read, which does not make the exit less certain.
func (w newPods) readLog(ctx context.Context, r state.Reader, pod corev1.Pod, c corev1.ContainerStatus) (log string) {
	if pod.Spec.NodeName == w.node.Name {
		log = w.readOwnLog(ctx, r, pod, c.Name)
	}
	if log != "" {
		return log
	}
	const lines = 50 // a stack trace may follow the cause
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	log, err := r.PodLog(ctx, state.PodLog{Namespace: pod.Namespace, Pod: pod.Name, Container: c.Name, Lines: lines,
		Previous: c.State.Terminated == nil, As: w.as})
	if err != nil {
		return ""
	}
	return log
}

// logTimeout is how long the kubelet of another node has to send the end of a log.
const logTimeout = 10 * time.Second

// readOwnLog reads the last lines of a container that ran on this machine.
func (w newPods) readOwnLog(ctx context.Context, r state.Reader, pod corev1.Pod, container string) (log string) {
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
