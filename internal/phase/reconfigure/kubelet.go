package reconfigure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// changeKubelet writes the files of the kubelet, restarts it if they change, and waits until the Node is
// ready.
func (m *machine) changeKubelet(ctx context.Context, e *engine.Env) error {
	onDisk, err := reconfiguration.ReadKubeletFiles(ctx, e.World, m.Paths)
	if err != nil || onDisk.Equal(m.kubelet) && !m.interrupted {
		return err
	}
	if err := m.old.Store(ctx, e, m.Node); err != nil {
		return err
	}
	return m.writeKubelet(ctx, e, m.kubelet)
}

func (m *machine) restoreKubelet(ctx context.Context, e *engine.Env) error {
	onDisk, err := reconfiguration.ReadKubeletFiles(ctx, e.World, m.Paths)
	before := m.old.KubeletFiles(onDisk)
	if err != nil || onDisk.Equal(before) && !m.interrupted {
		return err // it was not changed
	}
	return m.writeKubelet(ctx, e, before)
}

// writeKubelet writes the files, restarts a kubelet that is older than them, and waits until the Node is ready.
func (m *machine) writeKubelet(ctx context.Context, e *engine.Env, files reconfiguration.KubeletFiles) error {
	notReady, err := m.isReady(ctx, e.Reader())
	if err != nil { // such as of an API server that is down because of this kubelet
		notReady = err
	}
	before := e.World.Now()
	if err := reconfiguration.ReplaceKubelet(ctx, e, m.Node, files); err != nil {
		return err
	}
	kubelet, err := e.World.Service(ctx, localkubelet.Service)
	if err != nil && !errors.Is(err, state.ErrNoInitSystem) {
		return err
	}
	started := kubelet.Since
	if started.IsZero() {
		started = before
	}
	return e.Await(ctx, m.nodeReady(started, notReady == nil))
}

// labelNode sets the labels of the kubelet's argument node-labels, which a kubelet sets only when it registers.
func (m *machine) labelNode(ctx context.Context, e *engine.Env) error {
	text, isSet := node.LastArg(m.KubeletArgs, "node-labels")
	if !isSet {
		return nil
	}
	labels := map[string]string{}
	for label := range strings.SplitSeq(text, ",") {
		if key, value, _ := strings.Cut(label, "="); key != "" {
			labels[key] = value
		}
	}
	return e.Do(ctx, change.LabelNode{Name: m.Name, Labels: labels, As: m.as})
}

// isReady returns in notReady why the Node is not ready.
func (m *machine) isReady(ctx context.Context, r state.Reader) (notReady, err error) {
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: m.Name, As: m.as})
	if err != nil {
		return nil, err
	}
	var n corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return nil, untrusted.Error(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil, nil
		}
		if c.Type == corev1.NodeReady {
			return fmt.Errorf("it is not ready: %s", untrusted.Line(c.Message)), nil
		}
	}
	return errors.New("it has no condition Ready"), nil
}

// nodeReady is met when the kubelet has renewed its Lease since it was restarted, and its Node is ready, if
// it was before. Both times are of this machine's clock.
func (m *machine) nodeReady(since time.Time, wasReady bool) world.Condition {
	lease := state.Ref{GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Namespace: corev1.NamespaceNodeLease, Name: m.Name, As: m.as}
	return world.Condition{
		Name:    "Node " + m.Name + " to be ready",
		Timeout: m.Timeouts.Kubelet,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, lease)
			if err != nil {
				return err
			}
			var l coordinationv1.Lease
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &l); err != nil {
				return untrusted.Error(err)
			}
			if l.Spec.RenewTime == nil || l.Spec.RenewTime.Time.Before(since) {
				return errors.New("the kubelet has not renewed its Lease since it was restarted")
			}
			if !wasReady {
				return nil
			}
			notReady, err := m.isReady(ctx, r)
			return cmp.Or(err, notReady)
		},
	}
}
