package existing

import (
	"cmp"
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Remains is what can be told of a machine whose files may be missing or damaged.
type Remains struct {
	node.Local
	IsNode bool                   // it has files of a node
	Pods   map[string]*corev1.Pod // static Pods by component, of the manifests that can be read

	// Broken is why the manifest of the API server, or the configuration of the runtime, cannot be
	// read, and NoSocket why the socket of the container runtime is not known.
	Broken, NoSocket error
}

// ReadRemains reads as much as there is. Where ReadMachine needs the manifest of the API server and
// kubelet.conf, any file of a control plane or a node counts here.
func ReadRemains(ctx context.Context, r state.Reader, local node.Local) Remains {
	m := Remains{Pods: map[string]*corev1.Pod{}}
	m.Local, m.Broken = ReadControlPlane(ctx, r, local)
	m.BindPort = cmp.Or(m.BindPort, 6443)
	m.Role = node.Worker
	m.readManifests(ctx, r)
	m.Name = m.Hostname
	if client, err := localkubelet.ReadClientCert(ctx, r, m.Paths); err == nil && client != nil {
		m.Name = cmp.Or(client.NodeName(ctx, r), m.Name)
	}
	if m.CRISocket == "" {
		m.CRISocket, m.NoSocket = RuntimeSocket(ctx, r, m.Paths)
	}
	m.IsNode = m.Role == node.ControlPlane || isThere(ctx, r, m.Paths.KubeletKubeconfig()) ||
		isThere(ctx, r, m.Paths.BootstrapKubeconfig())
	return m
}

func isThere(ctx context.Context, r state.Reader, file string) bool {
	_, err := r.Stat(ctx, file)
	return err == nil
}

// readManifests reads the static Pods. A machine with the manifest or the certificate of a control
// plane is one, so that it is known as one if others of its files are lost.
func (m *Remains) readManifests(ctx context.Context, r state.Reader) {
	for _, component := range append(manifest.Components(), manifest.Etcd) {
		data, err := r.ReadFile(ctx, m.Paths.Manifest(component))
		if err != nil {
			continue
		}
		m.Role = node.ControlPlane
		pod := &corev1.Pod{}
		if yaml.Unmarshal(data, pod) == nil && len(pod.Spec.Containers) > 0 {
			m.Pods[component] = pod
		}
	}
	if isThere(ctx, r, m.Paths.Cert("apiserver")) {
		m.Role = node.ControlPlane
	}
	if pod := m.Pods[release.APIServer]; pod != nil {
		if dir, ok := manifest.CertificatesDir(pod); ok {
			m.Paths.Certificates = dir
		}
	}
	if m.Role == node.ControlPlane && m.Address == "" {
		m.guessAddress(ctx, r)
	}
}

// guessAddress takes the address of the API server from the kubeconfig of the controller manager beside
// it.
func (m *Remains) guessAddress(ctx context.Context, r state.Reader) {
	data, err := r.ReadFile(ctx, m.Paths.Kubeconfig("controller-manager.conf"))
	if err != nil {
		return
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return
	}
	endpoint, _ := config.Endpoint()
	host, port, err := net.SplitHostPort(endpoint)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err == nil && portErr == nil && net.ParseIP(host) != nil {
		m.Address, m.BindPort = host, int32(number)
	}
}
