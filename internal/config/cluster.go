package config

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
)

// newCluster returns the cluster of a complete and checked ClusterConfiguration, without the
// component configurations.
func newCluster(c *v1beta4.ClusterConfiguration, target release.Target) (node.Cluster, error) {
	algorithm, err := pki.ParseAlgorithm(c.EncryptionAlgorithm)
	if err != nil {
		return node.Cluster{}, fmt.Errorf("encryptionAlgorithm: %w", err)
	}
	document, err := yaml.Marshal(c)
	if err != nil {
		return node.Cluster{}, fmt.Errorf("encoding the ClusterConfiguration: %w", err)
	}
	return node.Cluster{
		Name:              c.ClusterName,
		Version:           target.String(),
		Endpoint:          c.ControlPlaneEndpoint,
		PodSubnet:         c.Networking.PodSubnet,
		ServiceSubnet:     c.Networking.ServiceSubnet,
		DNSDomain:         c.Networking.DNSDomain,
		ImageRepository:   c.ImageRepository,
		CIBuild:           target.CI(),
		FeatureGates:      c.FeatureGates,
		Algorithm:         algorithm,
		CertValidity:      durationOf(c.CertificateValidityPeriod),
		CAValidity:        durationOf(c.CACertificateValidityPeriod),
		CertSANs:          c.APIServer.CertSANs,
		APIServer:         newComponent(c.APIServer.ControlPlaneComponent),
		ControllerManager: newComponent(c.ControllerManager),
		Scheduler:         newComponent(c.Scheduler),
		Etcd:              newEtcd(c.Etcd),
		DNS: node.Addon{ImageRepository: c.DNS.ImageRepository,
			ImageTag: c.DNS.ImageTag, Disabled: c.DNS.Disabled},
		Proxy:    node.Addon{Disabled: c.Proxy.Disabled},
		Document: string(document),
	}, nil
}

func newComponent(c v1beta4.ControlPlaneComponent) node.Component {
	out := node.Component{Args: convertArgs(c.ExtraArgs), Envs: convertEnvs(c.ExtraEnvs)}
	for _, v := range c.ExtraVolumes {
		out.Volumes = append(out.Volumes, node.Volume{
			Name:      v.Name,
			HostPath:  v.HostPath,
			MountPath: v.MountPath,
			ReadOnly:  v.ReadOnly,
			PathType:  v.PathType,
		})
	}
	return out
}

func convertEnvs(list []v1beta4.EnvVar) []corev1.EnvVar {
	var all []corev1.EnvVar
	for _, e := range list {
		all = append(all, e.EnvVar)
	}
	return all
}

func newEtcd(e v1beta4.Etcd) node.Etcd {
	if x := e.External; x != nil {
		return node.Etcd{External: &node.ExternalEtcd{
			Endpoints:     x.Endpoints,
			HTTPEndpoints: x.HTTPEndpoints,
			CAFile:        x.CAFile,
			CertFile:      x.CertFile,
			KeyFile:       x.KeyFile,
		}}
	}
	l := e.Local
	return node.Etcd{
		ImageRepository: l.ImageRepository,
		ImageTag:        l.ImageTag,
		DataDir:         l.DataDir,
		Args:            convertArgs(l.ExtraArgs),
		Envs:            convertEnvs(l.ExtraEnvs),
		ServerCertSANs:  l.ServerCertSANs,
		PeerCertSANs:    l.PeerCertSANs,
	}
}
