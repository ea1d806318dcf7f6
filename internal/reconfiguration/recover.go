package reconfiguration

import (
	"bytes"
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
	return recoverMachine(ctx, e, here, existing.RecoverStaticPods)
}

// recoverMachine is Recover with another way to finish the replacements of static Pods.
func recoverMachine(ctx context.Context, e *engine.Env, here existing.Machine,
	finish func(context.Context, *engine.Env, node.Local) error) error {
	isRestored, err := recoverKubelet(ctx, e, here.Local)
	if err == nil {
		err = existing.RepairKeyPairs(ctx, e, here.Local)
	}
	if err == nil {
		err = finish(ctx, e, here.Local)
	}
	if err != nil || !isRestored {
		return err
	}
	// If it is not healthy in time, what asks it next says why.
	_ = e.Await(ctx, health.APIServer(&node.Node{Local: here.Local}, here.As))
	return ctx.Err()
}

// RecoverMove finishes what a killed run has left on a control plane node that is about to move to an address. That what it left
// cannot work, as where other members of etcd are not reached from the new address, is no error on the way back: the
// replacement of the static Pods takes it over.
func RecoverMove(ctx context.Context, e *engine.Env, here existing.Machine, to string) error {
	isBack, err := staticpod.Replacement{Node: &node.Node{Local: here.Local}}.LeadsBackTo(ctx, e, to)
	if err != nil {
		return err
	}
	return recoverMachine(ctx, e, here, func(ctx context.Context, e *engine.Env, local node.Local) error {
		err := existing.RecoverStaticPods(ctx, e, local)
		if err == nil || !isBack || ctx.Err() != nil {
			return err
		}
		e.Warn("%v", err)
		e.Say("returning to the previous address, %s", to)
		return nil
	})
}

func recoverKubelet(ctx context.Context, e *engine.Env, local node.Local) (isRestored bool, err error) {
	record, err := readStoredRecord(ctx, e.World, local.Paths)
	if err != nil || record == nil {
		return false, err
	}
	onDisk, err := ReadKubeletFiles(ctx, e.World, local.Paths)
	before := record.KubeletFiles(onDisk)
	isKnown := func(now, before []byte) bool { return bytes.Equal(now, before) || record.hasWritten(string(now)) }
	if err != nil || onDisk.Equal(before) || !onDisk.all(before, isKnown) {
		return false, err
	}
	n := &node.Node{Local: local}
	failed := e.Await(ctx, health.Kubelet(ctx, e.World, n))
	if failed == nil || ctx.Err() != nil {
		return false, failed
	}
	e.Warn("the kubelet does not run with the configuration from an interrupted change, so the previous one is "+
		"restored: %v", failed)
	return true, ReplaceKubelet(ctx, e, n, before)
}

// KubeletFiles are the files of this machine's kubelet that a change replaces.
type KubeletFiles struct {
	Config     []byte
	Flags      []byte // its environment file; empty if there is none
	Kubeconfig []byte
}

// ReadKubeletFiles reads them.
func ReadKubeletFiles(ctx context.Context, r state.Reader, p node.Paths) (f KubeletFiles, err error) {
	if f.Config, err = state.ReadRequired(ctx, r, p.KubeletConfig()); err != nil {
		return f, err
	}
	if f.Flags, err = state.ReadOptional(ctx, r, p.KubeletFlags()); err != nil {
		return f, err
	}
	f.Kubeconfig, err = state.ReadRequired(ctx, r, p.KubeletKubeconfig())
	return f, err
}

func (f KubeletFiles) all(others KubeletFiles, is func(a, b []byte) bool) bool {
	return is(f.Config, others.Config) && is(f.Flags, others.Flags) && is(f.Kubeconfig, others.Kubeconfig)
}

// Equal reports whether the files are the same.
func (f KubeletFiles) Equal(others KubeletFiles) bool { return f.all(others, bytes.Equal) }

// ReplaceKubelet writes the files of this machine's kubelet, restarts a kubelet that is older than them, as
// after a kill too, and waits until it is healthy.
func ReplaceKubelet(ctx context.Context, e *engine.Env, n *node.Node, files KubeletFiles) error {
	if err := dropManagerStates(ctx, e, n, files.Config); err != nil {
		return err
	}
	reads := []string{n.Paths.KubeletConfig()}
	if err := kubeletfile.Replace(ctx, e, reads[0], files.Config, staticpod.KubeletConfigBackup); err != nil {
		return err
	}
	if len(files.Flags) > 0 {
		reads = append(reads, n.Paths.KubeletFlags())
		if err := kubeletfile.Replace(ctx, e, reads[1], files.Flags, staticpod.KubeletFlagsBackup); err != nil {
			return err
		}
	}
	reads = append(reads, n.Paths.KubeletKubeconfig())
	if err := e.Do(ctx, change.WriteFile{Path: n.Paths.KubeletKubeconfig(), Data: files.Kubeconfig, Mode: 0o600,
		Secret: true}); err != nil {
		return err
	}
	if err := localkubelet.Start(ctx, e, reads...); err != nil {
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
