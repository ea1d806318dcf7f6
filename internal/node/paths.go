package node

import (
	"maps"
	"path"

	"kubeadm/internal/pki"
)

// Paths are the directories of this machine that kubeadm writes to. Every file name in them is
// returned by a method, so that each path is defined once.
type Paths struct {
	Kubernetes   string // /etc/kubernetes: kubeconfigs, manifests, temporary files
	Certificates string // /etc/kubernetes/pki
	Kubelet      string // /var/lib/kubelet
	Kubeconfigs  string // directory of kubeconfig files; the same as Kubernetes by default
	// Requests is where certificates are exchanged with an external CA that renews them; empty by
	// default.
	Requests string
}

// DefaultPaths are the default directories.
func DefaultPaths() Paths {
	return Paths{
		Kubernetes:   "/etc/kubernetes",
		Certificates: "/etc/kubernetes/pki",
		Kubelet:      "/var/lib/kubelet",
		Kubeconfigs:  "/etc/kubernetes",
	}
}

// Manifests is the directory from which the kubelet runs static Pods.
func (p Paths) Manifests() string { return path.Join(p.Kubernetes, "manifests") }

// Manifest is the static Pod manifest of a control-plane component.
func (p Paths) Manifest(component string) string {
	return path.Join(p.Manifests(), component+".yaml")
}

// Tmp is the directory of temporary files: backups, the journal, output of dry runs.
func (p Paths) Tmp() string { return path.Join(p.Kubernetes, "tmp") }

// Journal is the directory of the journal, which records what a run created.
func (p Paths) Journal() string { return path.Join(p.Tmp(), "kubeadm-journal") }

// Snapshots is the directory in which snapshots of etcd are saved. A reset leaves it: it is for what
// happens to the rest.
func (p Paths) Snapshots() string { return "/var/lib/kubeadm/etcd-snapshots" }

// Cert is a certificate by its base name, such as "etcd/server".
func (p Paths) Cert(base string) string { return path.Join(p.Certificates, base+".crt") }

// Key is a private key by its base name, such as "etcd/server".
func (p Paths) Key(base string) string { return path.Join(p.Certificates, base+".key") }

// RotationSigner is the pair with which kube-controller-manager signs while the CAs are rotated: it
// accepts no file with several certificates, and ca.crt has two.
func (p Paths) RotationSigner() (cert, key string) {
	const base = "ca-rotation/signing"
	return p.Cert(base), p.Key(base)
}

// Certificate is the path of a file in the certificates directory.
func (p Paths) Certificate(file string) string { return path.Join(p.Certificates, file) }

// Kubeconfig is a kubeconfig by its file name, such as "admin.conf".
func (p Paths) Kubeconfig(name string) string { return path.Join(p.Kubeconfigs, name) }

// BootstrapKubeconfig is the kubeconfig with which a joining kubelet requests its certificate.
func (p Paths) BootstrapKubeconfig() string { return p.Kubeconfig("bootstrap-kubelet.conf") }

// KubeletKubeconfig is the kubelet's own kubeconfig.
func (p Paths) KubeletKubeconfig() string { return p.Kubeconfig("kubelet.conf") }

// KubeletConfig is the kubelet's configuration file.
func (p Paths) KubeletConfig() string { return path.Join(p.Kubelet, "config.yaml") }

// KubeletInstanceConfig is the part of the kubelet's configuration that is specific to this
// machine.
func (p Paths) KubeletInstanceConfig() string {
	return path.Join(p.Kubelet, "instance-config.yaml")
}

// KubeletFlags is the environment file with the kubelet's command line.
func (p Paths) KubeletFlags() string { return path.Join(p.Kubelet, "kubeadm-flags.env") }

// KubeletEnvFiles are the environment files of the kubelet's service: that of kubeadm, and those of packages, which an
// administrator may edit. Of arguments in several, the last one counts.
func (p Paths) KubeletEnvFiles() []string {
	return []string{p.KubeletFlags(), "/etc/default/kubelet", "/etc/sysconfig/kubelet"}
}

// SharedFiles are the files that all control planes of the cluster share: their paths on this
// machine, by their names in the kubeadm-certs Secret.
func (n *Node) SharedFiles() map[string]string {
	external := n.Cluster.Etcd.External
	all := map[string]string{}
	for _, f := range pki.SharedFiles(external == nil) {
		all[pki.UploadedName(f)] = n.Paths.Certificate(f)
	}
	if external != nil {
		all[pki.UploadedExternalEtcdCA] = external.CAFile
		all[pki.UploadedExternalEtcdCertificate] = external.CertFile
		all[pki.UploadedExternalEtcdKey] = external.KeyFile
	}
	maps.DeleteFunc(all, func(_, path string) bool { return path == "" })
	return all
}
