package config

import (
	"fmt"
	"net/netip"
	"path"
	"reflect"

	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

// Values that other files and checks of kubeadm rely on.
const (
	manifestsDir     = "/etc/kubernetes/manifests"
	healthzAddress   = "127.0.0.1"
	healthzPort      = 10248
	cgroupDriver     = "systemd"
	proxyKubeconfig  = "/var/lib/kube-proxy/kubeconfig.conf"
	proxyMode        = "iptables"
	proxyModeIPVS    = "ipvs"
	anyIPv4, anyIPv6 = "0.0.0.0", "::"
)

// recommendedValues collects warnings about values that differ from the recommended ones.
type recommendedValues struct {
	kind     string
	warnings []string
}

// setRecommended sets the field to the value if it is empty, and warns if it has another value.
func setRecommended[T any](r *recommendedValues, name string, field *T, value T) {
	given := reflect.ValueOf(field).Elem()
	switch {
	case given.IsZero():
		*field = value
	case !reflect.DeepEqual(*field, value):
		recommended, set := reflect.ValueOf(value), reflect.ValueOf(*field)
		r.warnings = append(r.warnings, fmt.Sprintf("%s %s is %v, but %v is recommended",
			r.kind, name, reflect.Indirect(set), reflect.Indirect(recommended)))
	}
}

// fillKubelet sets the values that the cluster and other files of kubeadm rely on, and warns if
// the user has set another.
func fillKubelet(k *kubeletconfig.KubeletConfiguration, c *v1beta4.ClusterConfiguration) []string {
	r := &recommendedValues{kind: kindKubelet}
	k.APIVersion, k.Kind = apiVersions()[kindKubelet], kindKubelet
	setRecommended(r, "staticPodPath", &k.StaticPodPath, manifestsDir)
	if dns, err := node.DNSAddress(c.Networking.ServiceSubnet); err == nil {
		setRecommended(r, "clusterDNS", &k.ClusterDNS, []string{dns})
	}
	setRecommended(r, "clusterDomain", &k.ClusterDomain, c.Networking.DNSDomain)
	setRecommended(r, "authentication.x509.clientCAFile", &k.Authentication.X509.ClientCAFile,
		path.Join(c.CertificatesDir, "ca.crt"))
	setRecommended(r, "authentication.anonymous.enabled", &k.Authentication.Anonymous.Enabled,
		new(false))
	setRecommended(r, "authentication.webhook.enabled", &k.Authentication.Webhook.Enabled,
		new(true))
	setRecommended(r, "authorization.mode", &k.Authorization.Mode,
		kubeletconfig.KubeletAuthorizationModeWebhook)
	setRecommended(r, "healthzBindAddress", &k.HealthzBindAddress, healthzAddress)
	setRecommended(r, "healthzPort", &k.HealthzPort, new(int32(healthzPort)))
	setRecommended(r, "readOnlyPort", &k.ReadOnlyPort, 0)
	k.RotateCertificates = true
	if k.CgroupDriver == "" {
		k.CgroupDriver = cgroupDriver
	}
	return r.warnings
}

// fillProxy is fillKubelet for kube-proxy. The address determines the IP family of the bind
// address.
func fillProxy(p *proxyconfig.KubeProxyConfiguration, c *v1beta4.ClusterConfiguration,
	address string) []string {
	r := &recommendedValues{kind: kindProxy}
	p.APIVersion, p.Kind = apiVersions()[kindProxy], kindProxy
	wildcard := anyIPv4
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		wildcard = anyIPv6
	}
	if p.BindAddress != anyIPv4 && p.BindAddress != anyIPv6 {
		setRecommended(r, "bindAddress", &p.BindAddress, wildcard)
	}
	if c.Networking.PodSubnet != "" {
		setRecommended(r, "clusterCIDR", &p.ClusterCIDR, c.Networking.PodSubnet)
	}
	setRecommended(r, "clientConnection.kubeconfig", &p.ClientConnection.Kubeconfig,
		proxyKubeconfig)
	switch p.Mode {
	case "":
		p.Mode = proxyMode
	case proxyModeIPVS:
		r.warnings = append(r.warnings,
			kindProxy+" mode: ipvs is deprecated in kube-proxy: use iptables or nftables")
	}
	return r.warnings
}
