package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// replaceOnReadyNodes replaces the Pods of kube-proxy on nodes that are ready, a tenth of them at a time, if other
// nodes are not, or their Pods were not: by itself, a DaemonSet replaces none of them as long as its Pods on the others are
// unavailable, such as on nodes that have lost the endpoint.
func (a addons) replaceOnReadyNodes(ctx context.Context, e *engine.Env, digest string) error {
	ready, down, unready, err := a.listNodes(ctx, e, proxyAddon)
	if err != nil || down+unready == 0 {
		return err
	}
	if err := e.Await(ctx, a.observed()); err != nil {
		return err
	}
	pods, err := e.List(ctx, a.proxyPods())
	if err != nil {
		return err
	}
	var stale []corev1.Pod
	for _, u := range pods {
		pod, ok := toPod(u)
		if ok && ready[pod.Spec.NodeName] && pod.DeletionTimestamp == nil && pod.Annotations[reconfiguration.ProxyConfigAnnotation] != digest {
			stale = append(stale, pod)
		}
	}
	for some := range slices.Chunk(stale, min(1+len(stale)/10, maxEvicted)) {
		var evictions []change.Change
		for _, pod := range some {
			evictions = append(evictions, change.EvictPod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), As: a.as})
		}
		if err := e.DoAll(ctx, evictions...); err != nil {
			return err
		}
		if err := e.Await(ctx, a.replaced(some, digest)); err != nil {
			all := a.newPodsOf(proxyAddon)
			if broken := all.findBroken(ctx, e.Reader(), true); broken != nil {
				return broken
			}
			return problem.New(err, incompleteHint)
		}
	}
	return nil
}

// maxEvicted is how many Pods are evicted at the same time.
const maxEvicted = 50

// observed is met when the controller of kube-proxy has seen its new template: Pods that it creates by then have it.
func (a addons) observed() world.Condition {
	return world.Condition{Name: "kube-controller-manager to see the new template of kube-proxy",
		Timeout: a.node.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, state.Ref{GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), As: a.as,
				Namespace: metav1.NamespaceSystem, Name: "kube-proxy"})
			if err != nil {
				return err
			}
			if !health.IsObserved(u) {
				return errors.New("it has not seen it yet")
			}
			return nil
		}}
}

// replaced is met when the nodes of these Pods of kube-proxy have new ones, which are ready. It looks at one node after the
// other, which costs a request for each: a list of all Pods in each check would cost a page for 500 nodes.
func (a addons) replaced(pods []corev1.Pod, digest string) world.Condition {
	done := 0 // of the Pods
	return world.Condition{Name: "the new Pods of kube-proxy on nodes that are ready", Timeout: a.node.Timeouts.KubernetesAPI,
		MaxPause: world.LongPause,
		Check: func(ctx context.Context, r state.Reader) error {
			for ; done < len(pods); done++ {
				isReplaced, err := a.isReplacedOn(ctx, r, pods[done].Spec.NodeName, digest)
				if err != nil {
					return err
				}
				if !isReplaced {
					// A template that is broken is so on each node.
					onNode := a.newPodsOf(proxyAddon)
					onNode.query.FieldSelector = onNodeSelector(pods[done].Spec.NodeName)
					if broken := onNode.findBroken(ctx, r, false); broken != nil {
						return world.Permanent(broken)
					}
					return fmt.Errorf("node %s has none", untrusted.Line(pods[done].Spec.NodeName))
				}
			}
			return nil
		}}
}

// isReplacedOn reports whether a node has a Pod of kube-proxy with its new configuration that is ready.
func (a addons) isReplacedOn(ctx context.Context, r state.Reader, node, digest string) (bool, error) {
	query := a.proxyPods()
	query.FieldSelector = onNodeSelector(node)
	found, err := r.List(ctx, query)
	return slices.ContainsFunc(found, func(u unstructured.Unstructured) bool {
		pod, ok := toPod(u)
		return ok && isReady(pod) && pod.Annotations[reconfiguration.ProxyConfigAnnotation] == digest
	}), err
}

// onNodeSelector selects the Pods of a node.
func onNodeSelector(node string) string {
	return fields.OneTermEqualSelector("spec.nodeName", node).String()
}

func (a addons) proxyPods() state.Query {
	return state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), As: a.as, Namespace: metav1.NamespaceSystem,
		LabelSelector: "k8s-app=kube-proxy", Fields: []string{"metadata", "spec.nodeName", "status.conditions"}}
}

func toPod(u unstructured.Unstructured) (pod corev1.Pod, ok bool) {
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod)
	return pod, err == nil
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// listNodes returns the nodes that are ready, the number of those that are down, and that of the others whose Pod of an
// addon was not ready before the change.
func (a addons) listNodes(ctx context.Context, e *engine.Env, one addon) (ready map[string]bool, down, unready int, err error) {
	all, err := e.List(ctx, state.Query{GVK: state.NodeKind, As: a.as, Fields: []string{"metadata.name", "status.conditions"}})
	if err != nil {
		return nil, 0, 0, err
	}
	ready = map[string]bool{}
	for _, u := range all {
		var n corev1.Node
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n)
		switch {
		case err != nil || isDown(n):
			down++
		case a.notReady[one.label].Has(n.Name):
			unready++
		default:
			ready[n.Name] = true
		}
	}
	return ready, down, unready, nil
}

// isDown reports whether a node says that it is not ready.
func isDown(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}
