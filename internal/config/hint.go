package config

import (
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/strict"
)

// Lists of arguments, which v1beta3 had as mappings.
const (
	extraArgs        = "extraArgs"
	kubeletExtraArgs = "kubeletExtraArgs"
)

// hintsFor returns the hints about unknown fields of a kind.
func hintsFor(kind string) strict.Hints {
	const shape = `v1beta3 had a mapping here; write each argument as "- name: NAME" and "value: VALUE"`
	const deleteIt = "; delete it"
	const healthCheck = "it moved to timeouts.controlPlaneComponentHealthCheck of InitConfiguration and JoinConfiguration"
	// by kind and path, where the fields of earlier versions are now
	moved := map[string]map[string]string{
		v1beta4.KindCluster: {
			"apiServer.timeoutForControlPlane": healthCheck,
			"apiServerCertSANs":                "it moved to apiServer.certSANs",
			"apiServerExtraArgs":               "it moved to apiServer.extraArgs",
			"apiServerExtraVolumes":            "it moved to apiServer.extraVolumes",
			"auditPolicy":                      "it was removed; set audit-policy-file in apiServer.extraArgs, and mount the file with apiServer.extraVolumes",
			"controllerManagerExtraArgs":       "it moved to controllerManager.extraArgs",
			"controllerManagerExtraVolumes":    "it moved to controllerManager.extraVolumes",
			"dns.type":                         "it was removed, because CoreDNS is the only DNS server" + deleteIt,
			"schedulerExtraArgs":               "it moved to scheduler.extraArgs",
			"schedulerExtraVolumes":            "it moved to scheduler.extraVolumes",
			"timeoutForControlPlane":           healthCheck,
			"unifiedControlPlaneImage":         "it was removed together with hyperkube" + deleteIt,
			"useHyperKubeImage":                "it was removed together with hyperkube" + deleteIt,
		},
		v1beta4.KindInit: {
			"apiEndpoint": "it moved to localAPIEndpoint",
		},
		v1beta4.KindJoin: {
			"apiEndpoint":                            "it moved to controlPlane.localAPIEndpoint",
			"clusterName":                            "it was removed, because the cluster stores its name" + deleteIt,
			"discovery.timeout":                      "it moved to timeouts.discovery",
			"discoveryFile":                          "it moved to discovery.file.kubeConfigPath",
			"discoveryTimeout":                       "it moved to timeouts.discovery",
			"discoveryToken":                         "it moved to discovery.bootstrapToken.token",
			"discoveryTokenAPIServers":               "it moved to discovery.bootstrapToken.apiServerEndpoint",
			"discoveryTokenCACertHashes":             "it moved to discovery.bootstrapToken.caCertHashes",
			"discoveryTokenUnsafeSkipCAVerification": "it moved to discovery.bootstrapToken.unsafeSkipCAVerification",
			"tlsBootstrapToken":                      "it moved to discovery.tlsBootstrapToken",
		},
		kindProxy: {
			"resourceContainer": "it was removed from kube-proxy" + deleteIt,
			"udpIdleTimeout": "it was removed together with kube-proxy's mode userspace" +
				deleteIt,
		},
	}
	return strict.Hints{
		Others: []any{
			&v1beta4.ClusterConfiguration{}, &v1beta4.InitConfiguration{},
			&v1beta4.JoinConfiguration{}, &v1beta4.ResetConfiguration{},
			&v1beta4.UpgradeConfiguration{}, &kubeletconfig.KubeletConfiguration{},
			&proxyconfig.KubeProxyConfiguration{},
		},
		Moved:  moved[kind],
		Shapes: map[string]string{extraArgs: shape, kubeletExtraArgs: shape},
	}
}
