package rotateca

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
)

// runWorker brings a node without a control plane to the stage of the cluster.
func runWorker(ctx context.Context, m machine, command rotation.Stage) error {
	e := m.e
	r, err := rotation.Read(ctx, e.Reader(), m.as)
	// The Role that lets kubelets read the state exists only during a rotation.
	if apierrors.IsForbidden(err) || err == nil && (r == nil || r.Completed) {
		return errNoRotation(command)
	}
	if err != nil {
		return err
	}
	m.State = r
	s := r.Stage
	if !r.Replaces(rotation.ClusterAuthority) {
		e.Say("this node has no part in a rotation of %s", strings.Join(r.Authorities, ","))
		return nil
	}
	client, err := readKubeletClient(ctx, e, m.node) // an error, before anything is changed
	if err != nil {
		return err
	}
	switch {
	case command == rotation.Trust && s == rotation.Sign:
		if m.needsRenewal(client.Certificate, rotation.Sign) { // which "sign" does
			s = rotation.Trust
		}
	case command.Command() != s.Command():
		return problem.New(fmt.Errorf("the control plane nodes are in stage %q of the rotation", s), "run this on them first: kubeadm certs rotate-ca "+
			command.Command())
	case (s == rotation.Sign || s == rotation.UndoSign) && r.Switched == nil:
		return problem.New(errors.New("some control plane nodes still sign with the other CA"),
			"run this on them first: kubeadm certs rotate-ca "+command.Command())
	}
	if err := m.bringWorker(ctx, s); err != nil {
		return err
	}
	report, err := r.NewReportChange(m.node.Name, s, m.as)
	if err != nil {
		return err
	}
	// A kubelet may not write its Node in the moment in which a controller has changed the taints:
	// that counts as changing them back.
	for range reportAttempts {
		if err = e.Do(ctx, report); !apierrors.IsForbidden(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	e.Say("this node has reached stage %q", s)
	return nil
}

// reportAttempts is how often a kubelet tries to write its Node.
const reportAttempts = 5
