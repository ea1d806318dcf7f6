package addon_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// rollOut is a cluster in which kube-proxy gets one new Pod, which stays as it is.
type rollOut struct {
	*daemonSet
	pod corev1.Pod
}

func (r *rollOut) Do(ctx context.Context, c change.Change) error {
	if err := r.daemonSet.Do(ctx, c); err != nil {
		return err
	}
	if _, ok := c.(change.MutateObject); !ok {
		return nil
	}
	r.put("Pod", &r.pod)
	u := r.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "kube-system",
		Name: "kube-proxy"}].DeepCopy()
	u.Object["status"] = map[string]any{"desiredNumberScheduled": int64(1)}
	r.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "kube-system",
		Name: "kube-proxy"}] = u
	return nil
}

// Await checks once.
func (r *rollOut) Await(ctx context.Context, c world.Condition) error { return c.Check(ctx, r) }

// Containers lists the container of the new Pod.
func (r *rollOut) Containers(context.Context, string) ([]state.Container, error) {
	return []state.Container{{Name: "kube-proxy", Pod: r.pod.Name, Namespace: "kube-system", ExitCode: 1,
		Log: "F0102 03:04:05.000000 1 server.go:1] \"Error running ProxyServer\" err=\"wrong\"\n"}}, nil
}

// A new Pod that exits again and again, or whose image cannot be pulled, is the cause of a roll-out that fails. One that
// has exited once, or waits for something else, is none.
func TestBrokenPodsOfAddon(t *testing.T) {
	exited := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "the message"}}
	}
	for name, c := range map[string]struct {
		status corev1.ContainerStatus
		node   string
		cause  string // empty if the Pod is not the cause
		before string // the status of the condition Ready of the node's Pod from before; empty if it had none
	}{
		"exits on a node whose Pod was not ready before": {node: "worker1", before: "False",
			status: corev1.ContainerStatus{State: waits("CrashLoopBackOff"), LastTerminationState: exited(2), RestartCount: 1}},
		"exits on a node whose Pod was ready before": {node: "worker1", before: "True", cause: "exits with code 2",
			status: corev1.ContainerStatus{State: waits("CrashLoopBackOff"), LastTerminationState: exited(2), RestartCount: 1}},
		"exits on a node that is not ready": {node: "down",
			status: corev1.ContainerStatus{State: waits("CrashLoopBackOff"), LastTerminationState: exited(2), RestartCount: 1}},
		"exits": {status: corev1.ContainerStatus{State: waits("CrashLoopBackOff"), LastTerminationState: exited(2), RestartCount: 1},
			node: "worker1", cause: "container kube-proxy of the new Pod kube-proxy-new on node worker1 exits with code 2"},
		"exits here": {status: corev1.ContainerStatus{State: exited(1), RestartCount: 3}, node: "cp1",
			cause: "exits with code 1: \"F0102 03:04:05.000000 1 server.go:1]"},
		"has exited once":     {status: corev1.ContainerStatus{State: exited(1)}, node: "cp1"},
		"runs again":          {status: corev1.ContainerStatus{LastTerminationState: exited(1), RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, node: "cp1"},
		"has no image":        {status: corev1.ContainerStatus{State: waits("ImagePullBackOff")}, node: "cp1", cause: "does not start, ImagePullBackOff: the message"},
		"has no valid image":  {status: corev1.ContainerStatus{State: waits("InvalidImageName")}, node: "cp1", cause: "InvalidImageName"},
		"waits for a network": {status: corev1.ContainerStatus{State: waits("ContainerCreating")}, node: "cp1"},
	} {
		t.Run(name, func(t *testing.T) {
			c.status.Name = "kube-proxy"
			r := &rollOut{newDaemonSet(t), corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-new", UID: "new",
					Labels: map[string]string{"k8s-app": "kube-proxy"}},
				Spec: corev1.PodSpec{NodeName: c.node}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c.status}}}}
			r.e.World, r.node.Name = r, "cp1"
			r.addNode("cp1", corev1.ConditionTrue)
			r.addNode(c.node, corev1.ConditionTrue)
			if c.node == "down" { // the others follow, and it is warned of
				r.addNode(c.node, corev1.ConditionFalse)
			}
			if c.before != "" {
				earlier := r.pod
				earlier.Name, earlier.UID = "kube-proxy-old", "old"
				earlier.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionStatus(c.before)}}}
				r.put("Pod", &earlier)
			}
			r.changeEndpoint()
			err := engine.Run(t.Context(), r.e, []engine.Phase{addon.Reconfigure}, engine.Selection{})
			if isBroken := errors.As(err, new(*reconfiguration.BrokenAddon)); isBroken != (c.cause != "") ||
				(err == nil) != (c.node == "down") ||
				err != nil && !strings.Contains(err.Error(), c.cause) {
				t.Errorf("the roll-out ended with: %v", err)
			}
		})
	}
}
