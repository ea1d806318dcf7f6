package preflight

import (
	"context"
	"fmt"

	"kubeadm/internal/state"
)

func newFirewalldCheck(bindPort int32) Check {
	return newServiceCheck("Firewalld", "firewalld", func(s state.Service, rep *Report) {
		if s.Exists && s.Active {
			rep.Warn(fmt.Sprintf(
				"open them: firewall-cmd --permanent --add-port=%d/tcp --add-port=%d/tcp && firewall-cmd --reload", bindPort, kubeletServer),
				"firewalld is active and may keep other machines from ports %d and %d", bindPort,
				kubeletServer)
		}
	})
}

func newServiceCheck(name, unit string, check func(state.Service, *Report)) Check {
	return Check{Name: name, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		s, err := r.Service(ctx, unit)
		if err != nil {
			rep.Warn(fmt.Sprintf("check the service %q manually", unit),
				"reading the state of service %q: %v", unit, err)
			return
		}
		check(s, rep)
	}}
}
