package change

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/state"
)

// MergeInto merges Object into a copy of the existing object. Fields that Object leaves unset keep
// their values, such as defaulted and immutable fields, and other programs' labels and
// annotations. Lists, data and selectors are replaced as a whole. With Exact nothing but the
// fields that only the API server writes is kept.
func (c ApplyObject) MergeInto(
	existing *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if c.Keep {
		return existing.DeepCopy(), nil
	}
	want, err := ToUnstructured(c.Object)
	if err != nil {
		return nil, err
	}
	if c.Exact {
		metadata, _, _ := unstructured.NestedMap(existing.Object, "metadata")
		for _, field := range serverFields() {
			if v, ok := metadata[field]; ok {
				_ = unstructured.SetNestedField(want.Object, v, "metadata", field)
			}
		}
		if status, ok := existing.Object["status"]; ok {
			want.Object["status"] = runtime.DeepCopyJSONValue(status)
		}
		return want, nil
	}
	after := existing.DeepCopy()
	mergeFields(after.Object, want.Object)
	return after, nil
}

func mergeFields(into, want map[string]any) {
	for k, w := range want {
		if isSubset(k, w, into[k]) {
			continue
		}
		fields, isMap := w.(map[string]any)
		existing, both := into[k].(map[string]any)
		if isMap && both && !isAtomicMap(k) {
			mergeFields(existing, fields)
			continue
		}
		into[k] = runtime.DeepCopyJSONValue(w)
	}
}

// ToUnstructured returns a copy of the object without the fields that only the API server
// writes: the status, and metadata such as uid and resourceVersion.
func ToUnstructured(o state.Object) (*unstructured.Unstructured, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		c := u.DeepCopy()
		dropServerFields(c.Object)
		return c, nil
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("converting %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind,
			o.GetName(), err)
	}
	dropServerFields(m)
	return &unstructured.Unstructured{Object: m}, nil
}

// serverFields returns the fields of metadata that only the API server writes.
func serverFields() []string {
	return []string{"uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink"}
}

func dropServerFields(o map[string]any) {
	for _, field := range serverFields() {
		unstructured.RemoveNestedField(o, "metadata", field)
	}
	unstructured.RemoveNestedField(o, "status")
}

// WithFieldsOf is the object with only those fields of maps within lists that the shape has as
// well. ApplyObject replaces lists, after which the API server sets the defaults of their items
// again.
func WithFieldsOf(shape, object *unstructured.Unstructured) *unstructured.Unstructured {
	reduced, ok := reduceLists(shape.Object, object.Object, false).(map[string]any)
	if !ok {
		return object
	}
	return &unstructured.Unstructured{Object: reduced}
}

func reduceLists(shape, value any, inList bool) any {
	switch value := value.(type) {
	case map[string]any:
		fields, ok := shape.(map[string]any)
		if !ok {
			return value
		}
		reduced := map[string]any{}
		for name, v := range value {
			if like, ok := fields[name]; ok {
				reduced[name] = reduceLists(like, v, inList)
			} else if !inList {
				reduced[name] = v
			}
		}
		return reduced
	case []any:
		items, ok := shape.([]any)
		if !ok || len(items) != len(value) {
			return value
		}
		reduced := make([]any, len(value))
		for i, v := range value {
			reduced[i] = reduceLists(items[i], v, true)
		}
		return reduced
	}
	return value
}
