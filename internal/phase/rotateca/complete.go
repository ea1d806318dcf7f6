package rotateca

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
)

// recordCompletion stores that all nodes have reached the last stage. From then on a killed command
// is resumed without the annotations of the nodes, which complete removes.
func (m machine) recordCompletion(ctx context.Context) error {
	m.Completed = true
	store, err := m.NewStoreChange(m.as)
	if err != nil {
		return err
	}
	return m.e.Do(ctx, store)
}

// complete removes the state of a rotation that all nodes have completed.
func (m machine) complete(ctx context.Context, s rotation.Stage) error {
	if m.Replaces(rotation.ClusterAuthority) {
		if err := m.writeSigningArgs(ctx, false); err != nil {
			return err
		}
	}
	if err := m.forgetOldCAs(ctx, s); err != nil {
		return err
	}
	var changes []change.Change
	marked, err := m.e.List(ctx, state.Query{GVK: state.NodeKind, As: m.as,
		Fields: []string{"metadata"}, Keep: func(u *unstructured.Unstructured) bool {
			_, ok := u.GetAnnotations()[rotation.NodeAnnotation]
			return ok
		}})
	if err != nil {
		return err
	}
	for _, u := range marked {
		err := m.e.Do(ctx, rotation.NewForgetChange(u.GetName(), m.as))
		if err != nil && !apierrors.IsNotFound(err) { // the Node may be gone by now
			return err
		}
	}
	secret := state.Ref{GVK: secretKind, Namespace: metav1.NamespaceSystem,
		Name: manifest.CARotation, As: m.as}
	changes = append(changes, change.DeleteObject{Ref: secret})
	for _, o := range manifest.CARotationAccess.Objects() {
		changes = append(changes, change.DeleteObject{Ref: state.RefOf(o, m.as)})
	}
	// last: without it the command cannot be resumed
	changes = append(changes,
		change.DeleteObject{Ref: state.RefOf(manifest.NewCARotation(""), m.as)})
	if err := m.e.Do(ctx, changes...); err != nil {
		return err
	}
	if s == rotation.Undo {
		m.e.Print("The rotation has been undone: only the old keys are left.\n")
	} else {
		m.e.Print("The rotation is complete: only the new keys are left. Copy admin.conf again to " +
			"wherever it is used. New join commands: kubeadm token create --print-join-command\n")
	}
	return nil
}
