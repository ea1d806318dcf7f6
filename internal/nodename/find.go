package nodename

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/existing"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// RenameWanted is what a command needs to give this node another name.
type RenameWanted struct {
	Rename
	Node *node.Node // this node under its new name
	As   state.Identity
	// Done is set if the node has the name, and nothing is left to do.
	Done bool
}

// Recover starts a kubelet that an interrupted change of the node's name has stopped: without it no API server runs on the
// only control plane node.
func Recover(ctx context.Context, e *engine.Env, here existing.Machine) error {
	record, err := ReadRename(ctx, e.World, here.Paths)
	if err != nil || record == nil {
		return err
	}
	kubelet, err := e.World.Service(ctx, localkubelet.Service)
	if err != nil || kubelet.Active {
		return nil // the user may run it by other means
	}
	e.Say("starting the kubelet, which an interrupted change of the node's name has stopped")
	if err := localkubelet.Start(ctx, e); err != nil || here.Role != node.ControlPlane {
		return err
	}
	// If it is not healthy in time, what asks it next says why.
	_ = e.Await(ctx, health.APIServer(&node.Node{Local: here.Local}, here.As))
	return ctx.Err()
}

// FindRename finds what it means that this node gets another name. It is an error if it cannot have that.
func FindRename(ctx context.Context, e *engine.Env, here existing.Machine, to string) (w RenameWanted, err error) {
	if err := checkName(to); err != nil {
		return w, err
	}
	client, err := localkubelet.ReadManagedClientCert(ctx, e.World, here.Paths)
	if err != nil {
		return w, err
	}
	name := client.NodeName(ctx, e.World)
	if name == "" {
		return w, newUnknownError(here.Paths)
	}
	record, err := ReadRename(ctx, e.World, here.Paths)
	if err != nil {
		return w, err
	}
	w.As = here.As
	switch {
	case record == nil && to == name:
		w.Done = true
		return w, nil
	case record == nil:
		w.Record = Record{Original: name, Other: to, To: to, isWorker: here.Role != node.ControlPlane}
	case to != record.Original && to != record.Other:
		return w, record.NewIncompleteError()
	default:
		w.Record = *record
		w.To = to
	}
	if here.As.Kubeconfig == here.Paths.KubeletKubeconfig() {
		return w, problem.New(errors.New("a kubelet can neither create another Node nor get a certificate for it: an administrator "+
			"has to give the node another name"), "set --kubeconfig to an administrator's kubeconfig, such as a copy of admin.conf")
	}
	local := here.Local
	local.Name = to
	if w.Node, err = (existing.Machine{Local: local, As: here.As}).Node(ctx, e, release.Target{}); err != nil {
		return w, err
	}
	if err := w.findNodes(ctx, e, name); err != nil {
		return w, err
	}
	if record == nil {
		if err := checkKubelet(ctx, e.World, here.Local, name); err != nil {
			return w, err
		}
	}
	if err := w.findMember(ctx, e, here); err != nil {
		return w, err
	}
	_, err = w.FindFiles(ctx, e, here.Local) // what cannot be edited is an error
	return w, err
}

// checkKubelet is an error unless the kubelet gives itself the name in its certificate: it has been refused since it was
// started, or will be once it restarts.
func checkKubelet(ctx context.Context, r state.Reader, local node.Local, name string) error {
	k, err := ReadKubelet(ctx, r, local)
	switch {
	case err != nil || k.Name == name && !k.IsUnit:
		return err
	case k.IsUnit:
		return newPresentUnitError(k, name)
	}
	return problem.New(fmt.Errorf("the kubelet takes the name %s when it starts, but its certificate is for node %s",
		untrusted.Quote(k.Name), untrusted.Line(name)), "first run: kubeadm node-name keep")
}

func newUnknownError(p node.Paths) error {
	return problem.New(fmt.Errorf("the name of this node is not known: the kubelet has no client certificate of a node, "+
		"which %s should name", p.KubeletKubeconfig()), "look at the certificate of the kubelet: kubeadm doctor")
}

func checkName(name string) error {
	// The kubelet labels its Node with the name.
	if wrong := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(wrong) > 0 {
		return problem.New(fmt.Errorf("%s cannot be the name of a Node", untrusted.Quote(name)),
			"use at most 63 lower-case letters, digits, dashes and dots, and begin and end with a letter or digit")
	}
	return nil
}

// ReadNode reads a Node; it is nil if there is none.
func ReadNode(ctx context.Context, r state.Reader, as state.Identity, name string) (*corev1.Node, error) {
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name, As: as})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", untrusted.Line(name), err)
	}
	n := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, n); err != nil {
		return nil, untrusted.Error(err)
	}
	return n, nil
}

// findNodes checks the Nodes of both names, and what is bound to the previous one.
// A kubelet that has the new name already has been given it by an interrupted run.
func (w *RenameWanted) findNodes(ctx context.Context, e *engine.Env, present string) error {
	record, err := ReadRename(ctx, e.World, w.Node.Paths)
	if err != nil {
		return err
	}
	isFirst := record == nil
	to, err := ReadNode(ctx, e.Reader(), w.As, w.To)
	if err != nil {
		return err
	}
	from, err := ReadNode(ctx, e.Reader(), w.As, w.From())
	if err != nil {
		return err
	}
	if present == w.Original { // the kubelet has not left that Node yet
		w.UID = uidOf(from)
		if w.IsBack() {
			w.UID = uidOf(to)
		}
	}
	switch {
	case w.IsBack() && (to == nil || string(to.UID) != w.UID):
		text := fmt.Sprintf("Node %s is deleted already, so the change cannot be taken back", w.To)
		if to != nil {
			text += "; another machine has joined under that name"
		}
		return problem.New(errors.New(text), w.Hint("complete it", w.Other))
	case isFirst && to != nil:
		return w.NewTakenError()
	case !w.IsBack() && to != nil && !w.IsOwn(to) && present != w.To:
		return problem.New(w.NewTakenError(), w.Hint("or take the change back", w.Original))
	}
	if from != nil && !w.Owns(from) {
		from = nil // of another machine, which has joined since
	}
	if from == nil {
		if to == nil {
			return problem.New(fmt.Errorf("there is no Node %s", untrusted.Line(w.From())),
				"restart the kubelet, which registers it: systemctl restart kubelet")
		}
		return nil
	}
	if isFirst {
		w.Cordoned = from.Spec.Unschedulable
	}
	if from.Spec.ProviderID != "" {
		return problem.New(fmt.Errorf("the cloud provider knows Node %s by its name (providerID %s)", untrusted.Line(from.Name),
			untrusted.Line(from.Spec.ProviderID)), "remove the node, and join it again under the name that the provider expects")
	}
	if w.IsBack() {
		return nil
	}
	if err := w.checkVolumes(ctx, e, *from); err != nil || !isFirst {
		return err
	}
	notReady, err := health.CheckNode(ctx, e.Reader(), w.As, from.Name)
	if err == nil && notReady != nil {
		err = problem.New(fmt.Errorf("the Node %s is not ready: %w", untrusted.Line(from.Name), notReady),
			"look at the kubelet: kubeadm doctor", "repair the node first")
	}
	return err
}

// uidOf is the UID of a Node; empty if there is none.
func uidOf(n *corev1.Node) string {
	if n == nil {
		return ""
	}
	return string(n.UID)
}

// IsOwn reports whether a Node was created to replace the one of this machine.
func (r Record) IsOwn(n *corev1.Node) bool {
	return n.Annotations[node.RenamedFromAnnotation] == r.From()
}

// NewTakenError is the error of a name that another Node has.
func (r Record) NewTakenError() error {
	return problem.New(fmt.Errorf("the cluster has a Node %s already", r.To), "choose another name",
		untrusted.CommandHint("or, if that node is permanently lost, delete it", "kubectl delete node", r.To))
}

// findMember finds the etcd member of a control plane node. It is an error if another one has the new name, or if the others
// would have no quorum while this one restarts.
func (w *RenameWanted) findMember(ctx context.Context, e *engine.Env, here existing.Machine) error {
	if local, _ := node.HasLocalEtcd(w.Node); here.Role != node.ControlPlane || !local {
		return nil
	}
	member, err := etcddata.ReadMember(ctx, e.World, here.Paths)
	if err != nil {
		return err
	}
	w.Member = &member
	client, found, err := here.Etcd(ctx, e)
	if err != nil {
		return err
	}
	w.Etcd = client.Etcd
	return w.CheckMembers(found)
}

// CheckMembers is an error if another member has the new name, or if the others would have no quorum while this one restarts.
func (r Rename) CheckMembers(found etcdcluster.Health) error {
	const members = "see the members: kubeadm etcd members"
	own := found.FindByPeerURL(r.Member.PeerURL)
	if own == nil {
		return problem.New(fmt.Errorf("etcd has no member at %s, as the manifest of this node's member says",
			untrusted.Line(r.Member.PeerURL)), members)
	}
	for _, m := range found.Members {
		if m.ID != own.ID && m.Name == r.To && r.RenamesMember() {
			return problem.New(fmt.Errorf("another etcd member has the name %s", r.To), "choose another name", members)
		}
	}
	if learner := found.FindLearner(); learner != nil {
		return problem.New(fmt.Errorf("etcd member %s is a learner: a control plane node is joining",
			untrusted.Line(etcdcluster.MemberName(*learner))), "wait until that node has joined, or remove the member")
	}
	if err := found.CheckRestart(own.ID); err != nil {
		return problem.New(fmt.Errorf("the member of this node cannot restart: %w", err), members,
			"first bring the unhealthy members back")
	}
	return nil
}
