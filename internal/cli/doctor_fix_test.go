package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
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

// impatient is a world whose waits end during their first check.
type impatient struct{ *fake.World }

func (w impatient) Await(ctx context.Context, c world.Condition) error {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("waited too long"))
	return c.Check(ctx, w)
}

func (w impatient) SyncTimes(ctx context.Context, dir string) ([]time.Duration, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return w.World.SyncTimes(ctx, dir)
}

// The end of the wait for what was fixed does not interrupt the diagnosis.
func TestDoctorCompletesLastDiagnosis(t *testing.T) {
	s := newTestMachine(t)
	writeFile("/proc/sys/net/ipv4/ip_forward", "0\n")(t, s)
	s.Host.World = func() world.World { return impatient{s.world} }
	d, code := s.diagnose(t, "--fix", "--yes")
	for _, n := range d.NotChecked {
		if strings.Contains(n.Reason, "waited too long") || code != 0 {
			t.Errorf("exit code %d, check %s was interrupted: %s", code, n.Check, n.Reason)
		}
	}
}
