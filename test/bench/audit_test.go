package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const auditLog = `{"kind":"Event","verb":"get","requestURI":"/x","sourceIPs":["10.78.0.4"],"userAgent":"Go-http-client/2.0"}
{"kind":"Event","verb":"get","requestURI":"/x","sourceIPs":["10.78.0.3"],"userAgent":"kubeadm/v1.37.1 (linux/amd64) kubernetes/clean"}
{"kind":"Event","verb":"create","requestURI":"/y","sourceIPs":["10.78.0.3"],"userAgent":"kubelet/v1.37.1 (linux/amd64) kubernetes/clean"}
{"kind":"Event","verb":"update","requestURI":"/z","sourceIPs":["10.77.0.11"],"userAgent":"kubelet/v1.37.1 (linux/amd64) kubernetes/clean"}
{"kind":"Event","verb":"get","requestURI":"/livez","userAgent":"kube-probe/1.37"}
`

func TestCountRequests(t *testing.T) {
	counts, err := countRequests(strings.NewReader(auditLog), netip.MustParsePrefix(machineNetwork))
	if want := []requestCount{{all: 2, kubelet: 1}, {all: 1}}; err != nil ||
		!slices.Equal(counts, want) {
		t.Errorf("got %+v, %v, want %+v", counts, err, want)
	}
	if _, err := countRequests(strings.NewReader(auditLog+`{"kind":`),
		netip.MustParsePrefix(machineNetwork)); err == nil ||
		!strings.Contains(err.Error(), "audit log") {
		t.Errorf("half a line: got %v", err)
	}
}
