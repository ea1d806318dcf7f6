// Package address brings a node to another address: certificates, the peer URL in etcd, static Pods, kubeconfigs and
// the kubelet. Each step looks at what is there, so that a run after a kill goes on. docs/decisions/0079 has the
// reasons.
package address

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/certuse"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Node brings this node to its new address.
var Node = engine.Phase{
	Name:  "node",
	Short: "Bring this node to its new address",
	Long: "Issue the serving certificates for both addresses, change the peer URL of the etcd member, replace the static " +
		"Pods and kubeconfigs that name the previous address, and restart the kubelet.",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		m := &machine{Node: n, Intent: nodeaddress.IntentOf(e), as: as}
		steps := []func(context.Context, *engine.Env) error{m.lookAtNode, m.changeKubelet, m.awaitNode}
		if n.Role == node.ControlPlane { // a kubelet that was restarted starts at once what has crashed often
			steps = []func(context.Context, *engine.Env) error{m.Store, m.mark, m.issueCertificates, m.replacePods, m.moveMember,
				m.awaitMember, m.writeKubeconfigs, m.lookAtNode, m.changeKubelet, m.restartClients, m.awaitNode, m.awaitService,
				m.unmark}
		}
		if m.IsForgotten { // no API server runs here before its member is one of etcd again
			steps = []func(context.Context, *engine.Env) error{m.Store, m.mark, m.issueCertificates, m.writeManifests,
				m.writeKubeconfigs, m.changeKubelet, m.unmark}
		}
		for _, step := range steps {
			if err := step(ctx, e); err != nil {
				return m.withWayBack(err)
			}
		}
		return m.report(ctx, e)
	},
}

// withWayBack adds to an error how to go on, and how to return to the previous address.
func (m *machine) withWayBack(err error) error {
	if len(m.From) == 0 {
		return err
	}
	return problem.New(err, "to complete the move, run the same command again",
		"to take it back, if the machine still has the address: kubeadm address change "+m.From[0])
}

// machine is this node, at its new address.
type machine struct {
	*node.Node
	nodeaddress.Intent
	as              state.Identity // before this node's API server has moved
	requestsServing bool           // the kubelet requests another serving certificate
	wasNotReady     bool           // the kubelet itself said so before it was restarted
}

// own is the identity at this node's API server, once that has moved; that of the kubelet on a worker.
func (m *machine) own() state.Identity {
	as := m.as
	if m.Role == node.ControlPlane && as.Kubeconfig == m.Paths.Kubeconfig("admin.conf") {
		as.Server = m.LocalServerURL()
	}
	return as
}

// moveMember gives the member of this machine its new peer URL in etcd. Before that, the others do not reach it at
// its new address. It is done right before the member moves there, if etcd has a quorum by then.
func (m *machine) moveMember(ctx context.Context, e *engine.Env) error {
	if m.Member == nil || len(m.Etcd.Endpoints) == 0 {
		return nil
	}
	via := m.Etcd // where this member serves too if it has moved already
	via.Endpoints = append(slices.Clone(via.Endpoints), m.Replace(m.Member.ClientURL))
	found, err := etcdcluster.CheckHealth(ctx, e.World, via)
	if err != nil {
		return fmt.Errorf("listing the members of etcd: %w", err)
	}
	listed, err := m.CheckMembers(found)
	if err != nil {
		return err
	}
	return m.setPeerURL(ctx, e, via, listed.PeerURLs[0])
}

func (m *machine) setPeerURL(ctx context.Context, e *engine.Env, via state.Etcd, from string) error {
	if from == m.MovedPeerURL() {
		return nil
	}
	e.Say("changing the peer URL of this node's etcd member to %s", m.MovedPeerURL())
	err := e.Do(ctx, change.SetMember{PeerURL: m.MovedPeerURL(), From: from, State: change.Voter, Via: via})
	if err != nil {
		return fmt.Errorf("changing the peer URL of this node's etcd member: %w", err)
	}
	return nil
}

// writeKubeconfigs leads the kubeconfigs of this machine that use its API server to the new address.
func (m *machine) writeKubeconfigs(ctx context.Context, e *engine.Env) error {
	for _, p := range pki.KubeconfigProfiles() {
		file := m.Paths.Kubeconfig(p.File)
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return err
		}
		if data == nil || file == m.Paths.KubeletKubeconfig() { // which comes with the restart of the kubelet
			continue
		}
		now, err := m.Kubeconfig(data, file)
		if err != nil {
			return err
		}
		if string(now) == string(data) {
			continue
		}
		e.Say("writing the new address to %q", file)
		if err := e.Do(ctx, change.WriteFile{Path: file, Data: now, Mode: 0o600, Secret: true}); err != nil {
			return err
		}
	}
	return nil
}

// replacePods replaces the static Pods that have a previous address, etcd first. If one does not become
// healthy, all have their previous manifests again.
func (m *machine) replacePods(ctx context.Context, e *engine.Env) error {
	wanted, err := m.editManifests(ctx, e)
	if err != nil {
		return err
	}
	replacement := staticpod.Replacement{Node: m.Node, As: m.own(),
		Prepare: func(ctx context.Context, component string) error {
			if component != manifest.Etcd || len(m.Etcd.Endpoints) == 0 {
				return nil
			}
			if m.IsPrepared {
				if _, err := staticpod.SaveEtcdSnapshot(ctx, e, m.Node, m.Etcd); err != nil {
					return err
				}
			}
			return m.moveMember(ctx, e)
		}}
	_, err = replacement.Replace(ctx, e, wanted...)
	if err != nil && m.Member != nil && len(m.Etcd.Endpoints) > 0 {
		if failed := m.restorePeerURL(ctx, e); failed != nil {
			e.Warn("the other members of etcd may still know the one of this node at %s: %v", m.MovedPeerURL(), failed)
		}
	}
	return err
}

// editManifests returns the manifests of the static Pods with the new address.
func (m *machine) editManifests(ctx context.Context, e *engine.Env) (wanted []staticpod.Manifest, err error) {
	for _, component := range staticpod.Components(m.Node) {
		data, err := state.ReadRequired(ctx, e.World, m.Paths.Manifest(component))
		if err != nil {
			return nil, err
		}
		now, err := m.Manifest(data)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", m.Paths.Manifest(component), err)
		}
		wanted = append(wanted, staticpod.Manifest{Component: component, Data: now})
	}
	return wanted, nil
}

// writeManifests writes the manifests of static Pods that cannot run before the etcd member of this machine has been added
// again: nothing waits for them.
func (m *machine) writeManifests(ctx context.Context, e *engine.Env) error {
	wanted, err := m.editManifests(ctx, e)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		file := m.Paths.Manifest(w.Component)
		present, err := state.ReadRequired(ctx, e.World, file)
		if err != nil {
			return err
		}
		if string(present) == string(w.Data) {
			continue
		}
		e.Say("writing the new address to %q", file)
		if err := e.Do(ctx, change.WriteFile{Path: file, Data: w.Data, Mode: 0o600}); err != nil {
			return err
		}
	}
	return nil
}

// restorePeerURL gives the member of this machine its previous peer URL again if it has its previous manifest again,
// also after an interrupt: the others reach it there.
func (m *machine) restorePeerURL(ctx context.Context, e *engine.Env) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), m.Timeouts.EtcdAPI,
		fmt.Errorf("etcd did not answer within %s", m.Timeouts.EtcdAPI))
	defer cancel()
	now, err := etcddata.ReadMember(ctx, e.World, m.Paths)
	if err != nil || now.PeerURL == m.MovedPeerURL() {
		return err
	}
	found, err := etcdcluster.CheckHealth(ctx, e.Reader(), m.Etcd)
	if err != nil {
		return err
	}
	own := m.FindMember(found)
	if own == nil || !slices.Contains(own.PeerURLs, m.MovedPeerURL()) {
		return nil
	}
	e.Say("changing the peer URL of this node's etcd member back to %s", now.PeerURL)
	return e.Do(ctx, change.SetMember{PeerURL: now.PeerURL, From: m.MovedPeerURL(), State: change.Voter, Via: m.Etcd})
}

// awaitMember waits until the member of this machine is healthy at its new address and has caught up.
func (m *machine) awaitMember(ctx context.Context, e *engine.Env) error {
	if m.Member == nil {
		return nil
	}
	via := etcdcluster.LocalClient(m.Paths, m.Replace(m.Member.ClientURL))
	listed := m.Member.PeerURL
	healthy := world.Condition{Name: "this node's etcd member at " + m.MovedPeerURL(), Timeout: m.Timeouts.Upgrade,
		Check: func(ctx context.Context, r state.Reader) error {
			found, err := etcdcluster.CheckHealth(ctx, r, via)
			if err != nil {
				return err
			}
			own := m.FindMember(found)
			if own == nil || len(own.PeerURLs) == 0 {
				return errors.New("etcd does not list it")
			}
			if err := found.Unhealthy[own.ID]; err != nil {
				return err
			}
			listed = own.PeerURLs[0]
			return found.CheckAppliedIndex(own.ID)
		}}
	if err := e.Await(ctx, healthy); err != nil {
		return health.WithComponentHints(m.Node, err)
	}
	if len(m.Etcd.Endpoints) > 0 {
		return nil // it has its new peer URL since before it started
	}
	return m.setPeerURL(ctx, e, via, listed)
}

// awaitService waits until the Service kubernetes leads to the new address alone. Each API server writes its own
// address, and removes those that are not renewed after 15 seconds.
func (m *machine) awaitService(ctx context.Context, e *engine.Env) error {
	err := e.Await(ctx, world.Condition{Name: "the Service kubernetes to leave the previous address",
		Timeout: serviceTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			list, err := r.List(ctx, state.Query{GVK: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
				As: m.own(), Namespace: metav1.NamespaceDefault, LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
			if err != nil {
				return err
			}
			for _, u := range list {
				var slice discoveryv1.EndpointSlice
				if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &slice) != nil {
					continue
				}
				for _, endpoint := range slice.Endpoints {
					if i := slices.IndexFunc(endpoint.Addresses, m.IsFrom); i >= 0 {
						return fmt.Errorf("it still has %s", endpoint.Addresses[i])
					}
				}
			}
			return nil
		}})
	if err != nil && ctx.Err() == nil {
		e.Warn("%v", err) // such as with another --endpoint-reconciler-type
		return nil
	}
	return err
}

const serviceTimeout = time.Minute

// Finish issues the certificates of this node again without its previous addresses.
var Finish = engine.Phase{
	Name:  "finish",
	Short: "Issue the certificates without the previous addresses",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		m := &machine{Node: n, Intent: nodeaddress.IntentOf(e), as: as}
		if err := m.checkUnused(ctx, e); err != nil {
			return err
		}
		servers, err := reconfiguration.ListServers(ctx, e, as)
		if err != nil {
			return err
		}
		for _, server := range append(servers, "https://"+n.Cluster.Endpoint) {
			if now := m.Replace(server); now != server {
				return problem.New(fmt.Errorf("nodes and users still reach the cluster at %s", untrusted.Line(server)),
					untrusted.CommandHint("lead them to the new address first", "kubeadm endpoint change",
						strings.TrimPrefix(now, "https://")))
			}
		}
		if err := m.checkEndpointChange(ctx, e); err != nil {
			return err
		}
		if _, err := m.reissue(ctx, e, m.withoutFrom); err != nil {
			return err
		}
		if err := certuse.AwaitServed(ctx, e, m.Node); err != nil {
			return err
		}
		if err := m.unmark(ctx, e); err != nil { // the command may have been killed after the move, before its last step
			return err
		}
		return nodeaddress.RemoveRecord(ctx, e)
	},
}

// checkEndpointChange is an error while nodes may use a previous address as the previous endpoint.
func (m *machine) checkEndpointChange(ctx context.Context, e *engine.Env) error {
	found, err := reconfiguration.Read(ctx, e.Reader(), m.as)
	if err != nil || found == nil || found.Endpoint == nil {
		return err
	}
	for _, server := range found.Endpoint.From {
		if m.Replace(server) != server {
			return problem.New(fmt.Errorf("the change of the endpoint from %s is not finished", untrusted.Line(server)),
				"see which nodes have not followed: kubeadm endpoint status", "then finish it: kubeadm endpoint finish")
		}
	}
	return nil
}

// checkUnused is an error if a file of this machine still has an address that the certificates are about to lose.
func (m *machine) checkUnused(ctx context.Context, e *engine.Env) error {
	var files []string
	for _, p := range pki.KubeconfigProfiles() {
		files = append(files, m.Paths.Kubeconfig(p.File))
	}
	for _, component := range staticpod.Components(m.Node) {
		files = append(files, m.Paths.Manifest(component))
	}
	for _, file := range files {
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil || data == nil {
			if err != nil {
				return err
			}
			continue
		}
		edit := m.Manifest
		if strings.HasSuffix(file, ".conf") {
			edit = func(data []byte) ([]byte, error) { return m.Kubeconfig(data, file) }
		}
		now, err := edit(data)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if string(now) != string(data) {
			return problem.New(fmt.Errorf("%s still has a previous address, %s", file, strings.Join(m.From, ", ")),
				"complete the move first: kubeadm address change "+m.To)
		}
	}
	return nil
}
