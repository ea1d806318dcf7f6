package preflight

import (
	"context"
	"fmt"

	"kubeadm/internal/state"
)

func newFirewalldCheck(bindPort int32) Check {
	c := newServiceCheck("Firewalld", "firewalld", func(s state.Service, rep *Report) {
		if s.Exists && s.Active {
			rep.Warn(fmt.Sprintf(
				"open them: firewall-cmd --permanent --add-port=%d/tcp --add-port=%d/tcp && firewall-cmd --reload", bindPort, kubeletServer),
				"firewalld is active and may block other machines from ports %d and %d", bindPort,
				kubeletServer)
		}
	})
	c.Why = "if these ports are closed, other machines cannot join and the API server cannot reach the kubelet"
	return c
}

func newServiceCheck(name, unit string, check func(state.Service, *Report)) Check {
	return Check{Name: name, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		s, err := r.Service(ctx, unit)
		if err != nil {
			rep.Add(Finding{Severity: Warning,
				Text:    fmt.Sprintf("reading the state of service %q: %v", unit, err),
				Remedy:  fmt.Sprintf("check the service %q manually", unit),
				NotMade: "check it manually"})
			return
		}
		check(s, rep)
	}}
}
