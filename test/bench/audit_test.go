package main

import (
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"
)

const auditLog = `{"kind":"Event","verb":"get","requestURI":"/x","sourceIPs":["10.78.0.4"],"userAgent":"Go-http-client/2.0"}
{"kind":"Event","verb":"get","requestURI":"/x","sourceIPs":["10.78.0.3"],"userAgent":"kubeadm/v1.37.1 (linux/amd64) kubernetes/clean"}
{"kind":"Event","verb":"create","requestURI":"/y","sourceIPs":["10.78.0.3"],"userAgent":"kubelet/v1.37.1 (linux/amd64) kubernetes/clean"}
{"kind":"Event","verb":"update","requestURI":"/z","sourceIPs":["10.77.0.11"],"userAgent":"kubelet/v1.37.1 (linux/amd64) kubernetes/clean"}
{"kind":"Event","verb":"get","requestURI":"/livez","userAgent":"kube-probe/1.37"}
`

func TestCountRequests(t *testing.T) {
	var j joinRequests
	err := j.read(strings.NewReader(auditLog))
	want := map[netip.Addr]requestCount{netip.MustParseAddr("10.78.0.3"): {all: 2, kubelet: 1},
		netip.MustParseAddr("10.78.0.4"): {all: 1}}
	if err != nil || !maps.Equal(j.counts, want) {
		t.Errorf("got %+v, %v, want %+v", j.counts, err, want)
	}
	if err := j.read(strings.NewReader(`{"kind":`)); err == nil ||
		!strings.Contains(err.Error(), "audit log") {
		t.Errorf("half a line: got %v", err)
	}
}

// Of what comes through the load balancer, only joins count, and only those of the storm.
const balancedLog = `{"sourceIPs":["10.77.0.1"],"userAgent":"kubeadm","requestReceivedTimestamp":"2026-01-02T03:04:04.900000Z"}
{"sourceIPs":["10.77.0.1"],"userAgent":"kubeadm","requestReceivedTimestamp":"2026-01-02T03:04:05.100000Z","responseStatus":{"code":429}}
{"sourceIPs":["10.77.0.1"],"userAgent":"kubeadm/v1.37.1 (linux/amd64)","requestReceivedTimestamp":"2026-01-02T03:04:06.000000Z","responseStatus":{"code":200}}
{"sourceIPs":["10.77.0.1"],"userAgent":"kubelet/v1.37.1","user":{"username":"system:node:sim1"},"requestReceivedTimestamp":"2026-01-02T03:04:06.000000Z","responseStatus":{"code":429}}
{"sourceIPs":["10.77.0.1"],"userAgent":"slow-client","requestReceivedTimestamp":"2026-01-02T03:04:06.000000Z","responseStatus":{"code":429}}
{"sourceIPs":["10.77.0.1"],"userAgent":"Go-http-client/1.1","requestURI":"/readyz","requestReceivedTimestamp":"2026-01-02T03:04:06.000000Z"}
{"userAgent":"kubeadm","requestReceivedTimestamp":"2026-01-02T03:04:06.000000Z"}
`

func TestCountRequestsBehindLoadBalancer(t *testing.T) {
	j := joinRequests{balanced: true, since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for range 2 { // one log of each control plane
		if err := j.read(strings.NewReader(balancedLog)); err != nil {
			t.Fatal(err)
		}
	}
	if want := (requestCount{all: 6, kubelet: 2, rejected: 4}); j.total() != want {
		t.Errorf("got %+v, want %+v", j.total(), want)
	}
}
