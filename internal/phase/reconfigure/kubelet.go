package reconfigure

import (
	"context"
	"errors"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
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
	notReady, err := health.CheckNode(ctx, e.Reader(), m.as, m.Name)
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
	return e.Await(ctx, health.Node(m.Node, m.as, started, notReady == nil))
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
