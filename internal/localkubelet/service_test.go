package localkubelet

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// machine answers for the service of the kubelet as the init system of a machine does.
type machine struct {
	*fake.World
	service state.Service
	err     error
}

func (m machine) Service(context.Context, string) (state.Service, error) { return m.service, m.err }

// In a container the user starts the kubelet.
func TestKubeletWithoutService(t *testing.T) {
	for reason, m := range map[string]machine{
		"no supported init system":   {err: state.ErrNoInitSystem},
		`has no service "kubelet"`:   {},
		"":                           {service: state.Service{Exists: true}},
		"D-Bus does not answer at t": {err: errors.New("D-Bus does not answer at the moment")},
	} {
		m.World = fake.New()
		var warnings []string
		e := engine.New(engine.Env{World: m, Emit: func(e engine.Event) {
			if e.Kind == engine.Warned {
				warnings = append(warnings, e.Text)
			}
		}})
		errs := errors.Join(Stop(t.Context(), e), Start(t.Context(), e))
		isUnmanaged := IsUnmanaged(CheckService(t.Context(), m))
		text := strings.Join(warnings, "\n")
		switch {
		case strings.HasPrefix(reason, "D-Bus"):
			if errs == nil || !strings.Contains(errs.Error(), reason) || isUnmanaged || text != "" {
				t.Errorf("%s: %v, warned of %q", reason, errs, text)
			}
		case errs != nil:
			t.Errorf("%s: %v", reason, errs)
		case isUnmanaged != (reason != "") || isUnmanaged != strings.Contains(text, "stop the kubelet manually") ||
			isUnmanaged != strings.Contains(text, "start or restart the kubelet manually") ||
			!strings.Contains(text, reason):
			t.Errorf("%s: the user runs the kubelet: %t, warned of %q", reason, isUnmanaged, text)
		}
	}
}
