package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// kubeletTargets returns the targets that a run made if it has got as far as starting the kubelet.
func kubeletTargets(p node.Paths) []string {
	return []string{change.FileTarget(p.KubeletConfig()),
		change.SetService{Name: "kubelet"}.Target()}
}

// newKubeletChecks checks the version of the installed kubelet, that it runs with the user's
// arguments, and its service. If the control plane's version is nil, the kubelet's is
// compared with the tool's only.
func newKubeletChecks(l *node.Local, tool release.Tool, kubelet Query[*version.Version],
	controlPlane *version.Version) []Check {
	enable := l.Platform.ServiceCommand("enable", "kubelet")
	service := newServiceCheck("Service-kubelet", "kubelet", func(s state.Service, rep *Report) {
		switch {
		case !s.Exists:
			rep.Warn("install the kubelet package, or run the kubelet in some other way",
				"the init system has no service \"kubelet\"")
		case !s.Enabled:
			rep.Add(Finding{Severity: Warning,
				Text:    "the kubelet will not start when this machine boots",
				Remedy:  fmt.Sprintf("run %q", enable),
				Command: enable,
				Changes: []change.Change{change.EnableService{Name: "kubelet", Enabled: true}}})
		}
	})
	service.Why = "after a reboot the node would not come back"
	return []Check{
		{Name: "KubeletVersion", Run: func(ctx context.Context, r state.Reader, rep *Report) {
			v, err := kubelet(ctx, r)
			if err == nil {
				err = tool.CheckKubelet(v, controlPlane)
			}
			if err != nil {
				rep.FailWith(err)
			}
		}, Why: "the kubelet runs the node, and its version must match kubeadm and the cluster"},
		newKubeletArgsCheck(l, kubelet),
		service,
	}
}

// newKubeletArgsCheck returns the check of the arguments of this machine's kubelet.
func newKubeletArgsCheck(l *node.Local, kubelet Query[*version.Version]) Check {
	return Check{Name: manifest.ComponentArgs,
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			if v, err := kubelet(ctx, r); err == nil && v != nil { // KubeletVersion reports the error
				rep.AddComponentProblems(manifest.FindKubeletProblems(l.KubeletArgs, v))
			}
		}}
}

// newKubeletGateCheck returns the check of the feature gates of the cluster's KubeletConfiguration.
func newKubeletGateCheck(n *node.Node, kubelet Query[*version.Version]) Check {
	return Check{Name: manifest.ComponentArgs,
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			if v, err := kubelet(ctx, r); err == nil && v != nil {
				rep.AddComponentProblems(manifest.FindKubeletGateProblems(n, v))
			}
		}}
}

// newKubeletFlagCheck returns the check of the feature gates in the kubelet's environment file.
func newKubeletFlagCheck(path string, kubelet *version.Version) Check {
	return Check{Name: manifest.ComponentArgs,
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			text, err := state.ReadOptional(ctx, r, path)
			if err != nil {
				rep.FailWith(err)
				return
			}
			if kubelet != nil {
				rep.AddComponentProblems(manifest.FindKubeletFlagProblems(path, string(text), kubelet))
			}
		}}
}
