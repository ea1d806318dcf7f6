package memory

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Key names an object.
type Key struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

func keyOf(r state.Ref) Key { return Key{r.GVK.GroupKind(), r.Namespace, r.Name} }

// Object reads one object. The error for one that does not exist satisfies apierrors.IsNotFound.
func (w *World) Object(_ context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := w.Objects[keyOf(ref)]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: ref.GVK.Group,
			Resource: ref.GVK.Kind}, ref.Name)
	}
	return o.DeepCopy(), nil
}

// List reads the objects of a kind and namespace that match the selectors, sorted by name. It
// supports the field selectors metadata.name, type of Secrets, spec.nodeName of Pods and
// spec.signerName of CertificateSigningRequests.
func (w *World) List(_ context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	byLabel, err := labels.Parse(q.LabelSelector)
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(q.FieldSelector)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(w.Objects),
		func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	var found []unstructured.Unstructured
	for _, k := range keys {
		o := w.Objects[k]
		if k.Kind != q.GVK.GroupKind() || q.Namespace != "" && k.Namespace != q.Namespace {
			continue
		}
		if byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(selectableFields(o)) {
			found = append(found, *o.DeepCopy())
		}
	}
	return found, nil
}

func selectableFields(o *unstructured.Unstructured) fields.Set {
	set := fields.Set{"metadata.name": o.GetName()}
	if kind, ok, _ := unstructured.NestedString(o.Object, "type"); ok {
		set["type"] = kind
	}
	for _, name := range []string{"nodeName", "signerName"} {
		if value, ok, _ := unstructured.NestedString(o.Object, "spec", name); ok {
			set["spec."+name] = value
		}
	}
	return set
}

func (w *World) apply(c change.ApplyObject) error {
	ref := state.RefOf(c.Object, c.As)
	u, err := change.ToUnstructured(c.Object)
	if now, ok := w.Objects[keyOf(ref)]; ok {
		u, err = c.MergeInto(now)
	}
	if err == nil {
		w.put(ref, u)
	}
	return err
}

func (w *World) mutate(c change.MutateObject) error {
	ref := state.RefOf(c.Object, c.As)
	old, ok := w.Objects[keyOf(ref)]
	if !ok {
		return w.apply(change.ApplyObject{Object: c.Object, As: c.As})
	}
	after := old.DeepCopy()
	if err := c.Mutate(after); err != nil {
		return err
	}
	w.put(ref, after)
	return nil
}

func (w *World) label(c change.LabelNode) error {
	now, ok := w.Objects[keyOf(c.Ref())]
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("nodes"), c.Name)
	}
	after, err := c.Apply(now)
	if err == nil {
		w.put(c.Ref(), after)
	}
	return err
}

func (w *World) put(ref state.Ref, u *unstructured.Unstructured) {
	u = u.DeepCopy()
	if u.GetUID() == "" {
		u.SetUID(types.UID("uid-of-" + ref.String()))
	}
	w.Objects[keyOf(ref)] = u
}
