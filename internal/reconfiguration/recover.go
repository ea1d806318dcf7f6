package reconfiguration

import (
	"context"
	"path"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/health"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// Recover finishes what a killed run has left on a control plane node, as existing.Recover does. Before
// that, a kubelet that does not run with what an interrupted change has written gets its file from before:
// without a kubelet no API server runs here, and no command could go on. It asks no API server.
func Recover(ctx context.Context, e *engine.Env, here existing.Machine) error {
	isRestored, err := recoverKubelet(ctx, e, here.Local)
	if err == nil {
		err = existing.Recover(ctx, e, here.Local)
	}
	if err != nil || !isRestored {
		return err
	}
	// If it is not healthy in time, what asks it next says why.
	_ = e.Await(ctx, health.APIServer(&node.Node{Local: here.Local}, here.As))
	return ctx.Err()
}

func recoverKubelet(ctx context.Context, e *engine.Env, local node.Local) (isRestored bool, err error) {
	record, err := readStoredRecord(ctx, e.World, local.Paths)
	if err != nil || record == nil {
		return false, err
	}
	onDisk, err := state.ReadRequired(ctx, e.World, local.Paths.KubeletConfig())
	if err != nil || string(onDisk) == record.Kubelet || !record.hasWritten(string(onDisk)) {
		return false, err
	}
	n := &node.Node{Local: local}
	failed := e.Await(ctx, health.Kubelet(ctx, e.World, n))
	if failed == nil || ctx.Err() != nil {
		return false, failed
	}
	e.Warn("the kubelet does not run with the configuration from an interrupted change, so the previous one is "+
		"restored: %v", failed)
	return true, ReplaceKubelet(ctx, e, n, []byte(record.Kubelet))
}

// ReplaceKubelet writes the configuration file of this machine's kubelet, restarts a kubelet that is older
// than it, as after a kill too, and waits until it is healthy.
func ReplaceKubelet(ctx context.Context, e *engine.Env, n *node.Node, data []byte) error {
	file := n.Paths.KubeletConfig()
	if err := dropManagerStates(ctx, e, n, data); err != nil {
		return err
	}
	if err := kubeletfile.Replace(ctx, e, file, data, staticpod.KubeletConfigBackup); err != nil {
		return err
	}
	if err := localkubelet.Start(ctx, e, file); err != nil {
		return err
	}
	return e.Await(ctx, health.Kubelet(ctx, e.World, n))
}

// dropManagerStates stops the kubelet and removes the files in which its CPU and memory managers keep their
// policy, if that changes: a kubelet with another one does not start.
func dropManagerStates(ctx context.Context, e *engine.Env, n *node.Node, data []byte) error {
	now, err := ReadKubelet(ctx, e.World, n)
	if err != nil {
		return err
	}
	wanted := &kubeletconfig.KubeletConfiguration{}
	if err := yaml.Unmarshal(data, wanted); err != nil {
		return err
	}
	if len(DrainedFields(now, wanted)) == 0 {
		return nil
	}
	if err := localkubelet.Stop(ctx, e); err != nil {
		return err
	}
	return e.Do(ctx, change.Remove{Path: path.Join(n.Paths.Kubelet, "cpu_manager_state")},
		change.Remove{Path: path.Join(n.Paths.Kubelet, "memory_manager_state")})
}
