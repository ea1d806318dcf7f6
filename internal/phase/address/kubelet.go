package address

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/certuse"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/health"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// restartClients restarts the components that were started with a kubeconfig from before: they read it once, and a
// file that was replaced is not seen in a container that runs.
func (m *machine) restartClients(ctx context.Context, e *engine.Env) error {
	uses, err := certuse.ListUses(ctx, e, m.Node)
	if err != nil {
		return err
	}
	var stale []string
	for _, u := range uses {
		if u.Server != "" {
			continue
		}
		err := u.Condition(m.Node).Check(ctx, e.Reader())
		switch {
		case err == nil:
		case errors.As(err, new(certuse.StaleError)):
			stale = append(stale, u.Component)
		default:
			return fmt.Errorf("looking whether %s has read the new address: %w", u.Component, err)
		}
	}
	return staticpod.Replacement{Node: m.Node, As: m.own()}.Restart(ctx, e, stale...)
}

// changeKubelet writes the files of the kubelet, and restarts a kubelet that is older than them.
func (m *machine) changeKubelet(ctx context.Context, e *engine.Env) error {
	k, err := m.FindKubelet(ctx, e)
	if err != nil {
		return err
	}
	reads := k.Units // which the user may have corrected
	for _, f := range k.Files {
		reads = append(reads, f.Path)
		if bytes.Equal(f.Before, f.Now) {
			continue
		}
		switch {
		case f.Path == m.Paths.KubeletKubeconfig():
			e.Say("writing the new address to %q", f.Path)
			err = e.Do(ctx, change.WriteFile{Path: f.Path, Data: f.Now, Mode: 0o600, Secret: true})
		case f.Before == nil:
			err = e.Do(ctx, change.WriteFile{Path: f.Path, Data: f.Now, Mode: 0o644})
		default:
			err = kubeletfile.Replace(ctx, e, f.Path, f.Now, staticpod.KubeletFlagsBackup)
		}
		if err != nil {
			return err
		}
	}
	m.requestsServing = k.RequestsServing
	if err := localkubelet.Start(ctx, e, reads...); err != nil {
		return err
	}
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, m.Node)); err != nil {
		return health.WithKubeletHints(e.Local.Platform, err)
	}
	return nil
}

// lookAtNode notes whether the kubelet itself says that its Node is not ready, as without a Pod network. If the Node
// cannot be read, that is not known, unless it has been guessed so far which address the Node has: the kubelet must not
// be given another one by a guess.
func (m *machine) lookAtNode(ctx context.Context, e *engine.Env) error {
	n, err := nodeaddress.ReadNode(ctx, e.World, m.own(), m.Name)
	if err != nil && m.IsGuessed {
		n, err = m.awaitGuessed(ctx, e)
		if err != nil {
			return err
		}
	}
	if err != nil {
		return ctx.Err()
	}
	if n.Name != "" {
		m.LookAt(n)
	}
	m.wasNotReady = slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse
	})
	return nil
}

// awaitGuessed waits until the Node can be read. It is empty if there is none, and in a dry run.
func (m *machine) awaitGuessed(ctx context.Context, e *engine.Env) (n corev1.Node, err error) {
	err = e.Await(ctx, world.Condition{Name: "Node " + m.Name, Timeout: m.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) (err error) {
			n, err = nodeaddress.ReadNode(ctx, r, m.own(), m.Name)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}})
	if err != nil {
		err = fmt.Errorf("reading which address the Node of this machine has: %w", err)
	}
	return n, err
}

// awaitNode waits until the Node has the new address. It waits for a Node that was ready before to be ready again, too; one
// that is not does not keep the move from its end, since what it lacks may need the new address of the cluster first.
func (m *machine) awaitNode(ctx context.Context, e *engine.Env) error {
	k, err := m.FindKubelet(ctx, e)
	if err != nil {
		return err
	}
	if k.IsExternal {
		e.Warn("the cloud provider sets the addresses of this Node; check it: kubectl get node -o wide")
		return nil
	}
	own := m.own()
	var notReady error
	err = e.Await(ctx, world.Condition{Name: "Node " + m.Name + " to have the address " + m.To,
		Timeout: m.Timeouts.Kubelet,
		Check: func(ctx context.Context, r state.Reader) error {
			n, err := nodeaddress.ReadNode(ctx, r, own, m.Name)
			if err != nil {
				return err // which may be the end of the wait: the reason before it counts
			}
			notReady = nil
			var has []string
			for _, a := range n.Status.Addresses {
				if a.Type == corev1.NodeInternalIP {
					has = append(has, a.Address)
				}
			}
			if !slices.Contains(has, m.To) && !m.KeepsNode {
				return fmt.Errorf("it has %s", untrusted.Line(strings.Join(has, ", ")))
			}
			for _, c := range n.Status.Conditions {
				switch {
				case c.Type != corev1.NodeReady || c.Status == corev1.ConditionTrue:
				case c.Status == corev1.ConditionFalse: // by the kubelet, which reaches an API server then
					notReady = fmt.Errorf("is not ready: %s", untrusted.Line(c.Message))
				default:
					return fmt.Errorf("it is not ready: %s", untrusted.Line(c.Message))
				}
			}
			if m.wasNotReady {
				return nil
			}
			if notReady != nil {
				return fmt.Errorf("it %w", notReady)
			}
			return nil
		}})
	if notReady != nil && ctx.Err() == nil {
		e.Warn("Node %s has its new address but %v; to find out why: kubeadm doctor", m.Name, notReady)
		return nil
	}
	if err != nil && ctx.Err() == nil {
		err = problem.New(err, "if another file tells the kubelet its address, change it there: systemctl cat kubelet",
			"then run the same command again")
	}
	return err
}

// readEndpoint reads where nodes reach the cluster: the control plane endpoint or, without one, this node.
func (m *machine) readEndpoint(ctx context.Context, e *engine.Env) (endpoint string, err error) {
	err = e.Await(ctx, world.Condition{Name: "the configuration of the cluster", Timeout: m.Timeouts.KubernetesAPI,
		External: m.IsReachable, // a dry run reads it too
		Check: func(ctx context.Context, r state.Reader) error {
			text, err := existing.ReadClusterConfiguration(ctx, r, m.own())
			if err != nil {
				text, err = existing.ReadClusterConfiguration(ctx, r, m.as)
			}
			if err != nil {
				return err
			}
			var stored struct {
				Endpoint string `json:"controlPlaneEndpoint"`
			}
			if err := yaml.Unmarshal([]byte(text), &stored); err != nil {
				return world.Permanent(untrusted.Error(err))
			}
			endpoint = cmp.Or(stored.Endpoint, net.JoinHostPort(m.From[0], strconv.Itoa(int(m.BindPort))))
			return nil
		}})
	return endpoint, err
}

// listHostPods lists the Pods that report the previous address. The API server of this node serves at the new address;
// in a dry run it has not moved.
func (m *machine) listHostPods(ctx context.Context, e *engine.Env) (pods []nodeaddress.HostPod, err error) {
	for _, as := range []state.Identity{m.own(), m.as} {
		var n corev1.Node
		if n, err = nodeaddress.ReadNode(ctx, e.World, as, m.Name); err == nil {
			return nodeaddress.ListHostPods(ctx, e.World, as, n)
		}
	}
	return nil, err
}

// report says what is left to do by others.
func (m *machine) report(ctx context.Context, e *engine.Env) error {
	pods, err := m.listHostPods(ctx, e)
	if err != nil && ctx.Err() == nil {
		e.Warn("Pods that report the previous address are not listed: %v", err)
	}
	var b strings.Builder
	for _, p := range pods {
		if !p.IsStatic {
			b.WriteString("  " + untrusted.Command("kubectl delete pod --namespace %s %s", p.Namespace, p.Name) + "\n")
		}
	}
	if b.Len() > 0 {
		e.Print("\nThese Pods use the network of the host and still report the previous address. Pods that replace them " +
			"report\nthe new one:\n\n" + b.String())
	}
	if m.requestsServing {
		e.Print("\nThe kubelet requests a serving certificate for its new address. Approve it on a control plane node:\n\n" +
			"  kubeadm certs approve-kubelet-serving\n")
	}
	if m.Role != node.ControlPlane || len(m.From) == 0 {
		return context.Cause(ctx)
	}
	if m.IsForgotten {
		e.Print("\nThe etcd member of this node is not one of the cluster's any more. Add it again, with the data of the others:\n\n" +
			"  kubeadm etcd rejoin\n")
	}
	endpoint, err := m.readEndpoint(ctx, e)
	if err != nil {
		return err
	}
	if now := m.Replace(endpoint); now != endpoint {
		e.Print("\nNodes and users reach the cluster at the previous address. Lead them to the new one, once " +
			"nodes that\nhave lost it are NotReady:\n\n  " + untrusted.Command("kubeadm endpoint change", now) +
			"\n\nand then, on each worker:\n\n  " + untrusted.Command("kubeadm endpoint follow", now) + "\n")
	}
	e.Print("\nReplace the previous address in load balancers, DNS and firewalls. Once nothing uses it:\n\n" +
		"  kubeadm address finish\n")
	return context.Cause(ctx)
}
