package reconfiguration

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/change"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// CheckFollowed is an error if a node still depends on the address of the only control plane node that the
// cluster had before it was given an endpoint. Before that is so, no further control plane node joins: the
// first one could be removed then, and the node would lose the cluster.
func CheckFollowed(ctx context.Context, e *engine.Env, as state.Identity) error {
	found, err := ReadPublic(ctx, e.Reader(), as)
	if apierrors.IsForbidden(err) {
		return nil // what the user lacks is reported elsewhere
	}
	if err != nil || found == nil || found.Endpoint == nil || !found.Endpoint.Bare {
		return err
	}
	if found.Stored == nil {
		return explainBegun(found)
	}
	all, err := found.ReadProgress(ctx, e.Reader(), as)
	if err != nil {
		return err
	}
	behind := ListBehind(all, false) // the kubelets of control plane nodes use the API servers beside them
	if len(behind) == 0 {
		return nil
	}
	return problem.New(fmt.Errorf("no control plane node can be added yet: these nodes may still depend on %s, the "+
		"address of a single control plane node: %s", untrusted.Line(found.Endpoint.From[0]),
		strings.Join(behind, ", ")), "on each of them: kubeadm reconfigure node", "then run this command again")
}

// followHint is the remedy on a worker whose kubelet reaches no API server.
const followHint = "if the API server is gone, name another one: kubeadm endpoint follow HOST[:PORT]"

// FindFollow returns the change that leads the kubelet of this worker to the endpoint of the cluster, whatever
// its kubeconfig has now. It asks the API server that is the Server of here.As.
func FindFollow(ctx context.Context, e *engine.Env, here existing.Machine) (w EndpointWanted, err error) {
	here.BindPort = cmp.Or(here.BindPort, v1beta4.DefaultBindPort)
	r := finder{e: e, here: here}
	file := here.Paths.KubeletKubeconfig()
	data, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return w, err
	}
	kubeconfig, err := pki.ParseKubeconfig(data)
	if err != nil {
		return w, fmt.Errorf("reading %s: %w", file, err)
	}
	cluster, err := kubeconfig.CurrentCluster()
	if err != nil {
		return w, fmt.Errorf("reading %s: %w", file, err)
	}
	if w.Stored, err = existing.ReadStoredConfig(ctx, e.Reader(), here.As); err != nil {
		return w, problem.New(err, followHint)
	}
	if w.Before, err = r.complete(ctx, w.Stored); err != nil {
		return w, err
	}
	if w.Node, err = r.complete(ctx, w.Stored); err != nil {
		return w, err
	}
	to := w.Node.ServerURL()
	if w.Node.Cluster.Endpoint == "" {
		if to, err = readPublicServer(ctx, e, cmp.Or(here.As.Server, cluster.Server), here.Paths); err != nil {
			return w, err
		}
	}
	w.Host = node.HostOf(to)
	record, err := readStoredRecord(ctx, e.World, here.Paths)
	if err != nil {
		return w, err
	}
	if w.Done = cluster.Server == to && record == nil; w.Done {
		return w, nil
	}
	found, err := ReadPublic(ctx, e.Reader(), here.As)
	if err != nil && !apierrors.IsForbidden(err) {
		return w, err
	}
	if found != nil {
		w.Found = found.ID
	}
	w.OnlyEndpoint = true
	w.Change = &State{Stored: &metav1.Time{}, Before: w.Stored, Endpoint: &EndpointChange{From: []string{cluster.Server}, To: to}}
	return w, nil
}

// readPublicServer reads the URL in cluster-info, which only machines without credentials may read.
func readPublicServer(ctx context.Context, e *engine.Env, server string, p node.Paths) (string, error) {
	ca, err := state.ReadRequired(ctx, e.World, p.Cert("ca"))
	if err != nil {
		return "", err
	}
	info, err := e.Reader().ClusterInfo(ctx, server, ca)
	if err != nil {
		return "", fmt.Errorf("reading ConfigMap kube-public/cluster-info: %w", err)
	}
	return infoServer(&unstructured.Unstructured{Object: map[string]any{"data": map[string]any{
		bootstrapapi.KubeConfigKey: info[bootstrapapi.KubeConfigKey]}}})
}

// undoEndpoint makes a change that takes back the one that was found lead back to the previous endpoint, if that
// has changed it. The name of the one that is left stays in the certificates until that is finished.
func (f finder) undoEndpoint(ctx context.Context, change, found *State) (finder, error) {
	before, err := f.complete(ctx, found.Before)
	if err != nil {
		return f, err
	}
	after, err := f.complete(ctx, found.After)
	if err != nil || before.Cluster.Endpoint == after.Cluster.Endpoint {
		return f, err
	}
	if before.Cluster.Endpoint == "" {
		others, err := f.otherControlPlanes(ctx)
		if err != nil {
			return f, err
		}
		if len(others) > 0 {
			return f, problem.New(fmt.Errorf("the cluster had no endpoint before, and needs one: it has further control "+
				"plane nodes, %s", strings.Join(others, ", ")), "finish the change instead: kubeadm endpoint finish")
		}
	}
	if found.Endpoint == nil { // the URL stays
		return f, nil
	}
	reached, err := found.Endpoint.HasReached(ctx, f.e, f.here.As)
	if err != nil {
		return f, err
	}
	f.unreached = found.Stored == nil && !reached
	to := found.Endpoint.From[0]
	if before.Cluster.Endpoint != "" { // cluster-info may have had another one
		to = before.ServerURL()
	}
	change.Endpoint = found.Endpoint.Reversed(to)
	if change.After, err = f.withoutNames(change.After, found.Endpoint.Prepared); err != nil {
		return f, err
	}
	change.After, err = f.keepNames(ctx, change.Endpoint, change.After)
	return f, err
}

// ForgetMachine returns the change after which a Node says nothing more of the machine that a joining one replaces: which
// change of the configuration it has followed, and half of a move or rename. It is nil if the Node says nothing of these. A
// kubelet may do that for its own Node.
func ForgetMachine(n *unstructured.Unstructured, as state.Identity) change.Change {
	values := map[string]string{}
	for _, key := range []string{NodeAnnotation, node.MovingToAnnotation, node.RenamedFromAnnotation} {
		if n.GetAnnotations()[key] != "" {
			values[key] = ""
		}
	}
	if len(values) == 0 {
		return nil
	}
	return change.AnnotateNode(n.GetName(), as, values)
}
