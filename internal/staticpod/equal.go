package staticpod

import (
	"bytes"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// EqualManifests reports whether two manifests describe the same Pod. It ignores comments, the
// order of keys and unknown fields.
func EqualManifests(a, b []byte) (bool, error) {
	return equalPods(a, b, func(*corev1.Pod) {})
}

// EqualButForProxy is EqualManifests without the environment variables of a proxy, which depend on
// the shell in which kubeadm runs.
func EqualButForProxy(a, b []byte) (bool, error) {
	return equalPods(a, b, func(pod *corev1.Pod) {
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool {
				return strings.HasSuffix(strings.ToLower(v.Name), "_proxy")
			})
		}
	})
}

// equalPods compares what is left of both Pods.
func equalPods(a, b []byte, reduce func(*corev1.Pod)) (bool, error) {
	if bytes.Equal(a, b) {
		return true, nil
	}
	first, err := parsePod(a)
	if err != nil {
		return false, err
	}
	second, err := parsePod(b)
	if err != nil {
		return false, err
	}
	reduce(first)
	reduce(second)
	return apiequality.Semantic.DeepEqual(first, second), nil
}
