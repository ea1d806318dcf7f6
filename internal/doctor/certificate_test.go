package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A list of containers that cannot be read is no evidence of an old certificate.
func TestUnreadableContainersAreNotJudged(t *testing.T) {
	s := newHealthyNode(t)
	s.world.ContainersError = errors.New("i/o timeout")
	d := s.diagnose(t)
	if i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Check == "ServedCertificates" }); i >= 0 {
		t.Errorf("it found %v", d.Findings[i])
	}
	if !slices.ContainsFunc(d.NotChecked, func(n NotChecked) bool {
		return n.Check == "ServedCertificates" && strings.Contains(n.Reason, "i/o timeout")
	}) {
		t.Errorf("not checked: %v", d.NotChecked)
	}
}

// A renewal keeps the names of a certificate: one that lacks a name is generated again. The address in
// a kubeconfig that the user names need not be of this API server.
func TestNameThatCertificateLacksIsFound(t *testing.T) {
	s := newHealthyNode(t)
	other := s.world.Files["/etc/kubernetes/admin.conf"]
	other.Data = []byte(strings.Replace(string(other.Data), "192.0.2.10:6443", "other.example:6443", 1))
	s.world.Files["/root/other.conf"] = other
	lacks := func(kubeconfig string) []Finding {
		t.Helper()
		s.as.Kubeconfig = kubeconfig
		d := s.diagnose(t)
		return slices.DeleteFunc(d.Findings, func(f Finding) bool { return f.Check != "Certificates" })
	}
	if found := lacks("/root/other.conf"); len(found) > 0 {
		t.Errorf("got %+v", found)
	}
	s.world.Files["/etc/kubernetes/admin.conf"] = other
	found := lacks("")
	if len(found) != 1 || !strings.Contains(found[0].Text, "apiserver.crt is not valid for other.example") ||
		!strings.Contains(found[0].Remedy, "apiServer.certSANs") || strings.Contains(found[0].Remedy, "certs renew") ||
		!strings.Contains(found[0].Remedy, "mv /etc/kubernetes/pki/apiserver.crt") {
		t.Errorf("got %+v", found)
	}
}
