package manifest

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kubeadm/internal/node"
)

const (
	probePort   = "probe-port" // name of the port of all probes
	probePeriod = 10           // seconds
)

// probes configures the probes of a component.
type probes struct {
	host               string // empty: the Pod's address
	port               int32
	scheme             corev1.URIScheme
	live, ready, start string // paths; no ready: no readiness probe
}

// httpsProbes are the probes of a component that serves TLS.
func httpsProbes(host string, port int32) probes {
	if host == "0.0.0.0" || host == "::" { // a probe needs a specific address
		host = ""
	}
	return probes{host: host, port: port, scheme: corev1.URISchemeHTTPS, live: "/livez",
		ready: "/readyz", start: "/livez"}
}

func (p probes) get(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: p.host, Path: path, Port: intstr.FromString(probePort), Scheme: p.scheme,
		}},
		TimeoutSeconds: 15,
		PeriodSeconds:  probePeriod,
	}
}

// addTo sets the probes of a container. The startup probe allows the component as much time to
// start as kubeadm waits for it.
func (p probes) addTo(c *corev1.Container, timeout time.Duration) {
	c.LivenessProbe = p.get(p.live)
	c.LivenessProbe.InitialDelaySeconds, c.LivenessProbe.FailureThreshold = 10, 8
	if p.ready != "" {
		c.ReadinessProbe = p.get(p.ready)
		c.ReadinessProbe.PeriodSeconds, c.ReadinessProbe.FailureThreshold = 1, 3
	}
	c.StartupProbe = p.get(p.start)
	c.StartupProbe.InitialDelaySeconds = 10
	period := probePeriod * time.Second
	c.StartupProbe.FailureThreshold = int32((timeout + period - 1) / period)
}

// EtcdHealthURL is the URL of the health endpoint of this machine's etcd member. A learner is
// healthy there once it has caught up with the leader; at /readyz a learner is never ready.
func EtcdHealthURL(n *node.Node) string {
	p := etcdProbes(n)
	return etcdURL(strings.ToLower(string(p.scheme)), p.host, int(p.port)) + "/health"
}

// etcdProbes use etcd's metrics URL: http on the loopback address, unless the user set another.
func etcdProbes(n *node.Node) probes {
	p := probes{host: n.LoopbackAddress(), port: 2381, scheme: corev1.URISchemeHTTP, live: "/livez",
		ready: "/readyz", start: "/readyz"}
	urls, _ := node.LastArg(n.Cluster.Etcd.Args, "listen-metrics-urls")
	first, _, _ := strings.Cut(urls, ",")
	u, err := url.Parse(first)
	if err != nil {
		return p
	}
	if u.Hostname() != "" {
		p.host = u.Hostname()
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil && port > 0 {
		p.port = int32(port)
	}
	if u.Scheme == "https" {
		p.scheme = corev1.URISchemeHTTPS
	}
	return p
}
