package addon

import (
	"context"
	"errors"
	"fmt"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Reconfigure brings CoreDNS and kube-proxy to a changed configuration, and waits for their new Pods. An
// addon that somebody has deleted stays so.
var Reconfigure = engine.Phase{
	Name:  Phase.Name,
	Short: "Bring CoreDNS and kube-proxy to the configuration",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		intent := reconfiguration.IntentOf(e)
		if intent.Change.Stored != nil {
			return nil // the addons have it
		}
		before := intent.Before
		effects, err := reconfiguration.FindEffects(ctx, e, before, n)
		if err != nil {
			return err
		}
		if err := effects.AddUnfinished(ctx, e, n, intent.Begun...); err != nil {
			return err
		}
		a := addons{node: n, as: as, takesBack: intent.Change.Forgets}
		deployDNS := deployCoreDNS
		if c := intent.Change.DNS; c != nil {
			deployDNS = a.changeCoreDNS(c, effects.CoreDNS)
			effects.CoreDNS, a.triesCorefile = true, c.After.Corefile != nil
		}
		if effects.KubeProxy {
			if a.proxyServer, err = reconfiguration.FindProxyServer(ctx, e, as, n); err != nil {
				return err
			}
			if effects.KubeProxy, err = a.changesProxy(ctx, e, before); err != nil {
				return err
			}
		}
		if !effects.CoreDNS && !effects.KubeProxy {
			return nil
		}
		if err := a.begin(ctx, e, intent.Change); err != nil {
			return err
		}
		if effects.CoreDNS {
			err = a.reconfigure(ctx, e, dnsAddon, before.Cluster.DNS.Disabled, deployDNS)
		}
		if err == nil && effects.KubeProxy {
			err = a.reconfigure(ctx, e, proxyAddon, before.Cluster.Proxy.Disabled, a.replaceKubeProxy)
		}
		return intent.Change.ExplainBroken(err)
	},
}

// changeCoreDNS returns how CoreDNS gets other settings, and if it is to be deployed again for another reason, that too. A
// Pod that starts reads the Corefile, so that comes first.
func (a addons) changeCoreDNS(c *reconfiguration.DNSChange, deploys bool) func(context.Context, *engine.Env) error {
	return func(ctx context.Context, e *engine.Env) error {
		if corefile := c.CorefileChange(a.as); corefile != nil {
			e.Say("changing the Corefile of CoreDNS")
			if err := e.Do(ctx, corefile); err != nil {
				return err
			}
		}
		if deploys {
			if err := deployCoreDNSWith(ctx, e, c.After.Corefile != nil); err != nil {
				return err
			}
		}
		return e.Do(ctx, c.DeploymentChange(a.as))
	}
}

// begin records that the addons get the change, and on which nodes their Pods were not ready before. A change that
// replaces or takes back one that was not stored goes by what was before that.
func (a *addons) begin(ctx context.Context, e *engine.Env, change *reconfiguration.State) error {
	if !change.Addons {
		change.Addons, change.NotReady = true, map[string]reconfiguration.NodeSet{}
		if begun := change.FirstWithAddons(); begun != nil {
			change.NotReady = begun.NotReady
		} else {
			for _, one := range []addon{dnsAddon, proxyAddon} {
				nodes, err := a.listNotReady(ctx, e, one)
				if err != nil {
					return err
				}
				if nodes != "" {
					change.NotReady[one.label] = nodes
				}
			}
		}
		store, err := change.StoreChanges(a.as)
		if err != nil {
			return err
		}
		if err := e.Do(ctx, store...); err != nil {
			return err
		}
	}
	a.notReady = change.NotReady
	return nil
}

// changesProxy reports whether kube-proxy is to change. One that uses another server keeps it, and stays as it is if the
// change is only that of the endpoint.
func (a addons) changesProxy(ctx context.Context, e *engine.Env, before *node.Node) (bool, error) {
	if a.proxyServer == "" {
		return true, nil
	}
	e.Warn("kube-proxy stays with %s, which is neither the endpoint before the change nor the new one: "+
		"ConfigMap kube-system/kube-proxy", untrusted.Line(a.proxyServer))
	moved := *before
	moved.Cluster.Endpoint = a.node.Cluster.Endpoint
	effects, err := reconfiguration.FindEffects(ctx, e, &moved, a.node)
	return effects.KubeProxy, err
}

// addons are the addons of the cluster, as this node changes them.
type addons struct {
	node *node.Node
	as   state.Identity
	// proxyServer is the server that kube-proxy keeps, since it is not an endpoint of the cluster; empty for none.
	proxyServer string
	// triesCorefile is set if CoreDNS gets another Corefile.
	triesCorefile bool
	// takesBack is set if the addons return to what they ran with before this command, so that it is known to work.
	takesBack bool
	// notReady are the nodes on which Pods of an addon were not ready before the change, by their label.
	notReady map[string]reconfiguration.NodeSet
}

// addon is one of them.
type addon struct {
	kind, name string // of the object that has its Pods
	label      string // of the Pods
}

var (
	dnsAddon   = addon{"Deployment", "coredns", "kube-dns"}
	proxyAddon = addon{"DaemonSet", "kube-proxy", "kube-proxy"}
)

func (a addons) refOf(one addon) state.Ref {
	return state.Ref{GVK: appsv1.SchemeGroupVersion.WithKind(one.kind), Namespace: metav1.NamespaceSystem, Name: one.name, As: a.as}
}

// reconfigure deploys an addon again and waits for its new Pods.
func (a addons) reconfigure(ctx context.Context, e *engine.Env, one addon, wasDisabled bool,
	deploy func(context.Context, *engine.Env) error) error {
	ref := a.refOf(one)
	_, err := e.Object(ctx, ref)
	if apierrors.IsNotFound(err) && !wasDisabled {
		e.Warn("%s does not exist, so it is not deployed again", ref)
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := deploy(ctx, e); err != nil {
		return err
	}
	pods := a.newPodsOf(one)
	failed := a.awaitRollout(ctx, e, pods)
	if failed == nil && one == proxyAddon && !a.takesBack {
		failed = a.awaitSteady(ctx, e, pods)
	}
	if failed == nil || ctx.Err() != nil {
		return failed
	}
	if errors.As(failed, new(*reconfiguration.BrokenAddon)) {
		return failed
	}
	ready, down, unready, err := a.listNodes(ctx, e, one)
	if err != nil {
		return err
	}
	missing, err := a.missingPods(ctx, e, ref)
	if err != nil {
		return err
	}
	// Where the Pods of all nodes were not ready, none of them shows whether the change works. Where no Pod is missing, no node
	// explains why the wait failed.
	if missing > down+unready || missing > down && len(ready) == 0 || missing <= 0 || errors.Is(failed, errUnsteady) {
		return problem.New(fmt.Errorf("the roll-out of %s is not complete: %w", ref, failed), incompleteHint)
	}
	e.Warn("the roll-out of %s is not complete: %d nodes are not ready, or had an unready Pod before the change: %v", ref,
		down+unready, failed)
	return nil
}

// incompleteHint says what to do about a roll-out that has not ended.
const incompleteHint = "to resume, run this command again; to return to the configuration before: kubeadm reconfigure undo"

// awaitRollout waits for the new Pods of an addon, until there have been no more of them for the usual limit: a DaemonSet
// replaces one Pod at a time, on any number of nodes. It gives up if a new Pod does not run.
func (a addons) awaitRollout(ctx context.Context, e *engine.Env, pods newPods) (failed error) {
	ref := pods.workload
	const parts = 2 // of the limit
	most := int64(0)
	rollout := health.Rollout(ref, a.node.Timeouts.KubernetesAPI/parts)
	check := rollout.Check
	rollout.Check = func(ctx context.Context, r state.Reader) error {
		err := check(ctx, r)
		if err == nil {
			return nil
		}
		if broken := pods.findBroken(ctx, r, false); broken != nil {
			return world.Permanent(broken)
		}
		return err
	}
	for idle := 0; idle < parts; idle++ {
		failed = e.Await(ctx, rollout)
		if failed == nil || ctx.Err() != nil || errors.As(failed, new(*reconfiguration.BrokenAddon)) {
			return failed
		}
		u, err := e.Object(ctx, ref)
		if err != nil {
			return err
		}
		if now := health.NewPods(u); now > most {
			e.Say("there are %d new Pods of %s so far", now, ref)
			most, idle = now, -1
		}
	}
	if broken := pods.findBroken(ctx, e.Reader(), true); broken != nil {
		return broken
	}
	return failed
}

// missingPods is the number of nodes without a new Pod of a DaemonSet. A Deployment runs where it can, so
// all of its Pods count.
func (a addons) missingPods(ctx context.Context, e *engine.Env, ref state.Ref) (int, error) {
	u, err := e.Object(ctx, ref)
	if err != nil || ref.GVK.Kind != "DaemonSet" {
		return math.MaxInt, err
	}
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, "status", field)
		return n
	}
	return int(number("desiredNumberScheduled") - min(number("updatedNumberScheduled"), number("numberAvailable"))), nil
}

// replaceKubeProxy deploys kube-proxy, and replaces its Pods, which do not restart when their ConfigMap
// changes.
func (a addons) replaceKubeProxy(ctx context.Context, e *engine.Env) error {
	host, patches, err := manifestinput.Read(ctx, e.World, a.node, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	n := *a.node
	n.Cluster.KubeProxy.Server = a.proxyServer
	proxy, err := manifest.NewKubeProxy(&n, host, patches)
	if err != nil {
		return err
	}
	e.Say("deploying kube-proxy")
	if err := e.DoAll(ctx, change.ApplyAll(a.as, proxy.Objects()...)...); err != nil {
		return err
	}
	if err := e.Do(ctx, a.replacePods(proxy.DaemonSet, proxy.ConfigHash())); err != nil {
		return err
	}
	sets, err := reconfiguration.ListProxySets(ctx, e, a.as)
	if err != nil {
		return err
	}
	for _, set := range sets {
		if set.Name == proxy.DaemonSet.Name {
			continue
		}
		e.Say("replacing the Pods of DaemonSet %s, which read the ConfigMap of kube-proxy too", untrusted.Line(set.Name))
		other := &appsv1.DaemonSet{TypeMeta: proxy.DaemonSet.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
		if err := e.Do(ctx, a.replacePods(other, proxy.ConfigHash())); err != nil {
			return err
		}
	}
	return a.replaceOnReadyNodes(ctx, e, proxy.ConfigHash())
}

// replacePods returns the change that replaces the Pods of a DaemonSet, unless they have read this configuration.
func (a addons) replacePods(set *appsv1.DaemonSet, digest string) change.Change {
	return change.MutateObject{Object: set, As: a.as, Mutate: func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, digest, "spec", "template", "metadata", "annotations",
			reconfiguration.ProxyConfigAnnotation)
	}}
}
