package doctor

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/upgrade"
)

// machine is what is known of this machine before its checks run. What it takes a server to know is
// read once, by the first check that needs it.
type machine struct {
	env   *engine.Env
	local node.Local
	// broken is why the manifest of the API server, or the configuration of the runtime, cannot be read
	broken error
	// noSocket is why the socket of the container runtime is not known
	noSocket error
	// isNode is set if the machine has files of a node
	isNode   bool
	pods     map[string]*corev1.Pod // static Pods by component, of the manifests that can be read
	kubelet  kubeletconfig.KubeletConfiguration
	identity state.Identity // without a kubeconfig if there is none

	api     preflight.Query[bool]       // whether the API server answers; the error says why not
	stored  preflight.Query[*node.Node] // by what the cluster stores
	cluster preflight.Query[versions]   // of what runs in the cluster
	nodes   preflight.Query[[]corev1.Node]
	runtime preflight.Query[state.Runtime]
	members preflight.Query[etcdcluster.Health]
}

// versions are the versions of what runs in the cluster, and what is odd about them.
type versions struct {
	*upgrade.Cluster
	warnings []string
}

// examine reads the files of this machine. A file that is missing or damaged is left to the checks.
func examine(ctx context.Context, e *engine.Env, as state.Identity) *machine {
	r := e.World
	found := existing.ReadRemains(ctx, r, e.Local)
	m := &machine{env: e, local: found.Local, identity: as, isNode: found.IsNode, pods: found.Pods,
		broken: found.Broken, noSocket: found.NoSocket}
	if data, err := r.ReadFile(ctx, m.local.Paths.KubeletConfig()); err == nil {
		_ = yaml.Unmarshal(data, &m.kubelet) // check KubeletConfig reports the error
	}
	for _, file := range []string{m.local.Paths.Kubeconfig("admin.conf"),
		m.local.Paths.KubeletKubeconfig()} {
		if m.identity.Kubeconfig == "" && m.exists(ctx, file) {
			m.identity.Kubeconfig = file
		}
	}
	m.prepareQueries()
	return m
}

func (m *machine) exists(ctx context.Context, file string) bool {
	_, err := m.env.World.Stat(ctx, file)
	return err == nil
}

func (m *machine) prepareQueries() {
	m.api = preflight.Query[bool](func(ctx context.Context, r state.Reader) (bool, error) {
		err := r.Livez(ctx, m.identity)
		return err == nil, err
	}).Cached()
	m.stored = preflight.Query[*node.Node](
		func(ctx context.Context, r state.Reader) (*node.Node, error) {
			n, _, err := existing.ReadNode(ctx, r, m.identity, m.local, release.Target{})
			return n, err
		}).Cached()
	m.cluster = preflight.Query[versions](
		func(ctx context.Context, r state.Reader) (versions, error) {
			c, warnings, err := upgrade.ReadCluster(ctx, r, m.identity)
			return versions{c, warnings}, err
		}).Cached()
	m.nodes = preflight.Query[[]corev1.Node](
		func(ctx context.Context, r state.Reader) ([]corev1.Node, error) {
			return listObjects[corev1.Node](ctx, r, state.Query{GVK: state.NodeKind, As: m.identity})
		}).Cached()
	m.runtime = preflight.Query[state.Runtime](
		func(ctx context.Context, r state.Reader) (state.Runtime, error) {
			if m.noSocket != nil {
				return state.Runtime{}, m.noSocket
			}
			return r.Runtime(ctx, m.local.CRISocket)
		}).Cached()
	m.members = preflight.Query[etcdcluster.Health](
		func(ctx context.Context, r state.Reader) (etcdcluster.Health, error) {
			endpoints := []string{m.local.ClientURL()}
			if _, err := m.api(ctx, r); err == nil && m.identity.Kubeconfig != "" {
				others, _ := etcdcluster.FindEndpoints(ctx, r, m.identity) // the own one is enough
				endpoints = append(endpoints, others...)
			}
			via := etcdcluster.LocalClient(m.local.Paths, endpoints...)
			via.Serializable = true // without a quorum too
			return etcdcluster.CheckHealth(ctx, r, via)
		}).Cached()
}

// describe says what was examined.
func (m *machine) describe() Machine {
	role := "none"
	if m.isNode {
		role = string(m.local.Role)
	}
	return Machine{Name: m.local.Name, Role: role, Kubeconfig: m.identity.Kubeconfig}
}

func (m *machine) isControlPlane() bool { return m.local.Role == node.ControlPlane }

// hasLocalEtcd reports whether this machine has a member of etcd, or should have one.
func (m *machine) hasLocalEtcd(ctx context.Context) bool {
	return m.isControlPlane() && (m.pods[manifest.Etcd] != nil ||
		m.exists(ctx, m.local.Paths.Cert("etcd/server")))
}

// asNode is this machine as a node whose cluster is known as far as its files tell.
func (m *machine) asNode(ctx context.Context) *node.Node {
	n := &node.Node{Local: m.local}
	if m.isControlPlane() && !m.hasLocalEtcd(ctx) {
		n.Cluster.Etcd.External = &node.ExternalEtcd{}
	}
	return n
}

// skipOnError reports whether a server could not be read, and skips the check then. A user without
// the right to read an object is told how to name another one.
func (m *machine) skipOnError(rep *preflight.Report, err error) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err):
		rep.Skip("the user of %s may not read this: set --kubeconfig to an administrator's kubeconfig",
			m.identity.Kubeconfig)
	default:
		rep.Skip("%v", err)
	}
	return true
}

// needsAPI is a check that needs the API server. Where it does not answer, the check APIServer says so
// and the others are skipped.
func (m *machine) needsAPI(name, why string,
	run func(ctx context.Context, r state.Reader, rep *preflight.Report)) preflight.Check {
	return preflight.Check{Name: name, Why: why,
		Run: func(ctx context.Context, r state.Reader, rep *preflight.Report) {
			if m.identity.Kubeconfig == "" {
				rep.Skip("this machine has no kubeconfig for a cluster")
				return
			}
			if _, err := m.api(ctx, r); err != nil && !apierrors.IsForbidden(err) {
				rep.Skip("the cluster cannot be read: see check %s", apiServerCheck)
				return
			}
			run(ctx, r, rep)
		}}
}

// peers are the other nodes by their names.
func (m *machine) peers(all []corev1.Node) map[string]corev1.Node {
	others := map[string]corev1.Node{}
	for _, n := range all {
		if n.Name != m.local.Name {
			others[n.Name] = n
		}
	}
	return others
}

func internalAddress(n corev1.Node) string {
	i := slices.IndexFunc(n.Status.Addresses,
		func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if i < 0 {
		return ""
	}
	return n.Status.Addresses[i].Address
}

// networks are the addresses and subnets whose IP families this machine forwards.
func (m *machine) networks(ctx context.Context) []string {
	if m.local.Address != "" {
		return []string{m.local.Address}
	}
	all, err := m.env.World.Addresses(ctx)
	if err != nil {
		return nil
	}
	for _, a := range all {
		if !a.Loopback { // that of the default route comes first
			return []string{a.IP}
		}
	}
	return nil
}

// dataDir is the directory of etcd's data on this machine, or where it will be.
func (m *machine) dataDir() string {
	if pod := m.pods[manifest.Etcd]; pod != nil {
		if dir := manifest.ArgumentValue(pod, "data-dir"); path.IsAbs(dir) {
			return dir
		}
	}
	return "/var/lib/etcd"
}

// endpoint is the "host:port" of the API server in the kubeconfig with which the cluster is read.
func (m *machine) endpoint(ctx context.Context) (string, error) {
	if m.identity.Kubeconfig == "" {
		return "", errors.New("this machine has no kubeconfig for a cluster")
	}
	return m.endpointOf(ctx, m.identity.Kubeconfig)
}

// endpointOf is the "host:port" of the API server in a kubeconfig.
func (m *machine) endpointOf(ctx context.Context, file string) (string, error) {
	data, err := m.env.World.ReadFile(ctx, file)
	if err != nil {
		return "", err
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	endpoint, err := config.Endpoint()
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	endpoint, _, _ = strings.Cut(endpoint, "/")
	return endpoint, nil
}
