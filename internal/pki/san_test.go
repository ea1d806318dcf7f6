package pki

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSANRules(t *testing.T) {
	for name, c := range map[string]struct {
		rule    SANRule
		alter   func(*NodeNames)
		dns     string
		ips     string
		ignored []string
	}{
		"none": {rule: NoSANs},
		"API server": {rule: APIServerSANs,
			dns: "api.example.com cp1 kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local",
			ips: "10.96.0.1 10.0.0.4"},
		"API server with everything": {rule: APIServerSANs,
			alter: func(s *NodeNames) {
				s.NodeName, s.AdvertiseAddress, s.ControlPlaneHost = "n", "fd00::4", "10.0.0.9"
				s.ServiceSubnet, s.DNSDomain = "fd00:96::/112,10.96.0.0/12", "x.org"
				s.APIServerSANs = []string{"z", "*.wild", "10.0.0.9", "fd00::4", "n", "not a name",
					"*bad"}
			},
			dns:     "*.wild kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.x.org n z",
			ips:     "fd00:96::1 fd00::4 10.0.0.9",
			ignored: []string{"not a name", "*bad"}},
		"API server without endpoint": {rule: APIServerSANs,
			alter: func(s *NodeNames) { s.ControlPlaneHost = "" },
			dns:   "cp1 kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local",
			ips:   "10.96.0.1 10.0.0.4"},
		"etcd server": {rule: EtcdServerSANs,
			alter: func(s *NodeNames) {
				s.EtcdServerSANs, s.EtcdPeerSANs = []string{"etcd.example.com", "127.0.0.1"},
					[]string{"peer"}
			},
			dns: "cp1 etcd.example.com localhost", ips: "10.0.0.4 127.0.0.1 ::1"},
		"etcd peer": {rule: EtcdPeerSANs,
			alter: func(s *NodeNames) {
				s.EtcdServerSANs, s.EtcdPeerSANs = []string{"server"}, []string{"peer", "10.9.9.9"}
			},
			dns: "cp1 localhost peer", ips: "10.0.0.4 127.0.0.1 ::1 10.9.9.9"},
	} {
		t.Run(name, func(t *testing.T) {
			site := testSite()
			if c.alter != nil {
				c.alter(&site)
			}
			got, ignored, err := site.SANs(c.rule)
			wantError(t, err)
			if diff := cmp.Diff(c.ignored, ignored); diff != "" {
				t.Error(diff)
			}
			want := strings.Join(append(strings.Fields(c.dns), strings.Fields(c.ips)...), ", ")
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSANRulesRejectInvalidNodes(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*NodeNames)
		errs  []string
	}{
		"no address": {func(s *NodeNames) { s.AdvertiseAddress = "" },
			[]string{"advertise address"}},
		"name for address": {func(s *NodeNames) { s.AdvertiseAddress = "cp1" },
			[]string{"advertise address", "cp1"}},
		"no node name": {func(s *NodeNames) { s.NodeName = "" }, []string{"node name"}},
		"bad node name": {func(s *NodeNames) { s.NodeName = "CP_1" },
			[]string{"node name", "CP_1"}},
		"no subnet": {func(s *NodeNames) { s.ServiceSubnet = "" }, []string{"service subnet"}},
		"one address": {func(s *NodeNames) { s.ServiceSubnet = "10.96.0.7/32" },
			[]string{"service subnet", "too small"}},
	} {
		t.Run(name, func(t *testing.T) {
			site := testSite()
			c.alter(&site)
			_, _, err := site.SANs(APIServerSANs)
			wantError(t, err, c.errs...)
		})
	}
}

func TestSANsFollowHostNameVerification(t *testing.T) {
	sans, _ := ParseSANs([]string{"cp1", "*.example.com", "10.0.0.1", "fd00::1"})
	spec := clientOf("x")
	spec.SANs = sans
	cert := newLeaf(t, newCA(t, "ca", day), spec).cert
	for names, missing := range map[string]string{
		"cp1 10.0.0.1 fd00::1":              "",
		"*.example.com":                     "",
		"api.example.com":                   "",
		"a.b.example.com cp1 10.0.0.2":      "a.b.example.com 10.0.0.2",
		"kubernetes fd00::2 cp1 10.0.0.1 x": "kubernetes x fd00::2",
	} {
		want, _ := ParseSANs(strings.Fields(names))
		if got := strings.Join(want.MissingFrom(cert), " "); got != missing {
			t.Errorf("%s: missing %q, want %q", names, got, missing)
		}
	}
}
