package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// kubeletVersion is the version of the kubelet in PATH.
func kubeletVersion(ctx context.Context, r state.Reader) (*version.Version, error) {
	path, err := r.Program(ctx, "kubelet")
	if err != nil {
		return nil, problem.New("", missing(ctx, r, "kubelet", err),
			"install the kubelet package, or put the kubelet's directory into the PATH of this command")
	}
	text, err := r.KubeletVersion(ctx)
	if err != nil {
		return nil, problem.New("asking "+path+" for its version", err,
			fmt.Sprintf("see what %q prints and install a kubelet that runs on this machine", path+" --version"))
	}
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil, problem.New("reading the version of "+path, err, "install a released kubelet")
	}
	return v, nil
}

// kubeletAhead warns of a kubelet that is newer than the control plane of the cluster it joins. It may well work, and where
// a cluster is being upgraded it may be meant.
func kubeletAhead(controlPlane *version.Version) Check {
	return Check{Name: "KubeletVersion", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		v, err := kubeletVersion(ctx, r)
		if err == nil && controlPlane != nil && release.KubeletAhead(v, controlPlane) {
			rep.Warn("install a kubelet of that minor or an older one",
				"kubelet v%s is newer than the cluster's control plane, v%s, which Kubernetes does not support", v, controlPlane)
		}
	}}
}

func kubeletSkew(tool release.Tool, kubelet fact[*version.Version], controlPlane *version.Version) Check {
	return Check{Name: "KubeletVersion", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		v, err := kubelet(ctx, r)
		if err == nil {
			err = tool.CheckKubelet(v, controlPlane)
		}
		if err != nil {
			rep.fail(err)
		}
	}}
}
