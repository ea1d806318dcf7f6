// Package kube is the API server as a part of the world: its objects, read and altered as
// the identity that each call names. It asks for no discovery, since the kinds in use are known,
// and never talks to a server whose certificate it cannot verify.
package kube

import (
	"context"
	"kubeadm/internal/state"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	defaultBound   = time.Minute
	requestTimeout = 10 * time.Second
)

// Cluster reads and alters the objects of API servers. It is safe for use by many at once.
type Cluster struct {
	// UserAgent is what requests say they come from, such as "kubeadm/v1.37.1".
	UserAgent string
	// Bound limits how long one change, with all its attempts, may take where its context has no
	// deadline; one minute if it is zero.
	Bound time.Duration

	readFile func(path string) ([]byte, error)
	mu       sync.Mutex
	clients  map[string]*client // by identity and content of the kubeconfig
}

// New is a Cluster that reads kubeconfigs with readFile.
func New(readFile func(path string) ([]byte, error)) *Cluster {
	return &Cluster{readFile: readFile, clients: map[string]*client{}}
}

// Object reads one object; absent ones satisfy apierrors.IsNotFound. A server that says it cannot answer
// now is asked again within the Bound; one that cannot be reached is asked again as the context says (see world.Retry).
func (k *Cluster) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	var found *unstructured.Unstructured
	err := k.try(ctx, attempt{as: ref.As, op: "reading " + ref.String(), again: overloaded, reads: true, do: func(ctx context.Context, c *client) error {
		r, err := c.resource(ref.GVK, ref.Namespace)
		if err == nil {
			found, err = r.Get(ctx, ref.Name, metav1.GetOptions{})
		}
		return err
	}})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// List reads the objects of a kind and namespace that match both selectors; an empty namespace means
// all. It is as patient as Object.
func (k *Cluster) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	var found []unstructured.Unstructured
	err := k.try(ctx, attempt{as: q.As, op: "listing " + q.GVK.Kind + " objects", again: overloaded, reads: true, do: func(ctx context.Context, c *client) error {
		r, err := c.resource(q.GVK, q.Namespace)
		if err != nil {
			return err
		}
		all, err := r.List(ctx, metav1.ListOptions{LabelSelector: q.LabelSelector, FieldSelector: q.FieldSelector})
		if err == nil {
			found = all.Items
		}
		return err
	}})
	return found, err
}

// Livez asks once whether the API server says it is alive; the error tells which of its own checks fail.
func (k *Cluster) Livez(ctx context.Context, as state.Identity) error {
	return k.try(ctx, attempt{as: as, op: "asking whether the API server is alive", again: never, reads: true, do: func(ctx context.Context, c *client) error {
		return c.livez(ctx)
	}})
}
