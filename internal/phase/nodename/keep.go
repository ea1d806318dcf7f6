// Package nodename lets the kubelet of this machine keep the name of its Node when the host is renamed (docs/decisions/0080),
// or gives the Node another name (docs/decisions/0081).
package nodename

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/nodename"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Keep tells the kubelet the name of its Node, and waits until that is ready.
var Keep = engine.Phase{
	Name:  "node",
	Short: "Tell the kubelet the name of its Node",
	Long: "Write the argument hostname-override, restart the kubelet, and wait until its Node is ready. A kubelet that " +
		"does not become healthy gets its previous arguments again.",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		m := &machine{Node: n, Intent: nodename.IntentOf(e), as: as}
		m.mustBeReady = !m.isNotReady(ctx, e)
		if err := m.writeFiles(ctx, e); err != nil {
			return err
		}
		if err := m.startKubelet(ctx, e); err != nil {
			return err
		}
		if n.Role == node.ControlPlane {
			if err := m.awaitStaticPods(ctx, e); err != nil {
				return err
			}
		}
		if err := m.awaitNode(ctx, e); err != nil {
			return err
		}
		return nodename.RemoveRecord(ctx, e)
	},
}

// machine is this node, and as whom it accesses its cluster.
type machine struct {
	*node.Node
	nodename.Intent
	as          state.Identity
	mustBeReady bool
}

// isNotReady reports whether the kubelet itself says that its Node is not ready, as without a Pod network. If no API
// server answers, that is not known.
func (m *machine) isNotReady(ctx context.Context, e *engine.Env) bool {
	u, err := e.World.Object(ctx, state.Ref{GVK: state.NodeKind, Name: m.Name, As: m.as})
	if err != nil {
		return false
	}
	var n corev1.Node
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n) != nil {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionFalse
		}
	}
	return false
}

// writeFiles writes the environment files of the kubelet.
func (m *machine) writeFiles(ctx context.Context, e *engine.Env) (err error) {
	if err := m.Store(ctx, e); err != nil {
		return err
	}
	if len(m.Files) > 0 {
		e.Say("telling the kubelet the name of its Node, %s; the name of this host is %s", m.Name, untrusted.Line(m.Host))
	}
	for _, f := range m.Files {
		if f.Existed {
			err = kubeletfile.Replace(ctx, e, f.Path, []byte(f.Now), staticpod.KubeletFlagsBackup)
		} else {
			err = e.Do(ctx, change.WriteFile{Path: f.Path, Data: []byte(f.Now), Mode: 0o644})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// startKubelet starts the kubelet, and restarts one that is older than its files. If it does not become healthy, it
// gets the files from before.
func (m *machine) startKubelet(ctx context.Context, e *engine.Env) error {
	healthy := health.Kubelet(ctx, e.World, m.Node)
	err := m.restartKubelet(ctx, e)
	if err == nil {
		err = e.Await(ctx, healthy)
	}
	if err == nil || ctx.Err() != nil || len(m.Replaced) == 0 {
		return err
	}
	cause := health.WithKubeletHints(m.Platform, err)
	if err := m.takeBack(ctx, e, cause); err != nil {
		return problem.New(fmt.Errorf("%w; and taking the change back failed: %w", cause, err),
			"to try again, run the same command")
	}
	return fmt.Errorf("the kubelet has its previous arguments again: %w", cause)
}

func (m *machine) restartKubelet(ctx context.Context, e *engine.Env) error {
	return localkubelet.Start(ctx, e, m.Paths.KubeletEnvFiles()...)
}

// takeBack restores the files that nothing else has changed since.
func (m *machine) takeBack(ctx context.Context, e *engine.Env, cause error) error {
	e.Say("taking the change back: %v", cause)
	for _, f := range m.Replaced {
		data, err := state.ReadOptional(ctx, e.World, f.Path)
		if err != nil {
			return err
		}
		if string(data) != f.Now {
			continue
		}
		var restore change.Change = change.WriteFile{Path: f.Path, Data: []byte(f.Before), Mode: 0o644}
		if !f.Existed {
			restore = change.Remove{Path: f.Path}
		}
		if err := e.Do(ctx, restore); err != nil {
			return err
		}
	}
	// An interrupt does not leave the node without a kubelet: its Pods would be evicted.
	whole := context.WithoutCancel(ctx)
	if err := localkubelet.Stop(whole, e); err != nil { // a file that is removed is newer than no kubelet
		return err
	}
	if err := m.restartKubelet(whole, e); err != nil {
		return err
	}
	return nodename.RemoveRecord(ctx, e)
}

// awaitStaticPods waits until the static Pods of this control plane node run under its name: their names end with that
// of the kubelet, which replaces those that it has started under another one.
func (m *machine) awaitStaticPods(ctx context.Context, e *engine.Env) error {
	err := e.Await(ctx, world.Condition{
		Name: "the static Pods of Node " + m.Name, Timeout: m.Timeouts.ControlPlane,
		Check: func(ctx context.Context, r state.Reader) error {
			all, err := r.Containers(ctx, m.CRISocket)
			if err != nil {
				return err
			}
			for _, component := range staticpod.Components(m.Node) {
				if err := checkPod(all, component, component+"-"+m.Name); err != nil {
					return err
				}
			}
			return nil
		}})
	if err == nil {
		err = e.Await(ctx, health.APIServer(m.Node, m.as))
	}
	if err != nil && ctx.Err() == nil {
		err = health.WithComponentHints(m.Node, err)
	}
	return err
}

// checkPod is an error unless a container of a component runs in the Pod of that name, and in no other one.
func checkPod(all []state.Container, component, pod string) error {
	isRunning := false
	for _, c := range all {
		switch {
		case c.Component != component || !c.Running:
		case c.Pod != pod:
			return fmt.Errorf("%s still runs in Pod %s", component, untrusted.Line(c.Pod))
		default:
			isRunning = true
		}
	}
	if !isRunning {
		return fmt.Errorf("no container of Pod %s is running", pod)
	}
	return nil
}

// awaitNode waits until the kubelet reports to its Node.
func (m *machine) awaitNode(ctx context.Context, e *engine.Env) error {
	started, err := m.readStart(ctx, e)
	if err != nil {
		return err
	}
	err = e.Await(ctx, health.Node(m.Node, m.as, started, m.mustBeReady))
	if err != nil && ctx.Err() == nil {
		err = problem.New(err, "read the log of the kubelet: "+m.Platform.LogHint("kubelet"),
			"if another file sets the name of the kubelet, change it there: systemctl cat kubelet")
	}
	return err
}

// readStart is when the kubelet was started; zero where no init system knows.
func (m *machine) readStart(ctx context.Context, e *engine.Env) (time.Time, error) {
	kubelet, err := e.World.Service(ctx, localkubelet.Service)
	if err != nil && !errors.Is(err, state.ErrNoInitSystem) {
		return time.Time{}, err
	}
	return kubelet.Since, nil
}
