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
	probePort   = "probe-port" // name of the port that all probes ask
	probePeriod = 10           // seconds
)

// probes says how the kubelet finds out about the health of a component.
type probes struct {
	host               string // empty: the Pod's address
	port               int32
	scheme             corev1.URIScheme
	live, ready, start string // paths; no ready: no readiness probe
}

// https are probes of a component that serves TLS.
func https(host string, port int32) probes {
	return probes{host: specific(host), port: port, scheme: corev1.URISchemeHTTPS, live: "/livez", ready: "/readyz", start: "/livez"}
}

// specific is the address unless it stands for all addresses, which nobody can ask.
func specific(host string) string {
	if host == "0.0.0.0" || host == "::" {
		return ""
	}
	return host
}

func (p probes) get(path string) corev1.Probe {
	return corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: p.host, Path: path, Port: intstr.FromString(probePort), Scheme: p.scheme,
		}},
		TimeoutSeconds: 15,
		PeriodSeconds:  probePeriod,
	}
}

func (p probes) liveness() *corev1.Probe {
	probe := p.get(p.live)
	probe.InitialDelaySeconds, probe.FailureThreshold = 10, 8
	return &probe
}

func (p probes) readiness() *corev1.Probe {
	if p.ready == "" {
		return nil
	}
	probe := p.get(p.ready)
	probe.PeriodSeconds, probe.FailureThreshold = 1, 3
	return &probe
}

// startup gives the component as long as the program itself waits for it.
func (p probes) startup(patience time.Duration) *corev1.Probe {
	probe := p.get(p.start)
	probe.InitialDelaySeconds = 10
	period := probePeriod * time.Second
	probe.FailureThreshold = int32((patience + period - 1) / period)
	return &probe
}

// EtcdHealth is where this machine's etcd tells whether it knows all that the others know, be it that it serves nobody yet. Its
// /readyz does not do for that: there a member that does not vote is never ready.
func EtcdHealth(n *node.Node) string {
	p := etcdProbes(n)
	return etcdURL(strings.ToLower(string(p.scheme)), p.host, int(p.port)) + "/health"
}

// etcdProbes ask where etcd serves its metrics: in the clear and on loopback, unless the user said otherwise.
func etcdProbes(n *node.Node) probes {
	p := probes{host: n.Loopback(), port: 2381, scheme: corev1.URISchemeHTTP, live: "/livez", ready: "/readyz", start: "/readyz"}
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
