package cli

import (
	"strings"
	"testing"
)

// The bundle is written for root alone, and the user is asked to review it.
func TestDoctorWritesBundle(t *testing.T) {
	s := newTestMachine(t)
	if d, code := s.diagnose(t, "--bundle", "/bundle.tar.gz"); code != 0 {
		t.Fatal(describeFindings(d))
	}
	if f := s.world.Files["/bundle.tar.gz"]; f.Mode != 0o600 || len(f.Data) == 0 {
		t.Errorf("%d bytes, mode %v:\n%s", len(f.Data), f.Mode, &s.err)
	}
	if said := s.err.String(); !strings.Contains(said, "review it before you share it") {
		t.Errorf("it does not ask for a review:\n%s", said)
	}
	if err := s.run(t.Context(), "doctor", "--bundle", "/no/such/directory/bundle.tar.gz"); err == nil ||
		!strings.Contains(err.Error(), "writing the support bundle") {
		t.Errorf("got %v", err)
	}
}
