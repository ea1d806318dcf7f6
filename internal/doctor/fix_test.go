package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

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
func TestLastDiagnosisIsCompleted(t *testing.T) {
	s := newVacantMachine()
	writeFile("/proc/sys/net/ipv4/ip_forward", "0\n")(t, s)
	s.seen = impatient{s.world}
	d := s.fix(t, s.diagnose(t))
	for _, n := range d.NotChecked {
		if strings.Contains(n.Reason, "waited too long") {
			t.Errorf("check %s was interrupted: %s", n.Check, n.Reason)
		}
	}
}
