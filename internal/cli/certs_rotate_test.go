package cli

import (
	"strings"
	"testing"
)

// A pair that an interrupted stage has left is repaired before the cluster is read, as the API server
// may not start with it. A dry run and "status" change nothing.
func TestRotationRepairsCertificates(t *testing.T) {
	s := newOldControlPlane(t)
	const pki = "/etc/kubernetes/pki/"
	s.world.Files[pki+"apiserver.key"] = s.world.Files[pki+"front-proxy-client.key"]
	before := string(s.world.Files[pki+"apiserver.crt"].Data)
	for _, args := range [][]string{{"status"}, {"trust", "--dry-run"}, {"sign", "--dry-run"}} {
		_ = s.run(t.Context(), append([]string{"certs", "rotate-ca"}, args...)...)
		if string(s.world.Files[pki+"apiserver.crt"].Data) != before {
			t.Errorf("%s has renewed the certificate:\n%s", args[0], s.out.String())
		}
	}
	// No rotation is in progress: nothing else renews the certificate.
	if err := s.run(t.Context(), "certs", "rotate-ca", "sign"); err == nil {
		t.Error("sign succeeds without a rotation")
	}
	if !strings.Contains(s.err.String(), "as happens after an interrupted renewal") ||
		string(s.world.Files[pki+"apiserver.crt"].Data) == before {
		t.Errorf("the pair is not repaired:\n%s", s.err.String())
	}
}
