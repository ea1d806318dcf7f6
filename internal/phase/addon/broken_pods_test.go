package addon_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/problem"
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

// revisionLabel is what the controller of a DaemonSet adds to the labels of the template.
const revisionLabel = "controller-revision-hash"

// addRevision adds what the controller stores of a template.
func (r *rollOut) addRevision(number int64) {
	r.t.Helper()
	hash := fmt.Sprint(number)
	r.put(&appsv1.ControllerRevision{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-" + hash,
			Labels:          map[string]string{"k8s-app": "kube-proxy", revisionLabel: hash},
			OwnerReferences: []metav1.OwnerReference{{UID: "kube-proxy"}}},
		Revision: number})
}

func (r *rollOut) Do(ctx context.Context, c change.Change) error {
	if err := r.daemonSet.Do(ctx, c); err != nil {
		return err
	}
	if _, ok := c.(change.MutateObject); !ok {
		return nil
	}
	r.replacePod()
	return nil
}

// replacePod is what the controller does after a change of the template.
func (r *rollOut) replacePod() {
	r.t.Helper()
	r.addRevision(10)
	r.put(&r.pod)
	u := r.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "kube-system",
		Name: "kube-proxy"}].DeepCopy()
	u.SetUID("kube-proxy")
	u.Object["status"] = map[string]any{"desiredNumberScheduled": int64(1), "observedGeneration": u.GetGeneration()}
	r.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "kube-system",
		Name: "kube-proxy"}] = u
}

// Await checks once.
func (r *rollOut) Await(ctx context.Context, c world.Condition) error { return c.Check(ctx, r) }

// Containers lists the container of the new Pod.
func (r *rollOut) Containers(context.Context, string) ([]state.Container, error) {
	return []state.Container{{Name: "kube-proxy", Pod: r.pod.Name, Namespace: "kube-system", ExitCode: 1,
		Log: "F0102 03:04:05.000000 1 server.go:1] \"Error running ProxyServer\" err=\"wrong\"\n"}}, nil
}

// PodLog is the log of the last run of a Pod on another node, of a container that waits for its restart.
func (r *rollOut) PodLog(_ context.Context, of state.PodLog) (string, error) {
	if r.pod.Spec.NodeName == "down" {
		r.t.Error("the log of a Pod is read whose node is not ready")
	}
	if of.Pod != r.pod.Name || of.Container != "kube-proxy" || !of.Previous || of.Lines == 0 {
		return "", fmt.Errorf("no log of %+v", of)
	}
	return "I0102 03:04:05.000000 1 server.go:1] starts\nF0102 03:04:05.000000 1 server.go:2] \x1b[2Jno such mode\n", nil
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
	crashes := corev1.ContainerStatus{State: waits("CrashLoopBackOff"), LastTerminationState: exited(2), RestartCount: 1}
	for name, c := range map[string]struct {
		status corev1.ContainerStatus
		node   string
		cause  string // empty if the Pod is not the cause
		before string // the status of the condition Ready of the node's Pod from before; empty if it had none
		// an interrupted run has deployed kube-proxy already
		resumed bool
		// the Pod is of an older template
		older bool
	}{
		"exits on a node whose Pod was not ready before": {node: "worker1", before: "False", status: crashes},
		"exits on a node whose Pod was ready before":     {node: "worker1", before: "True", cause: "exits with code 2", status: crashes},
		"exits on a node that is not ready":              {node: "down", status: crashes},
		"exits since an interrupted run":                 {node: "worker1", before: "True", cause: "exits with code 2", resumed: true, status: crashes},
		"exits since an interrupted run, and before it":  {node: "worker1", before: "False", resumed: true, status: crashes},
		"exits since before an interrupted run":          {node: "worker1", before: "True", resumed: true, older: true, status: crashes},
		"exits": {status: corev1.ContainerStatus{State: waits("CrashLoopBackOff"), LastTerminationState: exited(2), RestartCount: 1},
			node: "worker1", cause: "container kube-proxy of the new Pod kube-proxy-new on node worker1 exits with code 2: \"F0102 03:04:05.000000 1 server.go:2] \\x1b[2Jno such mode\""},
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
					Labels: map[string]string{"k8s-app": "kube-proxy", revisionLabel: "10"}},
				Spec: corev1.PodSpec{NodeName: c.node}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c.status}}}}
			if c.older {
				r.pod.Labels[revisionLabel] = "9"
			}
			r.e.World, r.node.Name = r, "cp1"
			r.addRevision(9)
			r.addNode("cp1", corev1.ConditionTrue)
			r.addNode(c.node, corev1.ConditionTrue)
			if c.node == "down" { // the others follow, and it is warned of
				r.addNode(c.node, corev1.ConditionFalse)
			}
			if c.before != "" {
				earlier := r.pod
				earlier.Name, earlier.UID, earlier.Labels = "kube-proxy-old", "old", map[string]string{"k8s-app": "kube-proxy", revisionLabel: "9"}
				earlier.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionStatus(c.before)}}}
				r.put(&earlier)
			}
			change := r.changeEndpoint()
			if c.resumed {
				if change.Addons = true; c.before == "False" {
					change.NotReady = map[string]reconfiguration.NodeSet{"kube-proxy": reconfiguration.NewNodeSet([]string{c.node})}
				}
				r.replacePod()
			}
			err := engine.Run(t.Context(), r.e, []engine.Phase{addon.Reconfigure}, engine.Selection{})
			isWarned := c.node == "down" || c.before == "False"
			if isBroken := errors.As(err, new(*reconfiguration.BrokenAddon)); isBroken != (c.cause != "") || (err == nil) != isWarned ||
				err != nil && !strings.Contains(err.Error(), c.cause) {
				t.Errorf("the roll-out ended with: %v", err)
			}
			if isExplained := slices.Contains(problem.Hints(err), "to take the change back: kubeadm reconfigure undo"); isExplained != (c.cause != "") {
				t.Errorf("the error has the hints %q", problem.Hints(err))
			}
			if got := change.NotReady["kube-proxy"].Has(c.node); got != (c.before == "False") {
				t.Errorf("the change says that the Pod on %s was not ready before: %t", c.node, got)
			}
		})
	}
}

// evicting is a roll-out in which no new Pod takes the place of an evicted one.
type evicting struct{ *rollOut }

func (e evicting) Do(ctx context.Context, c change.Change) error {
	if _, ok := c.(change.EvictPod); ok {
		return nil
	}
	return e.rollOut.Do(ctx, c)
}

// newCrashingProxy is a roll-out of kube-proxy whose new Pod on worker1 crashes. The one from before was ready or not.
func newCrashingProxy(t *testing.T, wasReady corev1.ConditionStatus) *rollOut {
	t.Helper()
	r := &rollOut{newDaemonSet(t), corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-new", UID: "new",
			Labels: map[string]string{"k8s-app": "kube-proxy", revisionLabel: "10"}},
		Spec: corev1.PodSpec{NodeName: "worker1"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "kube-proxy", RestartCount: 1, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}}}}}}
	r.e.World, r.node.Name = evicting{r}, "cp1"
	r.addRevision(9)
	r.addNode("worker1", corev1.ConditionTrue)
	r.addPod("worker1", nil, wasReady)
	r.changeEndpoint()
	return r
}

// A kube-proxy that crashes is found too while Pods are evicted, since another node is not ready.
func TestBrokenPodsWhileEvicting(t *testing.T) {
	r := newCrashingProxy(t, corev1.ConditionTrue)
	r.addNode("down", corev1.ConditionFalse)
	err := engine.Run(t.Context(), r.e, []engine.Phase{addon.Reconfigure}, engine.Selection{})
	if !errors.As(err, new(*reconfiguration.BrokenAddon)) || !strings.Contains(err.Error(), "exits with code 2") {
		t.Errorf("the roll-out ended with: %v", err)
	}
}

// Where no Pod was ready before, none shows that the change works: the roll-out is not complete.
func TestRollOutWithoutReadyPods(t *testing.T) {
	r := newCrashingProxy(t, corev1.ConditionFalse)
	err := engine.Run(t.Context(), r.e, []engine.Phase{addon.Reconfigure}, engine.Selection{})
	if errors.As(err, new(*reconfiguration.BrokenAddon)) || err == nil || !strings.Contains(err.Error(), "is not complete") {
		t.Errorf("the roll-out ended with: %v", err)
	}
}

// The more new Pods there are, the less often all of them are listed, but once more at the end of the wait.
func TestManyNewPodsAreListedSeldom(t *testing.T) {
	for name, c := range map[string]struct {
		others   int // Pods, beside one that exits
		exits    int // the second in which that is seen first, of a wait of two minutes
		ends     int // the second in which the roll-out ends, at the latest
		min, max int // how often they are listed
	}{
		"few":              {others: 9, exits: 50, ends: 51, min: 95, max: 105},
		"many":             {others: 4_999, exits: 50, ends: 65, min: 4, max: 6},
		"many, at the end": {others: 4_999, exits: 110, ends: 121, min: 8, max: 10},
		"few, at the end":  {others: 9, exits: 110, ends: 111, min: 215, max: 225},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStaleSet(t, func(second int) corev1.ContainerStatus {
				if second >= c.exits {
					return exited(3, 1)
				}
				return runs(0)
			})
			s.others, s.isUnavailable = c.others, true
			err := engine.Run(t.Context(), s.e, []engine.Phase{addon.Reconfigure}, engine.Selection{})
			if !errors.As(err, new(*reconfiguration.BrokenAddon)) {
				t.Errorf("the roll-out ended with: %v", err)
			}
			took := int(s.now.Sub(s.first) / time.Second)
			if took < c.exits || took > c.ends || s.looks < c.min || s.looks > c.max {
				t.Errorf("it ended after %d s, %d lists", took, s.looks)
			}
		})
	}
}
