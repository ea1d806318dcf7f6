package cli

import (
	"errors"
	"strings"
	"testing"
)

// The machine is locked, and a log written, only to change it.
func TestDoctorLocksMachineToFix(t *testing.T) {
	const forward = "/proc/sys/net/ipv4/ip_forward"
	s := newTestMachine(t)
	logs := keepRunLogs(s)
	writeFile(forward, "0\n")(t, s)
	taken, released := 0, 0
	s.Journal = func(string) (Journal, error) {
		taken++
		return countingLock{unlockedJournal{s.journal}, &released}, nil
	}
	s.diagnose(t)
	s.diagnose(t, "--fix", "--dry-run")
	if taken > 0 || len(logs.files) > 0 {
		t.Fatalf("locked %d times, logs %v, and nothing is changed", taken, logs.files)
	}
	s.Journal = func(string) (Journal, error) { return nil, errors.New("another kubeadm is running") }
	err := s.run(t.Context(), "doctor", "--fix", "--yes")
	if err == nil || !strings.Contains(err.Error(), "another kubeadm is running") || string(s.world.Files[forward].Data) != "0\n" {
		t.Errorf("%v, %s", err, s.world.Files[forward].Data)
	}
	s.Journal = func(string) (Journal, error) {
		taken++
		return countingLock{unlockedJournal{s.journal}, &released}, nil
	}
	if d, code := s.diagnose(t, "--fix", "--yes"); code != 0 {
		t.Errorf("it is not fixed:\n%s", describeFindings(d))
	}
	log := logs.files["doctor"]
	if taken != 1 || released != 1 || log == nil || !strings.Contains(log.String(), "ip_forward") {
		t.Errorf("locked %d times, released %d times, log:\n%v", taken, released, log)
	}
}
