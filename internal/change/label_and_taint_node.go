package change

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/state"
)

// LabelAndTaintNode adds labels and taints to a Node.
type LabelAndTaintNode struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	As     state.Identity
}

// Ref names the Node.
func (c LabelAndTaintNode) Ref() state.Ref {
	return state.Ref{GVK: state.NodeKind, Name: c.Name, As: c.As}
}

// Target names the Node.
func (c LabelAndTaintNode) Target() string { return c.Ref().Target() }

func (c LabelAndTaintNode) String() string {
	var taints []string
	for _, t := range c.Taints {
		taints = append(taints, t.ToString())
	}
	return fmt.Sprintf("label and taint Node %s: %v %v", c.Name, slices.Sorted(maps.Keys(c.Labels)),
		taints)
}

// Done reports whether the Node has all of them. If the Node cannot be read, as when a load
// balancer has no healthy backend, it is false without an error: carrying out the change retries
// and reports the error.
func (c LabelAndTaintNode) Done(ctx context.Context, r state.Reader) (bool, error) {
	u, err := r.Object(ctx, c.Ref())
	if err != nil {
		return false, nil
	}
	after, err := c.Apply(u)
	return err == nil && reflect.DeepEqual(u.Object, after.Object), err
}

// Apply returns the Node with the labels and taints added: the given taints first, then those it
// has. A given taint replaces one of its key and effect with another value.
func (c LabelAndTaintNode) Apply(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var n corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", c.Name, err)
	}
	after := u.DeepCopy()
	labels := after.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, c.Labels)
	after.SetLabels(labels)
	added := slices.DeleteFunc(slices.Clone(c.Taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(h corev1.Taint) bool {
			return h.Key == t.Key && h.Value == t.Value && h.Effect == t.Effect
		})
	})
	if len(added) == 0 {
		return after, nil
	}
	kept := slices.DeleteFunc(n.Spec.Taints, func(h corev1.Taint) bool {
		return slices.ContainsFunc(added, func(t corev1.Taint) bool { return h.Key == t.Key && h.Effect == t.Effect })
	})
	var list []any
	for _, taint := range append(added, kept...) {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&taint)
		if err != nil {
			return nil, fmt.Errorf("converting taint %s: %w", taint.ToString(), err)
		}
		list = append(list, m)
	}
	return after, unstructured.SetNestedSlice(after.Object, list, "spec", "taints")
}

// Inverse restores the current Node.
func (c LabelAndTaintNode) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	return restoreObject(ctx, r, c.Ref())
}
