package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

func newKubernetesVersionCheck(text string, tool release.Tool) Check {
	return Check{Name: "KubernetesVersion",
		Run: func(_ context.Context, _ state.Reader, rep *Report) {
			target, err := release.ParseTarget(text)
			if err != nil {
				rep.Fail("correct --kubernetes-version (kubernetesVersion)", "%v", err)
				return
			}
			if tool.IsOlderThan(target) {
				rep.Warn("use a kubeadm of the cluster's release",
					"Kubernetes %s is newer than kubeadm %s, which does not support it", target,
					tool)
			}
		}}
}

func parseVersionOrNil(text string) *version.Version {
	target, err := release.ParseTarget(text)
	if err != nil {
		return nil
	}
	return target.Version()
}

// KubeletVersion is a cached query for the version of the kubelet in PATH. The program takes a tenth of
// a second to print it.
func KubeletVersion() Query[*version.Version] {
	return Query[*version.Version](readKubeletVersion).Cached()
}

// readKubeletVersion returns the version of the kubelet in PATH.
func readKubeletVersion(ctx context.Context, r state.Reader) (*version.Version, error) {
	path, err := r.Program(ctx, "kubelet")
	if err != nil {
		return nil, problem.New(programNotFoundError(ctx, r, "kubelet", err),
			"install the kubelet package, or add the kubelet's directory to the PATH of this command")
	}
	text, err := r.KubeletVersion(ctx)
	if err != nil {
		return nil, problem.During("reading the version of "+path, err,
			fmt.Sprintf("check what %q prints, and install a kubelet that runs on this machine",
				path+" --version"))
	}
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil, problem.During("reading the version of "+path, err, "install a released kubelet")
	}
	return v, nil
}
