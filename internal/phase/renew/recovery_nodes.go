package renew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/world"
)

// reportNodes says which other nodes have stopped reporting to the API server, as their kubelets do
// when their client certificates expire, and which command brings each back. If the certificate of
// this node's kubelet had expired too, it creates the token that the command needs.
func reportNodes(ctx context.Context, e *engine.Env, as state.Identity, kubeletHadExpired bool) error {
	var silent []corev1.Node
	search := silentNodes{as: as, expired: kubeletHadExpired, firstSeen: map[string]time.Time{}}
	err := e.Await(ctx, world.Condition{
		Name: "all nodes to report", Timeout: reportTime, MaxPause: world.LongPause,
		Check: func(ctx context.Context, r state.Reader) error {
			found, err := search.find(ctx, r)
			if err != nil {
				return err // what the check before it has found counts
			}
			if silent = found; len(silent) > 0 {
				err = fmt.Errorf("no report from %s", listNames(silent))
			}
			return err
		},
	})
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if len(silent) == 0 {
		e.Warn("could not find out whether all nodes report: %v", err)
		return nil
	}
	silent = search.deleteRemoved(ctx, e, silent)
	isControlPlane := func(n corev1.Node) bool {
		_, is := n.Labels[node.ControlPlaneLabel]
		return is
	}
	workers := slices.DeleteFunc(slices.Clone(silent), isControlPlane)
	planes := slices.DeleteFunc(silent, func(n corev1.Node) bool { return !isControlPlane(n) })
	if len(planes) > 0 {
		e.Print(fmt.Sprintf(silentPlanesText, listNames(planes)))
	}
	if len(workers) == 0 {
		return nil
	}
	if !kubeletHadExpired {
		e.Print(fmt.Sprintf(silentWorkersText, listNames(workers)))
		return nil
	}
	token, err := createToken(ctx, e, as)
	if err != nil {
		return err
	}
	e.Print(fmt.Sprintf(deadWorkersText, listNames(workers), tokenTTL, token))
	return nil
}

const (
	// reportTime is how long kubelets may take to report to an API server that has been down, and
	// which may take a while to answer itself. They try again every seven seconds.
	reportTime = 30 * time.Second
	// removedTime is how long it may take to read which Nodes have been removed meanwhile. They have been read before.
	removedTime = 5 * time.Second
	// defaultLeaseDuration is the kubelet's nodeLeaseDurationSeconds.
	defaultLeaseDuration = 40 * time.Second
	// tokenTTL is that of "kubeadm token create".
	tokenTTL = 24 * time.Hour
)

const (
	silentPlanesText = `
These control plane nodes are not reporting to the API server: %s. If their certificates have expired, run this on each:

  kubeadm certs renew all --restart
`
	silentWorkersText = `
These worker nodes are not reporting to the API server: %s. If a kubelet's client certificate has expired, create a
token here with "kubeadm token create", and run this on the node:

  kubeadm certs renew kubelet.conf --token TOKEN
`
	deadWorkersText = `
These worker nodes are not reporting to the API server: %s. Their kubelets can get new client certificates with a
token that is valid for %s. Run this on each of them:

  kubeadm certs renew kubelet.conf --token %s
`
)

// silentNodes finds the nodes whose kubelets do not report.
type silentNodes struct {
	as state.Identity
	// expired is set if certificates have expired here.
	expired   bool
	firstSeen map[string]time.Time // by node: when its Lease had been renewed when it was read first
	nodes     []corev1.Node        // those that did not report in the last call; nil before the first one
}

// find returns the nodes whose kubelets have not renewed their Leases for half of the
// duration: a kubelet renews its Lease four times in it. One that has never had a Lease, as its
// kubelet stopped right after the join, is silent too. As clocks of nodes differ, a Lease that was
// renewed after the first call counts as renewed. If certificates have expired here, only that counts: the
// others may have expired a moment ago. Only the first call lists the Nodes, and a few Leases are read by name: this is
// called again and again while an API server starts, with the kubelets of all nodes.
func (s *silentNodes) find(ctx context.Context, r state.Reader) ([]corev1.Node, error) {
	if s.nodes == nil {
		all, err := s.listNodes(ctx, r)
		if err != nil {
			return nil, err
		}
		s.nodes = all
	}
	reports := map[string]bool{}
	read := func(u *unstructured.Unstructured) error {
		var lease coordinationv1.Lease
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &lease)
		if err == nil && lease.Spec.RenewTime != nil {
			reports[lease.Name] = s.isRenewed(lease, r.Now())
		}
		return err
	}
	if err := s.readLeases(ctx, r, read); err != nil {
		return nil, err
	}
	s.nodes = slices.DeleteFunc(s.nodes, func(n corev1.Node) bool { return reports[n.Name] })
	return slices.Clone(s.nodes), nil
}

// listNodes lists the Nodes with their names and whether they are control plane nodes; not nil.
func (s *silentNodes) listNodes(ctx context.Context, r state.Reader) ([]corev1.Node, error) {
	all, err := state.ListOf[corev1.Node](ctx, r, state.Query{GVK: state.NodeKind, As: s.as, Fields: []string{"metadata"},
		Keep: upgrade.KeepRole})
	return append([]corev1.Node{}, all...), err
}

// fewLeases is how many Leases are read by name instead of listing all.
const fewLeases = 10

// readLeases calls read for the Lease of each node that is left.
func (s *silentNodes) readLeases(ctx context.Context, r state.Reader, read func(*unstructured.Unstructured) error) error {
	kind := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	if len(s.nodes) <= fewLeases {
		for _, n := range s.nodes {
			u, err := r.Object(ctx, state.Ref{GVK: kind, Namespace: corev1.NamespaceNodeLease, Name: n.Name, As: s.as})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err == nil {
				err = read(u)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var odd error
	_, err := r.List(ctx, state.Query{GVK: kind, Namespace: corev1.NamespaceNodeLease, As: s.as,
		Fields: []string{"spec.renewTime", "spec.leaseDurationSeconds"},
		Keep: func(u *unstructured.Unstructured) bool {
			odd = cmp.Or(read(u), odd)
			return false
		}})
	return cmp.Or(err, odd)
}

// isRenewed reports whether a kubelet renews its Lease.
func (s *silentNodes) isRenewed(lease coordinationv1.Lease, now time.Time) bool {
	duration := defaultLeaseDuration
	if set := lease.Spec.LeaseDurationSeconds; set != nil {
		duration = time.Duration(*set) * time.Second
	}
	renewed := lease.Spec.RenewTime.Time
	if _, seen := s.firstSeen[lease.Name]; !seen {
		s.firstSeen[lease.Name] = renewed
	}
	return !renewed.Equal(s.firstSeen[lease.Name]) || !s.expired && now.Sub(renewed) <= duration/2
}

// deleteRemoved returns those of the nodes that are still in the cluster; all if that cannot be read soon.
func (s *silentNodes) deleteRemoved(ctx context.Context, e *engine.Env, silent []corev1.Node) []corev1.Node {
	limited, cancel := context.WithTimeout(ctx, removedTime)
	defer cancel()
	all, err := s.listNodes(limited, e.World)
	if err != nil {
		if ctx.Err() == nil {
			e.Warn("could not check whether nodes that do not report have been removed from the cluster: %v", err)
		}
		return silent
	}
	there := map[string]bool{}
	for _, n := range all {
		there[n.Name] = true
	}
	return slices.DeleteFunc(silent, func(n corev1.Node) bool { return !there[n.Name] })
}

func listNames(all []corev1.Node) string {
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}

// createToken creates a bootstrap token with which kubelets can request certificates.
func createToken(ctx context.Context, e *engine.Env, as state.Identity) (string, error) {
	id, secret, err := node.NewToken(e.Rand("renew/token"))
	if err != nil {
		return "", err
	}
	t := node.BootstrapToken{ID: id, Secret: secret, TTL: tokenTTL,
		Description: "For kubelets whose client certificates have expired.",
		Usages:      []string{bootstrapapi.KnownTokenUsages[1]},
		Groups:      []string{manifest.TokenGroup}}
	err = e.Do(ctx, change.ApplyObject{Object: manifest.NewTokenSecret(t, e.World.Now()), As: as})
	if err != nil {
		err = errors.Join(errors.New("creating a token for the kubelets of workers"), err)
	}
	return t.String(), err
}
