package nodeaddress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Wanted is what a command needs to move this node.
type Wanted struct {
	Intent
	Node *node.Node // this node at the new address
	As   state.Identity
}

// Intent is what the user wants, for the phases.
type Intent struct {
	Move
	// Present is this machine by its files, at the address that they have now.
	Present node.Local
	// IsPrepared is set if the present address is still one of this machine, whose components serve there.
	IsPrepared bool
	// IsReachable is set if an API server answers before this node's own one has moved.
	IsReachable bool
	// KeepsNode is set if the kubelet of this control plane node has another address on purpose, which stays.
	KeepsNode bool
	// IsGuessed is set if KeepsNode is a guess, since no API server answers: LookAt corrects it.
	IsGuessed bool
	// Member is the etcd member of this machine; nil if it has none.
	Member *etcddata.Member
	// IsForgotten is set if etcd does not list that member any more, and it does not run: "etcd rejoin" adds it again once
	// the node has moved.
	IsForgotten bool
	// Etcd is how the members are reached before this one has moved. There are no endpoints if this is the only
	// one, and does not serve.
	Etcd state.Etcd
	// Ask asks the user whether to go on, and is an error if not; nil if there is no question.
	Ask func(context.Context) error
}

// IntentOf is the intent of the command that a phase belongs to.
func IntentOf(e *engine.Env) Intent { return engine.IntentOf[Intent](e) }

// Find finds what it means that this node has another address. It is an error if that cannot be its address, or if
// the other members of etcd cannot do without the one of this node.
func Find(ctx context.Context, e *engine.Env, here existing.Machine, to string) (w Wanted, err error) {
	w.To, w.Present, w.As = to, here.Local, here.As
	own, err := e.World.Addresses(ctx)
	if err != nil {
		return w, fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	local := here.Local
	if here.Role != node.ControlPlane {
		w.Node = &node.Node{Local: local}
		if err := w.findWorker(ctx, e, own); err != nil {
			return w, err
		}
		return w, w.checkKubelet(ctx, e)
	}
	local.Address = to
	w.Node = &node.Node{Local: local}
	if err := w.findPlane(ctx, e); err != nil {
		return w, err
	}
	w.IsPrepared = IsOn(own, here.Address)
	if err := w.findCluster(ctx, e, here); err != nil {
		return w, err
	}
	if w.KeepsNode, err = w.keepsNode(ctx, e, own); err != nil {
		return w, err
	}
	if err := w.checkMembers(ctx, e, here); err != nil {
		return w, err
	}
	return w, w.checkKubelet(ctx, e)
}

// checkKubelet looks before anything is changed what changes of the kubelet.
func (w *Wanted) checkKubelet(ctx context.Context, e *engine.Env) error {
	k, err := w.FindKubelet(ctx, e)
	if err == nil {
		k.warnOfUnread(e)
	}
	return err
}

// keepsNode reports whether the kubelet has another address than the API server beside it, such as one of another
// network card: the one that it is told, or that its Node has. If no API server answers, it is taken for that of
// the interface with the default route, which is a guess.
func (w *Wanted) keepsNode(ctx context.Context, e *engine.Env, own []state.Address) (bool, error) {
	set, err := ReadNodeIPs(ctx, e.World, w.Present.Paths)
	if err != nil || len(set) > 0 {
		return err == nil && !slices.ContainsFunc(set, w.isMoving), err
	}
	if !w.IsReachable {
		w.IsGuessed = true
		return !slices.ContainsFunc(own, func(a state.Address) bool { return a.DefaultRoute && a.IP == w.To }), nil
	}
	n, err := ReadNode(ctx, e.Reader(), w.As, w.Node.Name)
	if err != nil {
		return false, fmt.Errorf("reading the Node of this machine: %w", err)
	}
	return w.isKept(n), nil
}

// isMoving reports whether an address is the new one, or one that it replaces.
func (m Move) isMoving(ip string) bool { return ip == m.To || m.IsFrom(ip) }

// isKept reports whether a Node has other addresses than those of the move.
func (m Move) isKept(n corev1.Node) bool {
	return len(n.Status.Addresses) > 0 && !slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP && m.isMoving(a.Address)
	})
}

// LookAt replaces a guess about the address of the Node by what the Node has.
func (i *Intent) LookAt(n corev1.Node) {
	if i.IsGuessed {
		i.KeepsNode, i.IsGuessed = i.isKept(n), false
	}
}

// IsOn reports whether one of the addresses of a machine is that one, however it is written.
func IsOn(all []state.Address, address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(all, func(a state.Address) bool { return isSame(a.IP, ip) })
}

// addFrom notes a previous address, unless it is none, or the new one.
func (m *Move) addFrom(address string) {
	ip, err := netip.ParseAddr(address)
	to, toErr := netip.ParseAddr(m.To)
	if err == nil && toErr == nil && ip.Unmap() != to.Unmap() && ip.Is4() == to.Is4() && !ip.IsLoopback() &&
		!ip.IsUnspecified() && !m.IsFrom(address) {
		m.From = append(m.From, address)
	}
}

// checkFamily is an error if a previous address is of another family: Pods, Services and etcd use one.
func (m Move) checkFamily(before string) error {
	from, err := netip.ParseAddr(before)
	to, toErr := netip.ParseAddr(m.To)
	if err != nil || toErr != nil || from.Unmap().Is4() == to.Unmap().Is4() {
		return nil
	}
	return problem.New(fmt.Errorf("%s is of another IP family than the address of this node, %s", m.To, before),
		"name an address of the same family", "to change the family, remove the node and join it again")
}

// checkRanges is an error if the new address is in a range of Pods or Services. Where the node had an address of the
// range before, Pods have addresses of the network of the nodes.
func (m Move) checkRanges(ranges map[string]string) error {
	to, err := netip.ParseAddr(m.To)
	if err != nil {
		return err
	}
	for what, cidrs := range ranges {
		for text := range strings.SplitSeq(cidrs, ",") {
			cidr, err := netip.ParsePrefix(strings.TrimSpace(text))
			isWithin := func(address string) bool {
				ip, err := netip.ParseAddr(address)
				return err == nil && cidr.Contains(ip.Unmap())
			}
			if err == nil && cidr.Contains(to.Unmap()) && !slices.ContainsFunc(m.From, isWithin) {
				return problem.New(fmt.Errorf("%s is in the range of %s, %s", m.To, what, cidr),
					"name an address of the network of the nodes")
			}
		}
	}
	return nil
}

// findPlane finds the previous addresses of a control plane node, and checks the new one, by its files.
func (w *Wanted) findPlane(ctx context.Context, e *engine.Env) error {
	p := w.Present.Paths
	if err := w.checkFamily(w.Present.Address); err != nil {
		return err
	}
	record, err := ReadRecord(ctx, e.World, p)
	if err != nil {
		return err
	}
	pods := map[string]*corev1.Pod{}
	for _, component := range []string{release.APIServer, release.ControllerManager} {
		if pods[component], err = readPod(ctx, e.World, p, component); err != nil {
			return err
		}
	}
	w.addFrom(w.Present.Address)
	w.addFrom(manifest.ArgumentValue(pods[release.APIServer], "advertise-address"))
	for _, ip := range append(record.From, record.To) {
		w.addFrom(ip)
	}
	ranges := map[string]string{
		"Services": manifest.ArgumentValue(pods[release.APIServer], "service-cluster-ip-range"),
		"Pods":     manifest.ArgumentValue(pods[release.ControllerManager], "cluster-cidr"),
	}
	if err := w.checkRanges(ranges); err != nil {
		return err
	}
	hasEtcd, err := state.Exists(ctx, e.World, p.Manifest(manifest.Etcd))
	if err != nil {
		return err
	}
	if w.ExternalEtcd = !hasEtcd; w.ExternalEtcd {
		w.Node.Cluster.Etcd.External = &node.ExternalEtcd{}
		return nil
	}
	member, err := etcddata.ReadMember(ctx, e.World, p)
	if err != nil {
		return err
	}
	w.Member = &member
	w.addFrom(node.HostOf(member.PeerURL))
	w.addFrom(node.HostOf(member.ClientURL))
	return nil
}

func readPod(ctx context.Context, r state.Reader, p node.Paths, component string) (*corev1.Pod, error) {
	file := p.Manifest(component)
	data, err := state.ReadRequired(ctx, r, file)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		return nil, problem.During("reading "+file, err, "restore the file from a backup in "+p.Tmp())
	}
	return pod, nil
}

// reachLimit is how long an API server may take to answer.
const reachLimit = 10 * time.Second

// findCluster finds an API server that answers, and what the cluster says of this node and of others. The API server
// of this node is asked where it serves; its certificate may not have the new address yet.
func (w *Wanted) findCluster(ctx context.Context, e *engine.Env, here existing.Machine) error {
	candidates := []state.Identity{here.As}
	if here.As.Server != "" { // it is that of this machine
		shared, moved := here.As, here.As
		shared.Server, moved.Server = "", w.Node.LocalServerURL()
		candidates = []state.Identity{shared, moved}
		if w.IsPrepared {
			candidates = append([]state.Identity{here.As}, candidates...)
		}
	}
	err := e.Await(ctx, world.Condition{
		Name: "an API server of the cluster to answer", Timeout: reachLimit, External: true,
		Check: func(ctx context.Context, r state.Reader) error {
			var errs []error
			for _, as := range candidates {
				err := r.Livez(ctx, as)
				if err == nil {
					w.As, w.IsReachable = as, true
					return nil
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		return w.checkOnly(ctx, e, err)
	}
	if w.Node, err = (existing.Machine{Local: w.Node.Local, As: w.As}).Node(ctx, e, release.Target{}); err != nil {
		return err
	}
	return w.checkNodes(ctx, e)
}

// checkOnly is an error unless this machine has the only member of etcd, by its data: then no API server answers
// until it has moved.
func (w *Wanted) checkOnly(ctx context.Context, e *engine.Env, unreachable error) error {
	hint := "move the nodes one after the other, as long as the others work"
	if w.Member == nil && w.IsPrepared {
		return problem.New(fmt.Errorf("no API server answers, so the addresses of other nodes are not known, nor whether an "+
			"upgrade is in progress: %w", unreachable), "find out why the control plane does not answer: kubeadm doctor")
	}
	if w.Member == nil {
		e.Warn("no API server answers, so the addresses of other nodes are not known, nor whether an upgrade is in progress: %v",
			unreachable)
		return nil
	}
	// An etcd that runs keeps listening when its address is gone, and at the loopback address.
	client, err := etcdcluster.ReadClient(ctx, e.World, w.Present.Paths)
	if err != nil {
		return err
	}
	if all, err := e.World.Members(ctx, client.Etcd); err == nil && len(all) == 1 {
		w.Etcd = client.Etcd
		return nil
	} else if ctx.Err() != nil {
		return err
	}
	info, err := e.World.ReadDatabase(ctx, path.Join(w.Member.MemberDir(), "snap", "db"))
	if err != nil {
		return problem.New(fmt.Errorf("%w; and the members of etcd cannot be read from its data: %w", unreachable, err), hint)
	}
	if len(info.Members) == 0 {
		return problem.New(fmt.Errorf("%w; and etcd's data name no member", unreachable), hint)
	}
	if len(info.Members) > 1 {
		return problem.New(fmt.Errorf("no API server answers, and etcd has %d members: its others must agree to the new "+
			"address of this one: %w", len(info.Members), unreachable),
			"if another control plane node works: set --kubeconfig to an administrator's kubeconfig whose server is that node", hint,
			"or, if all control plane nodes got other addresses at once, give them their previous ones again, as second "+
				"addresses", "or, if that cannot be done, give this one its previous address again for the time being, and run: kubeadm "+
				"etcd recover")
	}
	return nil
}

// checkNodes is an error if another node has the new address. A kubelet may not read other Nodes.
func (w *Wanted) checkNodes(ctx context.Context, e *engine.Env) error {
	all, err := e.List(ctx, state.Query{GVK: state.NodeKind, As: w.As, Fields: []string{"metadata", "status.addresses"}})
	if apierrors.IsForbidden(err) && w.Node.Role != node.ControlPlane {
		e.Warn("whether another node has the address %s is not checked: the kubelet may not read other Nodes; an administrator's "+
			"--kubeconfig may", w.To)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the addresses of other nodes: %w", err)
	}
	to, _ := netip.ParseAddr(w.To)
	for _, u := range all {
		var n corev1.Node
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n) != nil || n.Name == w.Node.Name {
			continue
		}
		for _, a := range n.Status.Addresses {
			if isSame(a.Address, to) {
				return problem.New(fmt.Errorf("%s is the address of node %s", w.To, untrusted.Line(n.Name)),
					"name an address that no other node has",
					untrusted.CommandHint("if that node is permanently lost, delete it", "kubectl delete node", n.Name))
			}
		}
	}
	return nil
}

// findWorker finds the previous addresses of a worker, and checks the new one.
func (w *Wanted) findWorker(ctx context.Context, e *engine.Env, own []state.Address) error {
	w.IsReachable = true
	n, err := ReadNode(ctx, e.Reader(), w.As, w.Node.Name)
	if err != nil {
		return problem.New(fmt.Errorf("reading the Node of this machine: %w", err),
			"if the endpoint of the cluster has changed: kubeadm endpoint follow HOST[:PORT]")
	}
	set, err := ReadNodeIPs(ctx, e.World, w.Present.Paths)
	if err != nil {
		return err
	}
	before := set
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			before = append(before, a.Address)
		}
	}
	isOther := len(before) > 0
	for _, ip := range before {
		isOther = isOther && w.checkFamily(ip) != nil
		w.addFrom(ip)
	}
	if isOther {
		return w.checkFamily(before[0])
	}
	w.IsPrepared = slices.ContainsFunc(w.From, func(ip string) bool { return IsOn(own, ip) })
	stored, err := existing.ReadCluster(ctx, e, w.As)
	if err != nil {
		return err
	}
	if err := w.checkRanges(map[string]string{"Pods": stored.Cluster.PodSubnet,
		"Services": stored.Cluster.ServiceSubnet}); err != nil {
		return err
	}
	return w.checkNodes(ctx, e)
}

// ReadNode reads the Node of this machine.
func ReadNode(ctx context.Context, r state.Reader, as state.Identity, name string) (n corev1.Node, err error) {
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name, As: as})
	if err != nil {
		return n, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return n, untrusted.Error(err)
	}
	return n, nil
}
