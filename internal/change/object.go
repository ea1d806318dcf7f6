package change

import (
	"context"
	"fmt"
	"kubeadm/internal/state"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// ApplyObject makes an object exist and say what Object says. Without Keep an existing
// one that says something else is replaced; fields that Object leaves unset and the server fills in do not count.
type ApplyObject struct {
	Object state.Object
	As     state.Identity
	Keep   bool // an existing object is right as it is
	Exact  bool // the object says nothing that Object does not say; puts an earlier state back
}

// Target is the object.
func (c ApplyObject) Target() string { return state.RefOf(c.Object, c.As).Target() }

func (c ApplyObject) String() string { return "apply " + state.RefOf(c.Object, c.As).String() }

// Content is the object as YAML; of a Secret only its keys.
func (c ApplyObject) Content() string {
	u, err := ToUnstructured(c.Object)
	if err != nil {
		return ""
	}
	return content(u)
}

// Done tells whether the object exists and says all that Object says.
func (c ApplyObject) Done(ctx context.Context, r state.Reader) (bool, error) {
	now, err := r.Object(ctx, state.RefOf(c.Object, c.As))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil || c.Keep {
		return err == nil, err
	}
	want, err := ToUnstructured(c.Object)
	if err != nil || !c.Exact {
		return err == nil && within(want.Object, now.Object), err
	}
	dropServerFields(now.Object)
	return reflect.DeepEqual(want.Object, now.Object), nil
}

// Inverse restores the object that is there now, or deletes the new one.
func (c ApplyObject) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	return inverseOf(ctx, r, state.RefOf(c.Object, c.As))
}

// MutateObject changes a part of an object, or makes it where it is absent.
type MutateObject struct {
	Object state.Object // written where there is none yet
	As     state.Identity
	// Mutate changes the existing object in place; it must come to rest: a second call changes nothing.
	Mutate func(existing *unstructured.Unstructured) error
}

// Target is the object.
func (c MutateObject) Target() string { return state.RefOf(c.Object, c.As).Target() }

func (c MutateObject) String() string { return "apply " + state.RefOf(c.Object, c.As).String() }

// Content is the object as it would be where there is none yet.
func (c MutateObject) Content() string { return ApplyObject{Object: c.Object}.Content() }

// Done tells whether the object exists and Mutate would change nothing.
func (c MutateObject) Done(ctx context.Context, r state.Reader) (bool, error) {
	now, err := r.Object(ctx, state.RefOf(c.Object, c.As))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	after := now.DeepCopy()
	err = c.Mutate(after)
	return err == nil && reflect.DeepEqual(now.Object, after.Object), err
}

// Inverse restores the object that is there now, or deletes the new one.
func (c MutateObject) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	return inverseOf(ctx, r, state.RefOf(c.Object, c.As))
}

// DeleteObject makes an object be absent.
type DeleteObject struct{ Ref state.Ref }

// Target is the object.
func (c DeleteObject) Target() string { return c.Ref.Target() }

func (c DeleteObject) String() string { return "delete " + c.Ref.String() }

// Done tells whether there is no such object.
func (c DeleteObject) Done(ctx context.Context, r state.Reader) (bool, error) {
	_, err := r.Object(ctx, c.Ref)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// Inverse makes the object again.
func (c DeleteObject) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	return inverseOf(ctx, r, c.Ref)
}

// LabelNode makes a Node carry labels and taints besides those it has.
type LabelNode struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	As     state.Identity
}

// Ref names the Node.
func (c LabelNode) Ref() state.Ref { return state.Ref{GVK: state.NodeKind, Name: c.Name, As: c.As} }

// Target is the Node.
func (c LabelNode) Target() string { return c.Ref().Target() }

func (c LabelNode) String() string {
	return fmt.Sprintf("label and taint Node %s: %v %v", c.Name, slices.Sorted(maps.Keys(c.Labels)), c.taintNames())
}

func (c LabelNode) taintNames() []string {
	var names []string
	for _, t := range c.Taints {
		names = append(names, t.ToString())
	}
	return names
}

// Done tells whether the Node carries them all. A Node that cannot be read does not: a join asks through a load balancer, which may
// find no server just now. Who carries the change out asks again, and says in the end what is wrong.
func (c LabelNode) Done(ctx context.Context, r state.Reader) (bool, error) {
	u, err := r.Object(ctx, c.Ref())
	if err != nil {
		return false, nil
	}
	after, err := c.Apply(u)
	return err == nil && reflect.DeepEqual(u.Object, after.Object), err
}

// Apply returns the Node with the labels and taints added: the given taints first, then those it has.
func (c LabelNode) Apply(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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
	taints := c.missing(n.Spec.Taints)
	if len(taints) == 0 {
		return after, nil
	}
	list, err := toList(append(taints, n.Spec.Taints...))
	if err != nil {
		return nil, err
	}
	return after, unstructured.SetNestedSlice(after.Object, list, "spec", "taints")
}

func (c LabelNode) missing(have []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(c.Taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(have, func(h corev1.Taint) bool {
			return h.Key == t.Key && h.Value == t.Value && h.Effect == t.Effect
		})
	})
}

// Inverse restores the Node as it is now.
func (c LabelNode) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	return inverseOf(ctx, r, c.Ref())
}

func inverseOf(ctx context.Context, r state.Reader, ref state.Ref) (Change, error) {
	now, err := r.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		return DeleteObject{Ref: ref}, nil
	}
	if err != nil {
		return nil, err
	}
	return ApplyObject{Object: now, As: ref.As, Exact: true}, nil
}

func content(u *unstructured.Unstructured) string {
	show := u.DeepCopy()
	if u.GetKind() == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			values, _, _ := unstructured.NestedMap(show.Object, field)
			for k := range values {
				values[k] = "<withheld>"
			}
			if len(values) > 0 {
				_ = unstructured.SetNestedMap(show.Object, values, field)
			}
		}
	}
	text, err := yaml.Marshal(show.Object)
	if err != nil {
		return ""
	}
	return string(text)
}

func toList(taints []corev1.Taint) ([]any, error) {
	var list []any
	for i := range taints {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&taints[i])
		if err != nil {
			return nil, fmt.Errorf("converting taint %s: %w", taints[i].ToString(), err)
		}
		list = append(list, m)
	}
	return list, nil
}

// ApplyAll applies each of the objects.
func ApplyAll(as state.Identity, objects ...state.Object) []Change {
	var all []Change
	for _, o := range objects {
		all = append(all, ApplyObject{Object: o, As: as})
	}
	return all
}
