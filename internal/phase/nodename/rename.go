package nodename

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/drain"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
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

// Change gives this node another name: another Node takes the place of the present one.
var Change = engine.Phase{
	Name:  "node",
	Short: "Replace the Node by one of another name",
	Long: "Drain the node, create a Node of the new name with its labels, taints and annotations, restart the kubelet with a " +
		"client certificate for that, and delete the previous Node.",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		r := &renaming{Rename: nodename.RenameOf(e), machine: machine{Node: n, as: as, mustBeReady: true}}
		steps := []func(context.Context, *engine.Env) error{r.Rename.Store, r.leave, r.createNode, r.switchKubelet}
		if n.Role == node.ControlPlane {
			steps = append(steps, r.awaitStaticPods, r.awaitMember)
		}
		for _, step := range append(steps, r.awaitNode) {
			if err := step(ctx, e); err != nil && !r.isTaken {
				return r.withWayBack(err)
			} else if err != nil {
				return err
			}
		}
		return r.finish(ctx, e)
	},
}

// renaming is this node, which gets another name.
type renaming struct {
	nodename.Rename
	machine
	isTaken bool // another machine has got the new name
}

func (r *renaming) withWayBack(err error) error {
	return problem.New(err, "to complete the change, run the same command again",
		r.Hint("to take it back", r.From()))
}

// drainTimeout is how long the Pods of the node may take to leave it.
const drainTimeout = 5 * time.Minute

// detachTimeout is how long their volumes may take after that.
const detachTimeout = time.Minute

// leave drains the previous Node, unless the kubelet has left it already.
func (r *renaming) leave(ctx context.Context, e *engine.Env) error {
	current, err := r.readClient(ctx, e)
	if err != nil || current.NodeName(ctx, e.World) == r.To {
		return err
	}
	from, err := nodename.ReadNode(ctx, e.Reader(), r.as, r.From())
	if err != nil || from == nil || !r.IsBack() && !r.Owns(from) {
		return err
	}
	err = drain.Run(ctx, e, drain.Options{Node: r.From(), As: r.as, Timeout: drainTimeout,
		Longer: "run the same command again to wait longer"})
	if err != nil {
		return err
	}
	err = e.Await(ctx, world.Condition{Name: "the volumes of node " + r.From() + " to be detached", Timeout: detachTimeout, MaxPause: world.LongPause,
		Check: func(ctx context.Context, reader state.Reader) error {
			all, err := reader.List(ctx, state.Query{As: r.as, Fields: []string{"metadata", "spec.nodeName"},
				GVK: schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment"}})
			if err != nil {
				return err
			}
			for _, u := range all {
				if host, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); host == r.From() {
					return fmt.Errorf("VolumeAttachment %s is left", untrusted.Line(u.GetName()))
				}
			}
			return nil
		}})
	if err != nil && ctx.Err() == nil {
		e.Warn("%v", err)
		return nil
	}
	return err
}

// createNode creates the new Node before the kubelet registers: it carries over what a kubelet may not set.
func (r *renaming) createNode(ctx context.Context, e *engine.Env) error {
	client, err := r.readClient(ctx, e)
	if err != nil || r.IsBack() || client.NodeName(ctx, e.World) == r.To {
		return err
	}
	to, err := nodename.ReadNode(ctx, e.Reader(), r.as, r.To)
	if err != nil {
		return err
	}
	if to == nil {
		from, err := nodename.ReadNode(ctx, e.Reader(), r.as, r.From())
		if err != nil {
			return err
		}
		if from == nil || !r.Owns(from) {
			return fmt.Errorf("there is no Node %s any more, whose labels and taints Node %s is to get", untrusted.Line(r.From()), r.To)
		}
		keys, err := nodename.ListTopologyKeys(ctx, e.Reader(), r.as, r.From())
		if err != nil {
			return err
		}
		e.Say("creating Node %s with the labels, taints and annotations of Node %s", r.To, untrusted.Line(r.From()))
		if err := e.Do(ctx, change.ApplyObject{Object: r.NewNode(*from, keys...), As: r.as, Keep: true}); err != nil {
			return err
		}
		if to, err = nodename.ReadNode(ctx, e.Reader(), r.as, r.To); err != nil {
			return err
		}
	}
	if to != nil && !r.IsOwn(to) { // another machine was faster
		return r.giveUp(ctx, e)
	}
	return nil
}

// giveUp forgets the change, of which nothing but the drain is done, and returns the error of a name that is taken.
func (r *renaming) giveUp(ctx context.Context, e *engine.Env) error {
	r.isTaken = true
	if !r.Cordoned {
		if err := e.Do(ctx, r.editNode(r.From(), uncordon)); err != nil {
			return problem.New(errors.Join(r.NewTakenError(), err), untrusted.CommandHint("let Pods run here", "kubectl uncordon", r.From()))
		}
	}
	if err := nodename.RemoveRename(ctx, e); err != nil {
		return errors.Join(r.NewTakenError(), err)
	}
	return r.NewTakenError()
}

func uncordon(u *unstructured.Unstructured) error {
	unstructured.RemoveNestedField(u.Object, "spec", "unschedulable")
	return nil
}

func (r *renaming) readClient(ctx context.Context, e *engine.Env) (*localkubelet.ClientCert, error) {
	return localkubelet.ReadManagedClientCert(ctx, e.World, r.Paths)
}

// switchKubelet replaces the files of the kubelet while it is stopped, the client certificate as the last one: after a kill
// each of them is as before, or as it is to be.
func (r *renaming) switchKubelet(ctx context.Context, e *engine.Env) error {
	client, err := r.readClient(ctx, e)
	if err != nil {
		return err
	}
	files, err := r.FindFiles(ctx, e, r.Local)
	if err != nil {
		return err
	}
	isSwitched := client.NodeName(ctx, e.World) == r.To
	if isSwitched && len(files) == 0 {
		return localkubelet.Start(ctx, e, append(r.Paths.KubeletEnvFiles(), client.File)...)
	}
	if err := r.checkMembers(ctx, e); err != nil {
		return err
	}
	var pair localkubelet.ClientPair
	if !isSwitched {
		if pair, err = r.newPair(ctx, e, client); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// Neither an interrupt nor the loss of the lock leaves the node without a kubelet: its Pods would be evicted. The only
	// API server is down meanwhile.
	whole := context.WithoutCancel(ctx)
	committed, err := clusterlock.Commit(ctx, e)
	if err != nil {
		return err
	}
	e.Say("restarting the kubelet as that of Node %s", r.To)
	if err := localkubelet.Stop(whole, committed); err != nil {
		return err
	}
	err = r.replaceFiles(whole, committed, files)
	if err == nil && !isSwitched {
		err = client.Install(whole, committed, pair)
	}
	if err == nil {
		err = r.removeContainers(whole, committed)
	}
	if err = errors.Join(err, localkubelet.Start(whole, committed)); err != nil {
		return err
	}
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
		return health.WithKubeletHints(r.Platform, err)
	}
	return nil
}

// checkMembers checks again whether the etcd member of this machine can restart: the drain may have taken minutes.
func (r *renaming) checkMembers(ctx context.Context, e *engine.Env) error {
	if r.Member == nil {
		return nil
	}
	found, err := etcdcluster.CheckHealth(ctx, e.Reader(), r.Etcd)
	if err != nil {
		return err
	}
	return r.CheckMembers(found)
}

// newPair is a client certificate for the new name: signed with the key of the cluster CA, or by the cluster.
func (r *renaming) newPair(ctx context.Context, e *engine.Env, c *localkubelet.ClientCert) (localkubelet.ClientPair, error) {
	if r.Role == node.ControlPlane {
		canSign, err := localkubelet.CanSign(ctx, e, r.Node)
		if err != nil {
			return localkubelet.ClientPair{}, err
		}
		if canSign {
			return localkubelet.SignFor(ctx, e, r.Node, r.To)
		}
	}
	return c.Request(ctx, e, localkubelet.RequestOptions{Name: "kubelet-client-" + r.To, As: r.as, Node: r.To,
		Timeout: r.Timeouts.TLSBootstrap})
}

// replaceFiles replaces the files of the kubelet, and removes its serving certificates, which are for the previous name: it
// generates or requests others.
func (r *renaming) replaceFiles(ctx context.Context, e *engine.Env, files []nodename.File) error {
	for _, f := range files {
		var err error
		switch {
		case f.Path == r.Paths.Manifest("etcd"):
			e.Say("writing the new name of the etcd member to %q", f.Path)
			err = e.Do(ctx, change.WriteFile{Path: f.Path, Data: []byte(f.Now), Mode: 0o600})
		case f.Existed:
			err = kubeletfile.Replace(ctx, e, f.Path, []byte(f.Now), staticpod.KubeletFlagsBackup)
		default:
			err = e.Do(ctx, change.WriteFile{Path: f.Path, Data: []byte(f.Now), Mode: 0o644})
		}
		if err != nil {
			return err
		}
	}
	pki := path.Join(r.Paths.Kubelet, "pki")
	if err := e.Do(ctx, change.Remove{Path: path.Join(pki, "kubelet-server-current.pem")}); err != nil {
		return err
	}
	file, err := nodename.FindServingCertificate(ctx, e.World, r.Paths)
	if err != nil {
		return err
	}
	if file != "" {
		e.Warn("the kubelet serves with %s, which kubeadm does not replace: issue a certificate for the name %s there",
			untrusted.Line(file), r.To)
		return nil
	}
	for _, name := range []string{"kubelet.crt", "kubelet.key"} {
		if err := kubeletfile.Remove(ctx, e, path.Join(pki, name), staticpod.KubeletConfigBackup); err != nil {
			return err
		}
	}
	return nil
}

// removeContainers removes the static Pods of the previous name: their ports are in use as long as they run.
func (r *renaming) removeContainers(ctx context.Context, e *engine.Env) error {
	if r.Role != node.ControlPlane {
		return nil
	}
	components := staticpod.Components(r.Node)
	slices.Reverse(components) // the API server answers the requests that it has while etcd runs
	for _, component := range components {
		err := e.Do(ctx, change.RemoveContainers{Socket: r.CRISocket, Component: component, GracePeriod: change.ExitPeriod})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitMember waits until the etcd member of this machine is healthy under its new name, and has caught up.
func (r *renaming) awaitMember(ctx context.Context, e *engine.Env) error {
	if r.Member == nil {
		return nil
	}
	via := etcdcluster.LocalClient(r.Paths, r.Member.ClientURL)
	err := e.Await(ctx, world.Condition{Name: "this node's etcd member " + r.To, Timeout: r.Timeouts.Upgrade,
		Check: func(ctx context.Context, reader state.Reader) error {
			found, err := etcdcluster.CheckHealth(ctx, reader, via)
			if err != nil {
				return err
			}
			own := found.FindByPeerURL(r.Member.PeerURL)
			if own == nil {
				return errors.New("etcd does not list it")
			}
			if own.Name != r.To && r.RenamesMember() {
				return fmt.Errorf("its name is still %s", untrusted.Line(own.Name))
			}
			if err := found.Unhealthy[own.ID]; err != nil {
				return err
			}
			return found.CheckAppliedIndex(own.ID)
		}})
	if err != nil && ctx.Err() == nil {
		err = health.WithComponentHints(r.Node, err)
	}
	return err
}

// finish lets Pods run on the new Node, and removes what is left of the previous one. From then on there is no way back.
func (r *renaming) finish(ctx context.Context, e *engine.Env) error {
	edit := uncordon
	if r.Cordoned {
		edit = func(*unstructured.Unstructured) error { return nil }
	}
	if err := e.Do(ctx, r.editNode(r.To, edit)); err != nil {
		return err
	}
	if err := r.deletePrevious(ctx, e); err != nil {
		return err
	}
	if r.Role == node.ControlPlane {
		if err := r.reissue(ctx, e); err != nil {
			return err
		}
	}
	if err := localkubelet.RemoveClientCerts(ctx, e, r.From()); err != nil {
		return err
	}
	if err := e.Do(ctx, r.editNode(r.To, func(u *unstructured.Unstructured) error {
		annotations := u.GetAnnotations()
		delete(annotations, node.RenamedFromAnnotation)
		u.SetAnnotations(annotations)
		return nil
	})); err != nil {
		return err
	}
	if err := nodename.RemoveRename(ctx, e); err != nil {
		return err
	}
	return r.report(ctx, e)
}

// deletePrevious deletes the previous Node with its Lease and Pods. One of another machine, which has joined under that name
// since, is left alone.
func (r *renaming) deletePrevious(ctx context.Context, e *engine.Env) error {
	from, err := nodename.ReadNode(ctx, e.Reader(), r.as, r.From())
	if err != nil {
		return err
	}
	if from != nil && !r.Owns(from) {
		e.Warn("Node %s is not deleted: it may be that of another machine; %s", untrusted.Line(r.From()),
			untrusted.CommandHint("if no machine has that name, delete it", "kubectl delete node", r.From()))
		return nil
	}
	e.Say("deleting Node %s", untrusted.Line(r.From()))
	if from != nil {
		err := e.Do(ctx, change.DeleteObject{Ref: state.Ref{GVK: state.NodeKind, Name: r.From(), As: r.as}, UID: string(from.UID)})
		if err != nil {
			return err
		}
	}
	// A kubelet that has joined under that name since creates its Lease again.
	lease := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	if err := e.Do(ctx, change.DeleteObject{Ref: state.Ref{GVK: lease, Namespace: corev1.NamespaceNodeLease, Name: r.From(),
		As: r.as}}); err != nil {
		return err
	}
	return r.awaitGone(ctx, e)
}

func (r *renaming) editNode(name string, edit func(*unstructured.Unstructured) error) change.Change {
	n := &corev1.Node{}
	n.SetGroupVersionKind(state.NodeKind)
	n.Name = name
	return change.MutateObject{Object: n, As: r.as, Mutate: edit, MustExist: true}
}

// goneTimeout is longer than the controllers take to delete the Pods of a Node that is gone, 40 to 80 seconds.
const goneTimeout = 3 * time.Minute

// awaitGone waits until no Pod of the previous Node is left, mirrors of static Pods too. They do no harm.
func (r *renaming) awaitGone(ctx context.Context, e *engine.Env) error {
	err := e.Await(ctx, world.Condition{Name: "the Pods of Node " + r.From() + " to be deleted", Timeout: goneTimeout, MaxPause: world.LongPause,
		Check: func(ctx context.Context, reader state.Reader) error {
			all, err := reader.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), As: r.as,
				FieldSelector: "spec.nodeName=" + r.From(), Fields: []string{"metadata"}})
			if err != nil || len(all) == 0 {
				return err
			}
			return fmt.Errorf("%d are left, such as %s", len(all), untrusted.Line(all[0].GetNamespace()+"/"+all[0].GetName()))
		}})
	if err != nil && ctx.Err() == nil {
		e.Warn("%v", err)
		return nil
	}
	return err
}

// report says what is left to do by others.
func (r *renaming) report(ctx context.Context, e *engine.Env) error {
	data, err := state.ReadOptional(ctx, e.World, r.Paths.KubeletConfig())
	if err != nil {
		return err
	}
	if bytes.Contains(data, []byte("serverTLSBootstrap: true")) {
		e.Print("\nThe kubelet requests a serving certificate for its new name. Approve it on a control plane node:\n\n" +
			"  kubeadm certs approve-kubelet-serving\n")
	}
	e.Print("\nReplace the previous name where others use it: node selectors, affinities, monitoring, load balancers.\n")
	return context.Cause(ctx)
}
