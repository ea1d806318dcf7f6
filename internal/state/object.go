package state

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Identity is as whom, and at which address, the API server is spoken to.
type Identity struct {
	Kubeconfig string // path of a kubeconfig, read at each use
	Config     []byte // a kubeconfig that is not in any file; used when Kubeconfig is empty; secret
	Server     string // URL used instead of the kubeconfig's; empty for the kubeconfig's

	// Unverified lets the kubeconfig turn off the verification of the server by insecure-skip-tls-verify. Set it only for a
	// kubeconfig that the user has named, and say so in a warning.
	Unverified bool
}

// Key tells identities apart without telling their secrets.
func (i Identity) Key() string {
	return fmt.Sprintf("%s@%s#%x%t", i.Kubeconfig, i.Server, sha256.Sum256(i.Config), i.Unverified)
}

// Ref names one object and as whom it is read or written.
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

// Target is the object, whoever asks for it.
func (r Ref) Target() string {
	return "object:" + r.GVK.GroupKind().String() + ":" + r.Namespace + "/" + r.Name
}

// Query names objects of one kind.
type Query struct {
	GVK                          schema.GroupVersionKind
	Namespace                    string
	LabelSelector, FieldSelector string
	As                           Identity
}

// Object is a typed API object whose apiVersion and kind are set.
type Object interface {
	runtime.Object
	metav1.Object
}

// RefOf names a typed object.
func RefOf(o Object, as Identity) Ref {
	return Ref{GVK: o.GetObjectKind().GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName(), As: as}
}

// NodeKind is the kind of Node objects.
var NodeKind = corev1.SchemeGroupVersion.WithKind("Node")
