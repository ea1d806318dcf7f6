package renew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// reportNodes says which other nodes have stopped reporting to the API server, as their kubelets do
// when their client certificates expire, and which command brings each back. If the certificate of
// this node's kubelet had expired too, it creates the token that the command needs.
func reportNodes(ctx context.Context, e *engine.Env, as state.Identity, kubeletHadExpired bool) error {
	var silent []corev1.Node
	firstSeen := map[string]time.Time{}
	err := e.Await(ctx, world.Condition{
		Name: "all nodes to report", Timeout: reportTime, MaxPause: world.LongPause,
		Check: func(ctx context.Context, r state.Reader) error {
			found, err := findSilentNodes(ctx, r, as, kubeletHadExpired, firstSeen)
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

// findSilentNodes returns the nodes whose kubelets have not renewed their Leases for half of the
// duration: a kubelet renews its Lease four times in it. One that has never had a Lease, as its
// kubelet stopped right after the join, is silent too. As clocks of nodes differ, a Lease that was
// renewed after the first call counts as renewed. If certificates have expired here, only that counts: the
// others may have expired a moment ago. The calls share firstSeen, the times of renewal that the first
// one has read.
func findSilentNodes(ctx context.Context, r state.Reader, as state.Identity, expired bool,
	firstSeen map[string]time.Time) ([]corev1.Node, error) {
	all, err := r.List(ctx, state.Query{GVK: state.NodeKind, As: as,
		Fields: []string{"metadata"}})
	if err != nil {
		return nil, err
	}
	leases, err := r.List(ctx, state.Query{GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Namespace: corev1.NamespaceNodeLease, As: as,
		Fields: []string{"spec.renewTime", "spec.leaseDurationSeconds"}})
	if err != nil {
		return nil, err
	}
	reports := map[string]bool{}
	for _, u := range leases {
		var lease coordinationv1.Lease
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &lease); err != nil {
			return nil, err
		}
		if lease.Spec.RenewTime == nil {
			continue
		}
		duration := defaultLeaseDuration
		if set := lease.Spec.LeaseDurationSeconds; set != nil {
			duration = time.Duration(*set) * time.Second
		}
		renewed := lease.Spec.RenewTime.Time
		if _, seen := firstSeen[lease.Name]; !seen {
			firstSeen[lease.Name] = renewed
		}
		reports[lease.Name] = !renewed.Equal(firstSeen[lease.Name]) ||
			!expired && r.Now().Sub(renewed) <= duration/2
	}
	var silent []corev1.Node
	for _, u := range all {
		var one corev1.Node
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &one); err != nil {
			return nil, err
		}
		if !reports[one.Name] {
			silent = append(silent, one)
		}
	}
	return silent, nil
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
