package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
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
	if q.OnVersion != nil {
		q.OnVersion(strconv.FormatInt(w.revision, 10))
	}
	keys := slices.SortedFunc(maps.Keys(w.Objects),
		func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	var found []unstructured.Unstructured
	read := 0
	for _, k := range keys {
		if q.Limit > 0 && read == q.Limit {
			break
		}
		o := w.Objects[k]
		if k.Kind != q.GVK.GroupKind() || q.Namespace != "" && k.Namespace != q.Namespace {
			continue
		}
		set := fields.Set{"metadata.name": o.GetName()}
		if kind, ok, _ := unstructured.NestedString(o.Object, "type"); ok {
			set["type"] = kind
		}
		for _, name := range []string{"nodeName", "signerName"} {
			if value, ok, _ := unstructured.NestedString(o.Object, "spec", name); ok {
				set["spec."+name] = value
			}
		}
		if !byLabel.Matches(labels.Set(o.GetLabels())) || !byField.Matches(set) {
			continue
		}
		read++
		if o := o.DeepCopy(); q.Filter(o) {
			found = append(found, *o)
		}
	}
	return found, nil
}

// Watch calls OnEvent with the objects that were stored after the version, and ends. Of those that were deleted it has the
// names, and it does not know when that was.
func (w *World) Watch(ctx context.Context, of state.Watch) (version string, err error) {
	since, err := strconv.ParseInt(of.Version, 10, 64)
	if err != nil {
		return "", err
	}
	of.Keep, of.Limit, of.OnVersion = nil, 0, func(now string) { version = now }
	present, err := w.List(ctx, of.Query)
	if err != nil {
		return of.Version, err
	}
	of.OnStart()
	w.mu.Lock()
	stored := maps.Clone(w.stored)
	var deleted []Key
	for key := range stored {
		if _, ok := w.Objects[key]; !ok && key.Kind == of.GVK.GroupKind() {
			deleted = append(deleted, key)
		}
	}
	w.mu.Unlock()
	for _, key := range deleted {
		var u unstructured.Unstructured
		u.SetGroupVersionKind(of.GVK)
		u.SetNamespace(key.Namespace)
		u.SetName(key.Name)
		if !of.OnEvent(&u, true) && of.Linger <= 0 {
			return of.Version, nil
		}
	}
	for _, u := range present {
		if stored[keyOf(state.RefOf(&u, of.As))] > since && !of.OnEvent(&u, false) && of.Linger <= 0 {
			return of.Version, nil
		}
	}
	return version, nil
}

// PutObject stores an object as it is, with the status and the identity that changes cannot set. An
// object without a UID gets one.
func (w *World) PutObject(o state.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("converting %s: %w", o.GetName(), err)
	}
	ref := state.RefOf(o, state.Identity{})
	u := &unstructured.Unstructured{Object: fields}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store(ref, u)
	return nil
}

// createOrUpdate replaces an existing object by what merge returns for it, or creates fresh.
func (w *World) createOrUpdate(ref state.Ref, fresh state.Object,
	merge func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error)) error {
	var after *unstructured.Unstructured
	var err error
	if existing, ok := w.Objects[keyOf(ref)]; ok {
		after, err = merge(existing)
	} else {
		after, err = change.ToUnstructured(fresh)
	}
	if err != nil {
		return err
	}
	w.store(ref, after.DeepCopy())
	return nil
}

// store keeps the object, with a UID derived from its name if it has none.
func (w *World) store(ref state.Ref, u *unstructured.Unstructured) {
	if u.GetUID() == "" {
		u.SetUID(types.UID("uid-of-" + ref.String()))
	}
	w.revision++
	w.stored[keyOf(ref)] = w.revision
	w.Objects[keyOf(ref)] = u
}
