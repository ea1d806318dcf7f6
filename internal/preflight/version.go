package preflight

import (
	"context"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

func kubernetesVersion(text string, tool release.Tool) Check {
	return Check{Name: "KubernetesVersion", Run: func(_ context.Context, _ state.Reader, rep *Report) {
		target, err := release.ParseTarget(text)
		if err != nil {
			rep.Fail("give --kubernetes-version", "%v", err)
			return
		}
		if tool.Ahead(target) {
			rep.Warn("use kubeadm of the cluster's release", "Kubernetes %s is newer than kubeadm %s, which cannot vouch for it", target, tool)
		}
	}}
}

func versionOrNil(text string) *version.Version {
	target, err := release.ParseTarget(text)
	if err != nil {
		return nil
	}
	return target.Version()
}
