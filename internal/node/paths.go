package node

import (
	"maps"
	"path"

	"kubeadm/internal/pki"
)

// Paths are the folders of this machine that we write to. Every file name in them
// is given by a method, so that a path is spelled once.
type Paths struct {
	Kubernetes   string // /etc/kubernetes: kubeconfigs, manifests, scratch space
	Certificates string // /etc/kubernetes/pki
	Kubelet      string // /var/lib/kubelet
	Kubeconfigs  string // where kubeconfig files go; Kubernetes unless the user says otherwise
}

// DefaultPaths are the folders of an ordinary machine.
func DefaultPaths() Paths {
	return Paths{
		Kubernetes:   "/etc/kubernetes",
		Certificates: "/etc/kubernetes/pki",
		Kubelet:      "/var/lib/kubelet",
		Kubeconfigs:  "/etc/kubernetes",
	}
}

// Manifests is the folder from which the kubelet runs static Pods.
func (p Paths) Manifests() string { return path.Join(p.Kubernetes, "manifests") }

// Manifest is the static Pod of a control-plane component.
func (p Paths) Manifest(component string) string {
	return path.Join(p.Manifests(), component+".yaml")
}

// Tmp is the scratch space: backups, the journal, dry-run folders.
func (p Paths) Tmp() string { return path.Join(p.Kubernetes, "tmp") }

// Journal is the folder that holds what an unfinished run did.
func (p Paths) Journal() string { return path.Join(p.Tmp(), "kubeadm-journal") }

// Cert is a certificate by its base name, such as "etcd/server".
func (p Paths) Cert(base string) string { return path.Join(p.Certificates, base+".crt") }

// Key is a private key by its base name, such as "etcd/server".
func (p Paths) Key(base string) string { return path.Join(p.Certificates, base+".key") }

// PublicKey is a public key by its base name; only "sa" has one.
func (p Paths) PublicKey(base string) string { return path.Join(p.Certificates, base+".pub") }

// Kubeconfig is a kubeconfig by its file name, such as "admin.conf".
func (p Paths) Kubeconfig(name string) string { return path.Join(p.Kubeconfigs, name) }

// BootstrapKubeconfig is the credential with which a joining kubelet asks for its own.
func (p Paths) BootstrapKubeconfig() string { return p.Kubeconfig("bootstrap-kubelet.conf") }

// KubeletKubeconfig is the kubelet's own credential.
func (p Paths) KubeletKubeconfig() string { return p.Kubeconfig("kubelet.conf") }

// KubeletConfig is the kubelet's configuration file.
func (p Paths) KubeletConfig() string { return path.Join(p.Kubelet, "config.yaml") }

// KubeletInstanceConfig holds the part of the kubelet's configuration that belongs to this machine.
func (p Paths) KubeletInstanceConfig() string { return path.Join(p.Kubelet, "instance-config.yaml") }

// KubeletFlags is the environment file with the kubelet's command line.
func (p Paths) KubeletFlags() string { return path.Join(p.Kubelet, "kubeadm-flags.env") }

// SharedFiles are the files that all control planes of the cluster have in common: their paths on this
// machine, by the names under which they travel.
func (n *Node) SharedFiles() map[string]string {
	external := n.Cluster.Etcd.External
	all := map[string]string{}
	for _, f := range pki.SharedFiles(external == nil) {
		all[pki.SealedName(f)] = n.Paths.Certificate(f)
	}
	if external != nil {
		all[pki.SealedExternalEtcdCA] = external.CAFile
		all[pki.SealedExternalEtcdCertificate] = external.CertFile
		all[pki.SealedExternalEtcdKey] = external.KeyFile
	}
	maps.DeleteFunc(all, func(_, path string) bool { return path == "" })
	return all
}
