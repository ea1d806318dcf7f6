package change

import (
	"fmt"
	"kubeadm/internal/state"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Onto is the object to write where existing is there already: existing, saying all that
// Object says. What Object leaves unset stays, so that fields the server filled in and
// that cannot change survive, and with them labels and annotations of others. A list that
// says something else is replaced whole, and so are data, selectors and node selectors.
// Exact takes nothing over but what only the server writes. Neither argument nor Object is altered.
func (c ApplyObject) Onto(existing *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if c.Keep {
		return existing.DeepCopy(), nil
	}
	want, err := ToUnstructured(c.Object)
	if err != nil {
		return nil, err
	}
	if c.Exact {
		adoptServerFields(want.Object, existing.Object)
		return want, nil
	}
	after := existing.DeepCopy()
	merge(after.Object, want.Object)
	return after, nil
}

func merge(into, want map[string]any) {
	for k, w := range want {
		if saysUnder(k, w, into[k]) {
			continue
		}
		fields, isMap := w.(map[string]any)
		have, both := into[k].(map[string]any)
		if isMap && both && !dictionary(k) {
			merge(have, fields)
			continue
		}
		into[k] = runtime.DeepCopyJSONValue(w)
	}
}

// ToUnstructured is the object as plain maps of its own, without what only the server
// writes: the status, and metadata such as uid and resourceVersion.
func ToUnstructured(o state.Object) (*unstructured.Unstructured, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		own := u.DeepCopy()
		dropServerFields(own.Object)
		return own, nil
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("converting %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
	}
	dropServerFields(m)
	return &unstructured.Unstructured{Object: m}, nil
}

// serverFields are those of metadata that only the server writes.
func serverFields() []string {
	return []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink"}
}

func dropServerFields(o map[string]any) {
	for _, field := range serverFields() {
		unstructured.RemoveNestedField(o, "metadata", field)
	}
	unstructured.RemoveNestedField(o, "status")
}

func adoptServerFields(into, from map[string]any) {
	have, _, _ := unstructured.NestedMap(from, "metadata")
	for _, field := range serverFields() {
		if v, ok := have[field]; ok {
			_ = unstructured.SetNestedField(into, v, "metadata", field)
		}
	}
	if status, ok := from["status"]; ok {
		into["status"] = runtime.DeepCopyJSONValue(status)
	}
}
