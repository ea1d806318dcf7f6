package preflight

import (
	"context"
	"fmt"
	"kubeadm/internal/state"
)

func firewalld(bindPort int32) Check {
	return aboutService("Firewalld", "firewalld", func(s state.Service, rep *Report) {
		if s.Exists && s.Active {
			rep.Warn(fmt.Sprintf("open them: firewall-cmd --permanent --add-port=%d/tcp --add-port=%d/tcp && firewall-cmd --reload", bindPort, kubeletServer),
				"firewalld is active and may keep other machines from ports %d and %d", bindPort, kubeletServer)
		}
	})
}

func kubeletService() Check {
	return aboutService("Service-kubelet", "kubelet", func(s state.Service, rep *Report) {
		switch {
		case !s.Exists:
			rep.Warn("install the kubelet package, or run the kubelet by other means", "the init system knows no service \"kubelet\"")
		case !s.Enabled:
			rep.Warn(`run "systemctl enable kubelet"`, "the kubelet will not start when this machine boots")
		}
	})
}

func aboutService(check, unit string, judge func(state.Service, *Report)) Check {
	return Check{Name: check, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		s, err := r.Service(ctx, unit)
		if err != nil {
			rep.Warn(fmt.Sprintf("look yourself after the service %q", unit), "asking for service %q: %v", unit, err)
			return
		}
		judge(s, rep)
	}}
}
