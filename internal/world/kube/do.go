package kube

import (
	"cmp"
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

// Do carries out a change of an object. It retries transient errors until the Timeout: no
// connection, an overloaded server, a conflict with another writer, a namespace or Node that does
// not exist yet.
//
// An update merges the change into the existing object and sends the resourceVersion that was
// read: labels and annotations of other programs are kept.
func (k *Cluster) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.ApplyObject:
		return k.createOrUpdate(ctx, objectWrite{c.Object, c.As, c.MergeInto})
	case change.MutateObject:
		return k.createOrUpdate(ctx,
			objectWrite{c.Object, c.As,
				func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error) {
					after := existing.DeepCopy()
					return after, c.Mutate(after)
				}})
	case change.DeleteObject:
		return k.delete(ctx, c)
	case change.LabelNode:
		return k.label(ctx, c)
	}
	return fmt.Errorf("the API server cannot carry out a %T", c)
}

// objectWrite is an object to create, or to merge into the existing one.
type objectWrite struct {
	object state.Object
	as     state.Identity
	merge  func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

func (k *Cluster) createOrUpdate(ctx context.Context, w objectWrite) error {
	fresh, err := change.ToUnstructured(w.object)
	if err != nil {
		return err
	}
	ref := state.RefOf(w.object, w.as)
	return k.changeObject(ctx, ref, "applying ",
		func(ctx context.Context, r dynamic.ResourceInterface) error {
			_, err := r.Create(ctx, fresh, metav1.CreateOptions{})
			// For an existing Service with the same cluster IP the error is Invalid, not
			// AlreadyExists.
			if !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) {
				return err
			}
			existing, getErr := r.Get(ctx, ref.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(getErr) {
				c, clientErr := k.clientFor(w.as)
				if clientErr != nil {
					return clientErr
				}
				released, releaseErr := c.releaseClusterIP(ctx, fresh)
				if released && releaseErr == nil {
					_, err = r.Create(ctx, fresh, metav1.CreateOptions{})
				}
				return cmp.Or(releaseErr, err)
			}
			if getErr != nil {
				return getErr
			}
			after, err := w.merge(existing)
			if err != nil {
				return world.Permanent(err)
			}
			if reflect.DeepEqual(existing.Object, after.Object) {
				return nil
			}
			_, err = r.Update(ctx, after, metav1.UpdateOptions{})
			return err
		})
}

func (k *Cluster) delete(ctx context.Context, c change.DeleteObject) error {
	return k.changeObject(ctx, c.Ref, "deleting ",
		func(ctx context.Context, r dynamic.ResourceInterface) error {
			err := r.Delete(ctx, c.Ref.Name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
}

func (k *Cluster) label(ctx context.Context, c change.LabelNode) error {
	return k.changeObject(ctx, c.Ref(), "labelling ",
		func(ctx context.Context, r dynamic.ResourceInterface) error {
			existing, err := r.Get(ctx, c.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			// The kubelet adds this label when it registers the Node.
			if _, ok := existing.GetLabels()["kubernetes.io/hostname"]; !ok {
				return fmt.Errorf("the kubelet has not labelled Node %s yet", c.Name)
			}
			after, err := c.Apply(existing)
			if err != nil {
				return world.Permanent(err)
			}
			if reflect.DeepEqual(existing.Object, after.Object) {
				return nil
			}
			// Fails if the Node was changed meanwhile.
			patch := map[string]any{"metadata": map[string]any{
				"resourceVersion": after.GetResourceVersion(),
				"labels":          after.GetLabels(),
			}}
			if taints, ok, _ := unstructured.NestedSlice(after.Object, "spec", "taints"); ok {
				patch["spec"] = map[string]any{"taints": taints}
			}
			data, err := json.Marshal(patch)
			if err != nil {
				return world.Permanent(err)
			}
			_, err = r.Patch(ctx, c.Name, types.MergePatchType, data, metav1.PatchOptions{})
			return err
		})
}

func (k *Cluster) changeObject(ctx context.Context, ref state.Ref, verb string,
	do func(context.Context, dynamic.ResourceInterface) error) error {
	return k.retry(ctx, request{as: ref.As, op: verb + ref.String(),
		isRetryable: isTransientWriteError, do: func(ctx context.Context, c *client) error {
			r, err := c.resource(ref.GVK, ref.Namespace)
			if err != nil {
				return err
			}
			return do(ctx, r)
		}})
}
