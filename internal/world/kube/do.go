package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
		return k.createOrUpdate(ctx, objectWrite{c.Object, c.As, c.MergeInto, c.Unreadable})
	case change.MutateObject:
		if !c.Creates() {
			return k.updateExisting(ctx, c)
		}
		return k.createOrUpdate(ctx,
			objectWrite{c.Object, c.As,
				func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error) {
					after := existing.DeepCopy()
					return after, c.Mutate(after)
				}, false})
	case change.DeleteObject:
		return k.delete(ctx, c)
	case change.LabelAndTaintNode:
		return k.label(ctx, c)
	case change.EvictPod:
		return k.evict(ctx, c)
	}
	return fmt.Errorf("the API server cannot carry out a %T", c)
}

// objectWrite is an object to create, or to merge into the existing one.
type objectWrite struct {
	object state.Object
	as     state.Identity
	merge  func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// an existing object is neither read nor changed
	unreadable bool
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
			if w.unreadable {
				if apierrors.IsAlreadyExists(err) {
					return nil
				}
				return err
			}
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

func (k *Cluster) updateExisting(ctx context.Context, c change.MutateObject) error {
	ref := state.RefOf(c.Object, c.As)
	op, parts := "applying ", []string(nil)
	if c.Subresource != "" {
		op, parts = "applying the "+c.Subresource+" of ", []string{c.Subresource}
	}
	return k.changeObject(ctx, ref, op,
		func(ctx context.Context, r dynamic.ResourceInterface) error {
			existing, err := r.Get(ctx, ref.Name, metav1.GetOptions{})
			if err != nil {
				return unlessGone(err)
			}
			after := existing.DeepCopy()
			if err := c.Mutate(after); err != nil {
				return world.Permanent(err)
			}
			if reflect.DeepEqual(existing.Object, after.Object) {
				return nil
			}
			_, err = r.Update(ctx, after, metav1.UpdateOptions{}, parts...)
			return unlessGone(err)
		})
}

// unlessGone makes the error permanent if the object does not exist.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return world.Permanent(err)
	}
	return err
}

func (k *Cluster) delete(ctx context.Context, c change.DeleteObject) error {
	return k.changeObject(ctx, c.Ref, "deleting ",
		func(ctx context.Context, r dynamic.ResourceInterface) error {
			options := metav1.DeleteOptions{}
			if uid := types.UID(c.UID); uid != "" {
				options.Preconditions = &metav1.Preconditions{UID: &uid}
			}
			err := r.Delete(ctx, c.Ref.Name, options)
			if c.UID != "" && apierrors.IsConflict(err) {
				now, getErr := r.Get(ctx, c.Ref.Name, metav1.GetOptions{})
				if getErr == nil && !c.Matches(now) {
					return nil // another object of that name
				}
				err = cmp.Or(getErr, err)
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
}

// evict returns change.ErrDisruptionBudget at once if a PodDisruptionBudget does not allow the
// eviction.
func (k *Cluster) evict(ctx context.Context, c change.EvictPod) error {
	uid := types.UID(c.UID)
	eviction, err := change.ToUnstructured(&policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace},
		DeleteOptions: &metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	if err != nil {
		return err
	}
	return k.changeObject(ctx, c.Ref(), "evicting ",
		func(ctx context.Context, r dynamic.ResourceInterface) error {
			_, err := r.Create(ctx, eviction, metav1.CreateOptions{}, "eviction")
			switch {
			case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another Pod of that name
				return nil
			case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
				return nil // its namespace is being deleted, and the Pod with it
			case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
				return world.Permanent(fmt.Errorf("%w: %w", change.ErrDisruptionBudget, err))
			}
			return err
		})
}

func (k *Cluster) label(ctx context.Context, c change.LabelAndTaintNode) error {
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
