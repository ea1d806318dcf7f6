package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Do carries out a change of an object. What may pass is tried again until the Bound:
// no connection, a server that is overloaded, a conflict with another writer, a namespace or Node that is
// not there yet. Refusals end it at once.
//
// An update writes the existing object with what is stated put over it (see
// change.ApplyObject.Onto), for the version that was read: labels and annotations of others survive.
func (k *Cluster) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.ApplyObject:
		return k.put(ctx, write{c.Object, c.As, c.Onto})
	case change.MutateObject:
		return k.put(ctx, write{c.Object, c.As, mutated(c)})
	case change.DeleteObject:
		return k.delete(ctx, c)
	case change.LabelNode:
		return k.label(ctx, c)
	}
	return fmt.Errorf("the API server does not carry out a %T", c)
}

// write is an object to create, or what to make of the one that is there.
type write struct {
	object state.Object
	as     state.Identity
	onto   func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

func mutated(c change.MutateObject) func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		after := existing.DeepCopy()
		return after, c.Mutate(after)
	}
}

func (k *Cluster) put(ctx context.Context, w write) error {
	fresh, err := change.ToUnstructured(w.object)
	if err != nil {
		return err
	}
	ref := state.RefOf(w.object, w.as)
	return k.alter(ctx, ref, "applying ", func(ctx context.Context, r dynamic.ResourceInterface) error {
		_, err := r.Create(ctx, fresh, metav1.CreateOptions{})
		// A Service whose address is taken by its own earlier self is Invalid, not AlreadyExists.
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) {
			return err
		}
		now, unread := r.Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(unread) {
			return err
		}
		if unread != nil {
			return unread
		}
		return update(ctx, r, now, w)
	})
}

func update(ctx context.Context, r dynamic.ResourceInterface, now *unstructured.Unstructured, w write) error {
	after, err := w.onto(now)
	if err != nil {
		return world.GiveUp(err)
	}
	if reflect.DeepEqual(now.Object, after.Object) {
		return nil
	}
	_, err = r.Update(ctx, after, metav1.UpdateOptions{})
	return err
}

func (k *Cluster) delete(ctx context.Context, c change.DeleteObject) error {
	return k.alter(ctx, c.Ref, "deleting ", func(ctx context.Context, r dynamic.ResourceInterface) error {
		err := r.Delete(ctx, c.Ref.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (k *Cluster) label(ctx context.Context, c change.LabelNode) error {
	return k.alter(ctx, c.Ref(), "labelling ", func(ctx context.Context, r dynamic.ResourceInterface) error {
		now, err := r.Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// A Node without this label was not made by its kubelet, or not to the end.
		if _, ok := now.GetLabels()["kubernetes.io/hostname"]; !ok {
			return fmt.Errorf("the kubelet has not labelled Node %s yet", c.Name)
		}
		after, err := c.Apply(now)
		if err != nil {
			return world.GiveUp(err)
		}
		if reflect.DeepEqual(now.Object, after.Object) {
			return nil
		}
		patch, err := nodePatch(after)
		if err != nil {
			return world.GiveUp(err)
		}
		_, err = r.Patch(ctx, c.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// nodePatch writes labels and taints only if the Node is still at the version they were made from.
func nodePatch(n *unstructured.Unstructured) ([]byte, error) {
	patch := map[string]any{"metadata": map[string]any{
		"resourceVersion": n.GetResourceVersion(),
		"labels":          n.GetLabels(),
	}}
	if taints, ok, _ := unstructured.NestedSlice(n.Object, "spec", "taints"); ok {
		patch["spec"] = map[string]any{"taints": taints}
	}
	return json.Marshal(patch)
}

func (k *Cluster) alter(ctx context.Context, ref state.Ref, verb string, do func(context.Context, dynamic.ResourceInterface) error) error {
	return k.try(ctx, attempt{as: ref.As, op: verb + ref.String(), again: passing, do: func(ctx context.Context, c *client) error {
		r, err := c.resource(ref.GVK, ref.Namespace)
		if err != nil {
			return err
		}
		return do(ctx, r)
	}})
}
