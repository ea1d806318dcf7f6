package reconfigure

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
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
	if reconfiguration.IntentOf(e).OnlyEndpoint { // it may have led nowhere: then the Node does not become ready again
		return reconfiguration.ReplaceKubelet(ctx, e, m.Node, before)
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

// labelNode sets the labels and taints of the kubelet's arguments node-labels and register-with-taints, which a
// kubelet sets only when it registers.
func (m *machine) labelNode(ctx context.Context, e *engine.Env) error {
	labels := map[string]string{}
	text, _ := node.LastArg(m.KubeletArgs, "node-labels")
	for label := range strings.SplitSeq(text, ",") {
		if key, value, _ := strings.Cut(label, "="); key != "" {
			labels[key] = value
		}
	}
	if len(labels) > 0 {
		if err := e.Do(ctx, change.LabelAndTaintNode{Name: m.Name, Labels: labels, As: m.as}); err != nil {
			return err
		}
	}
	text, _ = node.LastArg(m.KubeletArgs, "register-with-taints")
	taints := parseTaints(text)
	if len(taints) == 0 {
		return nil
	}
	err := e.Do(ctx, change.LabelAndTaintNode{Name: m.Name, Taints: taints, As: m.as})
	if apierrors.IsForbidden(err) && m.Role != node.ControlPlane { // by the admission plugin NodeRestriction
		e.Warn("%s", untrusted.CommandHint("the kubelet of this node may not change its taints; as an administrator, run",
			"kubectl taint node --overwrite", append([]string{m.Name}, strings.Split(text, ",")...)...))
		return nil
	}
	return err
}

// parseTaints parses taints as the kubelet's argument has them: "KEY:EFFECT" or "KEY=VALUE:EFFECT", separated by
// commas. The kubelet runs with them, so they are valid.
func parseTaints(text string) (all []corev1.Taint) {
	for taint := range strings.SplitSeq(text, ",") {
		name, effect, found := strings.Cut(taint, ":")
		if !found {
			continue
		}
		key, value, _ := strings.Cut(name, "=")
		all = append(all, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return all
}
