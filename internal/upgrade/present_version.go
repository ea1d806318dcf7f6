package upgrade

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// PresentVersion is the version of this machine's API server, by the image of its manifest; nil if
// there is no manifest or its tag is not a version.
func PresentVersion(ctx context.Context, r state.Reader, paths node.Paths) (*version.Version,
	error) {
	data, err := state.ReadOptional(ctx, r, paths.Manifest(release.APIServer))
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if yaml.Unmarshal(data, &pod) != nil {
		return nil, nil // existing.ReadMachine reports it
	}
	tag, err := imageTag(release.APIServer, pod.Spec.Containers)
	if err != nil {
		return nil, nil
	}
	v, err := version.ParseSemantic(tag)
	if err != nil {
		return nil, nil
	}
	return v, nil
}
