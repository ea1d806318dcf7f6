// Package drain lets the Pods of a node leave it.
package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// evictionPause is the time between two attempts to evict the Pods that are left.
const evictionPause = 5 * time.Second

// Options say which node is drained.
type Options struct {
	Node    string
	As      state.Identity
	Timeout time.Duration // for all Pods to leave
	Longer  string        // the hint how to wait longer
}

// Run cordons the node and evicts its Pods, until none is left or the timeout is over. With a stopped kubelet no Pod
// would exit, so none is evicted.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	as, name := o.As, o.Node
	kubelet, err := e.World.Service(ctx, localkubelet.Service)
	if err == nil && !kubelet.Active {
		e.Say("the kubelet is not running, so node %s is not drained: no Pod could exit cleanly", name)
		return nil
	}
	e.Say("cordoning node %s", name)
	if err := e.Do(ctx, cordon(as, name)); err != nil {
		return err
	}
	begun := e.World.Now()
	deadline := begun.Add(o.Timeout)
	announced, blocked := "", ""
	wait := e.Await // the first wait is announced
	for {
		pods, err := listPods(ctx, e.Reader(), as, name)
		if err != nil || len(pods) == 0 {
			return err
		}
		var names []string
		for _, pod := range pods {
			names = append(names, pod.Namespace+"/"+pod.Name)
			if announced == "" && findController(pod) == "" {
				e.Warn("Pod %s/%s has no controller, so it will not be re-created on another node",
					pod.Namespace, pod.Name)
			}
		}
		left := strings.Join(names, ", ")
		if left != announced {
			announced = left
			e.Say("evicting Pods and waiting for them to leave, at most %s: %s",
				o.Timeout, left)
		}
		refused, err := evict(ctx, e, as, pods)
		if err != nil {
			return err
		}
		if now := strings.Join(refused, ", "); now != blocked {
			if blocked = now; blocked != "" {
				e.Say("PodDisruptionBudgets do not allow the eviction of %s yet: trying again every %s",
					blocked, evictionPause)
			}
		}
		remaining := deadline.Sub(e.World.Now())
		if remaining <= 0 {
			return newError(o, left, refused)
		}
		// whether they have left is read again above
		gone := gonePods(as, name, min(evictionPause, remaining))
		gone.Begun, gone.MaxPause = begun, world.LongPause
		_ = wait(ctx, gone)
		wait = func(ctx context.Context, cs ...world.Condition) error {
			return e.World.Await(ctx, cs[0])
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}

// cordon marks a Node as unschedulable.
func cordon(as state.Identity, name string) change.Change {
	n := &corev1.Node{}
	n.SetGroupVersionKind(state.NodeKind)
	n.Name, n.Spec.Unschedulable = name, true
	return change.MutateObject{Object: n, As: as, MustExist: true, Mutate: func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, true, "spec", "unschedulable")
	}}
}

func newError(o Options, left string, refused []string) error {
	err := fmt.Errorf("after %s, these Pods are still on node %s: %s", o.Timeout, o.Node,
		left)
	hints := []string{
		o.Longer,
		untrusted.CommandHint("or keep the node", "kubectl uncordon", o.Node),
	}
	if len(refused) > 0 {
		err = fmt.Errorf("%w; their PodDisruptionBudgets do not allow the eviction of %s", err,
			strings.Join(refused, ", "))
		hints = slices.Insert(hints, 0,
			"add replicas or nodes, or relax the budgets: kubectl get poddisruptionbudgets -A")
	}
	return problem.New(err, hints...)
}

// evict evicts the Pods and returns the names of those that a budget does not allow to evict now.
func evict(ctx context.Context, e *engine.Env, as state.Identity,
	pods []corev1.Pod) (refused []string, err error) {
	for _, pod := range pods {
		err := e.Do(ctx, change.EvictPod{Namespace: pod.Namespace, Name: pod.Name,
			UID: string(pod.UID), As: as})
		switch {
		case errors.Is(err, change.ErrDisruptionBudget):
			refused = append(refused, pod.Namespace+"/"+pod.Name)
		case err != nil:
			return nil, err
		}
	}
	return refused, nil
}

// gonePods is the condition that no Pod is left that can be evicted.
func gonePods(as state.Identity, name string, limit time.Duration) (c world.Condition) {
	c.Name, c.Timeout, c.MaxPause = "the Pods of node "+name+" to leave", limit, world.LongPause
	c.Check = func(ctx context.Context, r state.Reader) error {
		pods, err := listPods(ctx, r, as, name)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d Pods are left", len(pods))
		}
		return err
	}
	return c
}

// listPods lists the Pods of a node that run and can be evicted: neither static Pods nor Pods of
// DaemonSets, which tolerate a cordon.
func listPods(ctx context.Context, r state.Objects, as state.Identity,
	name string) (pods []corev1.Pod, err error) {
	all, err := r.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
		FieldSelector: "spec.nodeName=" + name, As: as, Fields: []string{"metadata", "status.phase"}})
	for _, u := range all {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod); err != nil {
			return nil, fmt.Errorf("reading Pod %s/%s: %w", u.GetNamespace(), u.GetName(), err)
		}
		_, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		isFinished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !isMirror && !isFinished && findController(pod) != "DaemonSet" {
			pods = append(pods, pod)
		}
	}
	return pods, err
}

// findController returns the kind of the controller of a Pod; empty if it has none.
func findController(pod corev1.Pod) string {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return o.Kind
		}
	}
	return ""
}
