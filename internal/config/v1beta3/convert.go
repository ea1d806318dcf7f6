package v1beta3

import (
	"maps"
	"slices"

	"kubeadm/internal/config/v1beta4"
)

// Convert converts the document to v1beta4, without defaults.
func (c *InitConfiguration) Convert() v1beta4.InitConfiguration {
	return v1beta4.InitConfiguration{
		BootstrapTokens:  c.BootstrapTokens,
		CertificateKey:   c.CertificateKey,
		LocalAPIEndpoint: c.LocalAPIEndpoint,
		NodeRegistration: c.NodeRegistration.convert(),
		Patches:          c.Patches,
		SkipPhases:       c.SkipPhases,
	}
}

func (r *NodeRegistrationOptions) convert() v1beta4.NodeRegistrationOptions {
	return v1beta4.NodeRegistrationOptions{
		CRISocket:             r.CRISocket,
		IgnorePreflightErrors: r.IgnorePreflightErrors,
		ImagePullPolicy:       r.ImagePullPolicy,
		KubeletExtraArgs:      convertArgs(r.KubeletExtraArgs),
		Name:                  r.Name,
		Taints:                r.Taints,
	}
}

// Convert converts the document to v1beta4, without defaults.
func (c *JoinConfiguration) Convert() v1beta4.JoinConfiguration {
	to := v1beta4.JoinConfiguration{
		CACertPath:       c.CACertPath,
		ControlPlane:     c.ControlPlane,
		Discovery:        c.Discovery.Discovery,
		NodeRegistration: c.NodeRegistration.convert(),
		Patches:          c.Patches,
		SkipPhases:       c.SkipPhases,
	}
	if c.Discovery.Timeout != nil {
		to.Timeouts = &v1beta4.Timeouts{Discovery: c.Discovery.Timeout}
	}
	return to
}

// Convert converts the document to v1beta4, without defaults and without TimeoutForControlPlane.
func (c *ClusterConfiguration) Convert() v1beta4.ClusterConfiguration {
	return v1beta4.ClusterConfiguration{
		APIServer: v1beta4.APIServer{
			ControlPlaneComponent: c.APIServer.convert(),
			CertSANs:              c.APIServer.CertSANs,
		},
		CertificatesDir:      c.CertificatesDir,
		ClusterName:          c.ClusterName,
		ControllerManager:    c.ControllerManager.convert(),
		ControlPlaneEndpoint: c.ControlPlaneEndpoint,
		DNS:                  v1beta4.DNS{ImageMeta: c.DNS.ImageMeta},
		Etcd:                 c.Etcd.convert(),
		FeatureGates:         c.FeatureGates,
		ImageRepository:      c.ImageRepository,
		KubernetesVersion:    c.KubernetesVersion,
		Networking:           c.Networking,
		Scheduler:            c.Scheduler.convert(),
	}
}

func (c *ControlPlaneComponent) convert() v1beta4.ControlPlaneComponent {
	return v1beta4.ControlPlaneComponent{ExtraArgs: convertArgs(c.ExtraArgs),
		ExtraVolumes: c.ExtraVolumes}
}

func (e *Etcd) convert() (to v1beta4.Etcd) {
	if x := e.External; x != nil {
		to.External = &v1beta4.ExternalEtcd{CAFile: x.CAFile, CertFile: x.CertFile,
			Endpoints: x.Endpoints, KeyFile: x.KeyFile}
	}
	if l := e.Local; l != nil {
		to.Local = &v1beta4.LocalEtcd{
			ImageMeta: l.ImageMeta, DataDir: l.DataDir, ExtraArgs: convertArgs(l.ExtraArgs),
			PeerCertSANs: l.PeerCertSANs, ServerCertSANs: l.ServerCertSANs,
		}
	}
	return to
}

// convertArgs lists arguments sorted by name, since a mapping has no order.
func convertArgs(values map[string]string) []v1beta4.Arg {
	var list []v1beta4.Arg
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, v1beta4.Arg{Name: name, Value: values[name]})
	}
	return list
}
