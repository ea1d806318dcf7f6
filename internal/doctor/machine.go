package doctor

import (
	"context"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// machine is what the files of this machine say before its checks run.
type machine struct {
	existing.Remains
	env     *engine.Env
	kubelet kubeletconfig.KubeletConfiguration
	hasEtcd bool // it has a member of etcd, or should have one
	// mainAddress is the one that this control plane advertises, or that of the default route; empty if
	// there is none
	mainAddress string
	cluster     *cluster

	// What only servers of this machine know is read once, by the first check that needs it.
	runtime preflight.Query[state.Runtime]
	members preflight.Query[etcdcluster.Health]
}

// examine reads the files of this machine. A file that is missing or damaged is left to the checks.
func examine(ctx context.Context, e *engine.Env, as state.Identity) *machine {
	r := e.World
	m := &machine{Remains: existing.ReadRemains(ctx, r, e.Local), env: e}
	if data, err := r.ReadFile(ctx, m.Paths.KubeletConfig()); err == nil {
		_ = yaml.Unmarshal(data, &m.kubelet) // check KubeletConfig reports the error
	}
	for _, file := range []string{m.Paths.Kubeconfig("admin.conf"), m.Paths.KubeletKubeconfig()} {
		if as.Kubeconfig == "" && exists(ctx, r, file) {
			as.Kubeconfig = file
		}
	}
	m.cluster = newCluster(as, m.Local)
	m.hasEtcd = m.isControlPlane() &&
		(m.Pods[manifest.Etcd] != nil || exists(ctx, r, m.Paths.Cert("etcd/server")))
	m.mainAddress = findMainAddress(ctx, r, m.Address)
	m.runtime = preflight.Query[state.Runtime](
		func(ctx context.Context, r state.Reader) (state.Runtime, error) {
			if m.NoSocket != nil {
				return state.Runtime{}, m.NoSocket
			}
			return r.Runtime(ctx, m.CRISocket)
		}).Cached()
	m.members = preflight.Query[etcdcluster.Health](
		func(ctx context.Context, r state.Reader) (etcdcluster.Health, error) {
			endpoints := []string{m.ClientURL()}
			if _, err := m.cluster.api(ctx, r); err == nil && m.cluster.as.Kubeconfig != "" {
				others, _ := etcdcluster.FindEndpoints(ctx, r, m.cluster.as) // the own one is enough
				endpoints = append(endpoints, others...)
			}
			via := etcdcluster.LocalClient(m.Paths, endpoints...)
			via.Serializable = true // without a quorum too
			return etcdcluster.CheckHealth(ctx, r, via)
		}).Cached()
	return m
}

func exists(ctx context.Context, r state.Reader, file string) bool {
	_, err := r.Stat(ctx, file)
	return err == nil
}

// findMainAddress returns the advertised address, or else that of the default route.
func findMainAddress(ctx context.Context, r state.Reader, advertised string) string {
	if advertised != "" {
		return advertised
	}
	all, err := r.Addresses(ctx)
	if err != nil {
		return ""
	}
	for _, a := range all {
		if !a.Loopback { // that of the default route comes first
			return a.IP
		}
	}
	return ""
}

// describe says what was examined.
func (m *machine) describe() Machine {
	role := "none"
	if m.IsNode {
		role = string(m.Role)
	}
	return Machine{Name: m.Name, Role: role, Kubeconfig: m.cluster.as.Kubeconfig}
}

func (m *machine) isControlPlane() bool { return m.Role == node.ControlPlane }

// asNode is this machine as a node whose cluster is known as far as its files tell.
func (m *machine) asNode() *node.Node {
	n := &node.Node{Local: m.Local}
	if m.isControlPlane() && !m.hasEtcd {
		n.Cluster.Etcd.External = &node.ExternalEtcd{}
	}
	return n
}
