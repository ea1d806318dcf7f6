package change

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/state"
)

// ApplyObject creates an object, or updates the fields that Object sets. Fields that Object leaves
// unset keep their values, such as those that the API server defaults.
type ApplyObject struct {
	Object state.Object
	As     state.Identity
	Keep   bool // an existing object is not changed
	Exact  bool // fields that Object leaves unset are removed; used to restore an earlier state
	// Unreadable is set, with Keep, if As may create the object but perhaps not read it, as a kubelet an Event.
	Unreadable bool
}

// Target names the object.
func (c ApplyObject) Target() string { return state.RefOf(c.Object, c.As).Target() }

func (c ApplyObject) String() string { return "apply " + state.RefOf(c.Object, c.As).String() }

// Content is the object as YAML; of a Secret only its keys.
func (c ApplyObject) Content() string {
	u, err := ToUnstructured(c.Object)
	if err != nil {
		return ""
	}
	return RenderYAML(u)
}

// Done reports whether the object exists with all the fields that Object sets, or, if it may not be read, false.
func (c ApplyObject) Done(ctx context.Context, r state.Reader) (bool, error) {
	now, err := r.Object(ctx, state.RefOf(c.Object, c.As))
	if apierrors.IsNotFound(err) || c.Unreadable && apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil || c.Keep {
		return err == nil, err
	}
	want, err := ToUnstructured(c.Object)
	if err != nil || !c.Exact {
		return err == nil && isSubset("", want.Object, now.Object), err
	}
	dropServerFields(now.Object)
	return reflect.DeepEqual(want.Object, now.Object), nil
}

// Inverse restores the existing object, or deletes the new one. One that may not be read cannot be restored.
func (c ApplyObject) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	undo, err := restoreObject(ctx, r, state.RefOf(c.Object, c.As))
	if c.Unreadable && apierrors.IsForbidden(err) {
		return nil, ErrIrreversible
	}
	return undo, err
}

// MutateObject changes a part of an existing object, or creates the object.
type MutateObject struct {
	Object state.Object // created if it does not exist
	As     state.Identity
	// Mutate changes the existing object in place. It must be idempotent.
	Mutate func(existing *unstructured.Unstructured) error
	// Subresource is the part that is written, such as "approval"; empty for the object itself. Of
	// an object that does not exist no part is written: that is an error.
	Subresource string
	// MustExist makes it an error that the object does not exist, such as a Node that was just deleted.
	MustExist bool
}

// Target names the object.
func (c MutateObject) Target() string { return state.RefOf(c.Object, c.As).Target() }

func (c MutateObject) String() string {
	if c.Subresource != "" {
		return "apply the " + c.Subresource + " of " + state.RefOf(c.Object, c.As).String()
	}
	return "apply " + state.RefOf(c.Object, c.As).String()
}

// Creates reports whether an object that does not exist is created.
func (c MutateObject) Creates() bool { return c.Subresource == "" && !c.MustExist }

// Content is the object that would be created.
func (c MutateObject) Content() string {
	if !c.Creates() {
		return ""
	}
	return ApplyObject{Object: c.Object}.Content()
}

// Done reports whether the object exists and Mutate would change nothing.
func (c MutateObject) Done(ctx context.Context, r state.Reader) (bool, error) {
	now, err := r.Object(ctx, state.RefOf(c.Object, c.As))
	if apierrors.IsNotFound(err) && c.Creates() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	after := now.DeepCopy()
	err = c.Mutate(after)
	return err == nil && reflect.DeepEqual(now.Object, after.Object), err
}

// Inverse restores the existing object, or deletes the new one. A subresource cannot be restored.
func (c MutateObject) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	if c.Subresource != "" {
		return nil, ErrIrreversible
	}
	return restoreObject(ctx, r, state.RefOf(c.Object, c.As))
}

// AnnotateNode returns the change that sets annotations of an existing Node; an empty value removes one.
func AnnotateNode(name string, as state.Identity, values map[string]string) MutateObject {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.SetGroupVersionKind(state.NodeKind)
	return MutateObject{Object: n, As: as, MustExist: true, Mutate: func(u *unstructured.Unstructured) error {
		for key, value := range values {
			if value == "" {
				unstructured.RemoveNestedField(u.Object, "metadata", "annotations", key)
			} else if err := unstructured.SetNestedField(u.Object, value, "metadata", "annotations", key); err != nil {
				return err
			}
		}
		return nil
	}}
}

// DeleteObject deletes an object. Its Target is that of the Ref.
type DeleteObject struct {
	state.Ref
	// UID is that of the object; another one of the same name is not deleted. Empty means any.
	UID string
}

func (c DeleteObject) String() string { return "delete " + c.Ref.String() }

// Done reports whether the object does not exist.
func (c DeleteObject) Done(ctx context.Context, r state.Reader) (bool, error) {
	now, err := r.Object(ctx, c.Ref)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && !c.Matches(now), err
}

// Matches reports whether an object of that name is the one to delete.
func (c DeleteObject) Matches(u *unstructured.Unstructured) bool {
	return c.UID == "" || string(u.GetUID()) == c.UID
}

// Inverse creates the object again.
func (c DeleteObject) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	return restoreObject(ctx, r, c.Ref)
}

// restoreObject returns the change that restores the current state of an object.
func restoreObject(ctx context.Context, r state.Reader, ref state.Ref) (Change, error) {
	now, err := r.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		return DeleteObject{Ref: ref}, nil
	}
	if err != nil {
		return nil, err
	}
	return ApplyObject{Object: now, As: ref.As, Exact: true}, nil
}

// RenderYAML returns the object as YAML, without the values of a Secret and without what only the
// API server sets; empty if it cannot be encoded.
func RenderYAML(u *unstructured.Unstructured) string {
	show := u.DeepCopy()
	dropServerFields(show.Object)
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

// ApplyAll returns an ApplyObject for each of the objects.
func ApplyAll(as state.Identity, objects ...state.Object) []Change {
	var all []Change
	for _, o := range objects {
		all = append(all, ApplyObject{Object: o, As: as})
	}
	return all
}
