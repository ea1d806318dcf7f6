package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// Backup is what the configuration of a rebuilt cluster takes from the backup.
type Backup struct {
	Stored        StoredConfig // texts are empty if the backup does not have them
	Snapshot      string       // SHA-256 of the snapshot of etcd
	HasEncryption bool         // the backup has the file of --encryption-provider-config
}

// Rebuild resolves the desired state of a machine that becomes the first control plane of a cluster that
// exists only as a backup. The configuration is that which the cluster stored; the documents of the file
// replace its documents, and flags replace single fields. What the restored data or other nodes depend
// on cannot change.
func Rebuild(file File, flags InitFlags, b Backup, facts Facts) (*node.Node, RunOptions, error) {
	in, run, err := decodeInit(file, flags)
	if err != nil {
		return nil, run, err
	}
	old, err := in.takeOver(inputs{file: file, facts: facts}, flags, b.Stored, &run)
	if err != nil {
		return nil, run, err
	}
	in.keepHost(old)
	in.setDefaults(flags)
	if err := in.takeOverComponents(b.Stored, &run); err != nil {
		return nil, run, err
	}
	n, err := in.resolveNode(flags, facts, &run)
	if err != nil {
		return nil, run, err
	}
	n.Cluster.Backup = &node.Backup{Snapshot: b.Snapshot, Endpoint: old}
	if b.HasEncryption {
		n.Cluster.Backup.Encryption, _ = node.LastArg(n.Cluster.APIServer.Args, "encryption-provider-config")
	}
	return n, run, nil
}

// takeOver makes the stored ClusterConfiguration the one of this run, unless the file has one that fits
// to it. It returns the stored endpoint.
func (in *initDocuments) takeOver(given inputs, flags InitFlags, stored StoredConfig,
	run *RunOptions) (string, error) {
	if stored.Cluster == "" {
		if in.hasCluster {
			run.warn("the backup has no configuration of the cluster: that of the file is not compared with it")
			return "", in.checkLocalEtcd()
		}
		return "", problem.New(errors.New("the backup has no configuration of the cluster"),
			fmt.Sprintf("write the ClusterConfiguration to a file, and name it with --%s", flag.Config))
	}
	present, target, err := decodeStoredCluster(stored.Cluster, v1beta4.DefaultBindPort, &run.Warnings)
	if err == nil {
		err = given.facts.Tool.CheckTarget(target)
	}
	if err != nil {
		return "", fmt.Errorf("reading the configuration in the backup: %w", err)
	}
	old, wanted := present.ControlPlaneEndpoint, in.cluster
	if !in.hasCluster {
		in.cluster = *present
		in.cluster.APIServer.CertSANs = slices.Clone(present.APIServer.CertSANs)
	}
	kept := slices.DeleteFunc(fixedFields(), func(f fixedField) bool { return f.path == "controlPlaneEndpoint" })
	switch {
	case in.hasCluster:
		keepFields(&in.cluster, present, kept, &in.faults)
		in.cluster.ControlPlaneEndpoint = cmp.Or(in.cluster.ControlPlaneEndpoint, old)
		in.keepMinor(in.cluster.KubernetesVersion, target)
		if in.cluster.Etcd.Local == nil && in.cluster.Etcd.External == nil {
			in.cluster.Etcd = present.Etcd
		}
	case !given.file.Given():
		flags.withoutDefaults(&wanted)
		keepFields(&wanted, present, kept, &in.faults)
		in.cluster.ControlPlaneEndpoint = cmp.Or(wanted.ControlPlaneEndpoint, old)
		in.cluster.ImageRepository = cmp.Or(wanted.ImageRepository, present.ImageRepository)
		for _, name := range wanted.APIServer.CertSANs {
			if !slices.Contains(in.cluster.APIServer.CertSANs, name) {
				in.cluster.APIServer.CertSANs = append(in.cluster.APIServer.CertSANs, name)
			}
		}
		if len(wanted.FeatureGates) > 0 {
			in.cluster.FeatureGates = wanted.FeatureGates
		}
		in.keepMinor(wanted.KubernetesVersion, target)
	}
	return old, in.checkLocalEtcd()
}

// keepHost keeps the host of the endpoint from before in the certificates of the API server: nodes connect to it until
// they follow, or where it leads to this machine.
func (in *initDocuments) keepHost(old string) {
	host, _, err := splitEndpoint(old)
	wanted, _, _ := splitEndpoint(in.cluster.ControlPlaneEndpoint)
	sans := &in.cluster.APIServer.CertSANs
	if err == nil && host != "" && !node.SameHost(host, wanted) && !node.HasHost(*sans, host) {
		*sans = append(slices.Clone(*sans), host)
	}
}

// withoutDefaults clears the fields that the user has not set by flags.
func (f InitFlags) withoutDefaults(c *v1beta4.ClusterConfiguration) {
	usual := NewInitFlags()
	for field, value := range map[*string]string{
		&c.KubernetesVersion: usual.KubernetesVersion, &c.ImageRepository: usual.ImageRepository,
		&c.CertificatesDir: usual.CertificatesDir, &c.Networking.ServiceSubnet: usual.ServiceSubnet,
		&c.Networking.DNSDomain: usual.DNSDomain,
	} {
		if *field == value {
			*field = ""
		}
	}
}

// keepMinor sets the version to the wanted one, or else to that of the backup. Another minor version is
// a fault: an upgrade has an order.
func (in *initDocuments) keepMinor(wanted string, stored release.Target) {
	in.cluster.KubernetesVersion = stored.Stored()
	if wanted == "" {
		return
	}
	t, err := release.ParseTarget(wanted)
	if err != nil || t.Minor() != stored.Minor() {
		in.add("%s: the cluster of the backup runs %s: rebuild it with a release of the same minor version, and "+
			"then upgrade it", in.fieldName(v1beta4.KindCluster, "kubernetesVersion"), stored)
		return
	}
	in.cluster.KubernetesVersion = t.Stored()
}

func (in *initDocuments) checkLocalEtcd() error {
	if in.cluster.Etcd.External == nil {
		return nil
	}
	return problem.New(errors.New("the etcd of the cluster is external: kubeadm does not restore it"),
		"restore etcd with its own tools, extract the CAs from the archive to /etc/kubernetes/pki, and run "+
			"kubeadm init with the stored configuration")
}

// takeOverComponents takes the component configurations that the file does not have from the backup. Those
// that are as kubeadm generates them count as generated, so that upgrades generate them again.
func (in *initDocuments) takeOverComponents(stored StoredConfig, run *RunOptions) error {
	if in.kubelet.Generated && stored.Kubelet.Text != "" {
		k, plain := &kubeletconfig.KubeletConfiguration{}, &kubeletconfig.KubeletConfiguration{}
		document := storedDocument{"ConfigMap kube-system/kubelet-config", stored.Kubelet.Text, kindKubelet}
		if err := decodeStored(document, k, &run.Warnings); err != nil {
			return fmt.Errorf("reading the configuration in the backup: %w", err)
		}
		_ = fillKubelet(plain, &in.cluster)
		in.kubelet = node.KubeletConfig{Config: k, Generated: reflect.DeepEqual(k, plain)}
	}
	if in.proxy.Generated && stored.KubeProxy.Text != "" {
		p, plain := &proxyconfig.KubeProxyConfiguration{}, &proxyconfig.KubeProxyConfiguration{}
		document := storedDocument{"ConfigMap kube-system/kube-proxy", stored.KubeProxy.Text, kindProxy}
		if err := decodeStored(document, p, &run.Warnings); err != nil {
			return fmt.Errorf("reading the configuration in the backup: %w", err)
		}
		_ = fillProxy(plain, &in.cluster, "")
		in.proxy = node.ProxyConfig{Config: p, Generated: reflect.DeepEqual(p, plain)}
	}
	return nil
}
