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
	cluster := node.Cluster{
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
		DNS: node.Addon{ImageRepository: c.DNS.ImageRepository,
			ImageTag: c.DNS.ImageTag, Disabled: c.DNS.Disabled},
		Proxy:    node.Addon{Disabled: c.Proxy.Disabled},
		Document: string(document),
	}
	if e := c.Etcd.External; e != nil {
		cluster.Etcd.External = &node.ExternalEtcd{
			Endpoints:     e.Endpoints,
			HTTPEndpoints: e.HTTPEndpoints,
			CAFile:        e.CAFile,
			CertFile:      e.CertFile,
			KeyFile:       e.KeyFile,
		}
		return cluster, nil
	}
	cluster.Etcd = node.Etcd{
		ImageRepository: c.Etcd.Local.ImageRepository,
		ImageTag:        c.Etcd.Local.ImageTag,
		DataDir:         c.Etcd.Local.DataDir,
		Args:            convertArgs(c.Etcd.Local.ExtraArgs),
		Envs:            convertEnvs(c.Etcd.Local.ExtraEnvs),
		ServerCertSANs:  c.Etcd.Local.ServerCertSANs,
		PeerCertSANs:    c.Etcd.Local.PeerCertSANs,
	}
	return cluster, nil
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
