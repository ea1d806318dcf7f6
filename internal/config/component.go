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

// Values that the files and checks made by us rely on.
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

// recommended collects warnings about values that differ from what we would set.
type recommended struct {
	kind     string
	warnings []string
}

// set gives the field our value if it is empty, and warns if it has another.
func set[T any](r *recommended, name string, field *T, value T) {
	given := reflect.ValueOf(field).Elem()
	switch {
	case given.IsZero():
		*field = value
	case !reflect.DeepEqual(*field, value):
		r.differs(name, indirect(value), indirect(*field))
	}
}

func (r *recommended) differs(name string, ours, theirs any) {
	r.warnings = append(r.warnings, fmt.Sprintf("%s %s: %v is recommended, and %v is given, which is kept", r.kind, name, ours, theirs))
}

func indirect(value any) any { return reflect.Indirect(reflect.ValueOf(value)).Interface() }

func pointer[T any](value T) *T { return &value }

// fillKubelet puts in what the cluster and the files made by us rely on, and warns
// where the user has something else.
func fillKubelet(k *kubeletconfig.KubeletConfiguration, c *v1beta4.ClusterConfiguration) []string {
	r := &recommended{kind: kindKubelet}
	k.APIVersion, k.Kind = apiVersions()[kindKubelet], kindKubelet
	set(r, "staticPodPath", &k.StaticPodPath, manifestsDir)
	if dns, err := node.DNSAddress(c.Networking.ServiceSubnet); err == nil {
		set(r, "clusterDNS", &k.ClusterDNS, []string{dns})
	}
	set(r, "clusterDomain", &k.ClusterDomain, c.Networking.DNSDomain)
	set(r, "authentication.x509.clientCAFile", &k.Authentication.X509.ClientCAFile, path.Join(c.CertificatesDir, "ca.crt"))
	set(r, "authentication.anonymous.enabled", &k.Authentication.Anonymous.Enabled, pointer(false))
	set(r, "authentication.webhook.enabled", &k.Authentication.Webhook.Enabled, pointer(true))
	set(r, "authorization.mode", &k.Authorization.Mode, kubeletconfig.KubeletAuthorizationModeWebhook)
	set(r, "healthzBindAddress", &k.HealthzBindAddress, healthzAddress)
	set(r, "healthzPort", &k.HealthzPort, pointer(int32(healthzPort)))
	set(r, "readOnlyPort", &k.ReadOnlyPort, 0)
	k.RotateCertificates = true
	if k.CgroupDriver == "" {
		k.CgroupDriver = cgroupDriver
	}
	return r.warnings
}

// fillProxy is fillKubelet for kube-proxy. The address decides the family in which
// it listens.
func fillProxy(p *proxyconfig.KubeProxyConfiguration, c *v1beta4.ClusterConfiguration, address string) []string {
	r := &recommended{kind: kindProxy}
	p.APIVersion, p.Kind = apiVersions()[kindProxy], kindProxy
	wildcard := anyIPv4
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		wildcard = anyIPv6
	}
	if p.BindAddress != anyIPv4 && p.BindAddress != anyIPv6 {
		set(r, "bindAddress", &p.BindAddress, wildcard)
	}
	if c.Networking.PodSubnet != "" {
		set(r, "clusterCIDR", &p.ClusterCIDR, c.Networking.PodSubnet)
	}
	set(r, "clientConnection.kubeconfig", &p.ClientConnection.Kubeconfig, proxyKubeconfig)
	switch p.Mode {
	case "":
		p.Mode = proxyMode
	case proxyModeIPVS:
		r.warnings = append(r.warnings, kindProxy+" mode: ipvs is going to be removed from kube-proxy: use iptables or nftables")
	}
	return r.warnings
}
