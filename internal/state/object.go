package state

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Identity is the kubeconfig with which requests to the API server are authenticated, and
// optionally another address.
type Identity struct {
	Kubeconfig string // path of a kubeconfig, read at each use
	Config     []byte // content of a kubeconfig, used if Kubeconfig is empty; secret
	Server     string // URL used instead of the kubeconfig's, if set

	// AllowInsecure allows the kubeconfig to set insecure-skip-tls-verify. Set it only for a
	// kubeconfig that the user has named, and print a warning.
	AllowInsecure bool
}

// Key identifies the Identity, for use in maps. It contains no secret.
func (i Identity) Key() string {
	return fmt.Sprintf("%s@%s#%x%t", i.Kubeconfig, i.Server, sha256.Sum256(i.Config),
		i.AllowInsecure)
}

// Ref names one object and the identity with which it is read or written.
type Ref struct {
	GVK             schema.GroupVersionKind
	Namespace, Name string
	As              Identity
}

// String is "ConfigMap kube-system/kubeadm-config".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.GVK.Kind + " " + r.Name
	}
	return r.GVK.Kind + " " + r.Namespace + "/" + r.Name
}

// Target names the object without the identity.
func (r Ref) Target() string {
	return "object:" + r.GVK.GroupKind().String() + ":" + r.Namespace + "/" + r.Name
}

// Query selects objects of one kind.
type Query struct {
	GVK                          schema.GroupVersionKind
	Namespace                    string
	LabelSelector, FieldSelector string
	As                           Identity

	// Fields are the paths of the fields that are needed, such as "status.conditions", for kinds of
	// which a cluster has many. The result has no others but the metadata, without managedFields. If
	// only "metadata" is needed, the API server sends nothing else. nil means all fields.
	Fields []string
	// Keep is called once with each object, as it arrives, and reports whether it belongs to the
	// result. nil means all objects.
	Keep func(o *unstructured.Unstructured) bool
	// Limit is the most objects that are read, whichever they are, where a few of many are enough; 0 means all.
	Limit int
	// OnVersion is called with the resourceVersion of a complete list: a Watch from there on sees each later change.
	OnVersion func(version string)
}

// Watch selects changes of objects. Keep, Limit and OnVersion of its Query are not used.
type Watch struct {
	Query
	Version string        // resourceVersion of the list, or what the watch before returned
	Timeout time.Duration // until the API server ends it; at least a second
	OnStart func()        // called when the API server has accepted the watch
	// OnEvent is called with each object that was created or changed, or was deleted, and reports whether the watch goes on.
	OnEvent func(o *unstructured.Unstructured, isDeleted bool) bool
	// Linger is for how long a watch that OnEvent ends still reports what comes together with that.
	Linger time.Duration
}

// MetadataOnly reports whether the query needs only the metadata of objects.
func (q Query) MetadataOnly() bool {
	return q.Fields != nil &&
		!slices.ContainsFunc(q.Fields, func(path string) bool {
			return path != "metadata" && !strings.HasPrefix(path, "metadata.")
		})
}

// Filter removes the fields of a selected object that are not needed, and reports whether it belongs to
// the result.
func (q Query) Filter(o *unstructured.Unstructured) bool {
	if q.Fields != nil {
		all := o.Object
		o.Object = map[string]any{"apiVersion": all["apiVersion"], "kind": all["kind"],
			"metadata": all["metadata"]}
		o.SetManagedFields(nil)
		for _, path := range q.Fields {
			names := strings.Split(path, ".")
			value, ok, err := unstructured.NestedFieldNoCopy(all, names...)
			if !ok || err != nil {
				continue
			}
			in, last := o.Object, len(names)-1
			for _, name := range names[:last] {
				if _, ok := in[name].(map[string]any); !ok {
					in[name] = map[string]any{}
				}
				in = in[name].(map[string]any)
			}
			in[names[last]] = value
		}
	}
	return q.Keep == nil || q.Keep(o)
}

// ListOf lists objects as values of their type, each converted as it arrives and is kept.
func ListOf[T any](ctx context.Context, r Objects, q Query) ([]T, error) {
	var all []T
	var odd error
	keep := q.Keep
	q.Keep = func(u *unstructured.Unstructured) bool {
		if keep != nil && !keep(u) {
			return false
		}
		var one T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &one); err != nil {
			odd = fmt.Errorf("reading %s %s: %w", q.GVK.Kind, u.GetName(), err)
		}
		all = append(all, one)
		return false
	}
	if _, err := r.List(ctx, q); err != nil || odd != nil {
		return nil, cmp.Or(err, odd)
	}
	return all, nil
}

// Object is a typed API object whose apiVersion and kind are set.
type Object interface {
	runtime.Object
	metav1.Object
}

// RefOf returns the Ref of a typed object.
func RefOf(o Object, as Identity) Ref {
	return Ref{GVK: o.GetObjectKind().GroupVersionKind(), Namespace: o.GetNamespace(),
		Name: o.GetName(), As: as}
}

// NodeKind is the GroupVersionKind of Node objects.
var NodeKind = corev1.SchemeGroupVersion.WithKind("Node")
