package staticpod

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Manifest is the static Pod manifest of a control plane component.
type Manifest struct {
	Component string
	Data      []byte
}

// Render returns the manifest of a component with the user's patches applied, as Write writes it.
// Members are those of the etcd cluster that is joined; nil for a new cluster.
func Render(ctx context.Context, e *engine.Env, n *node.Node, component string,
	members []state.Member) (Manifest, error) {
	host, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return Manifest{}, err
	}
	host.Members = members
	data, err := manifest.StaticPodFile(component, n, host, patches)
	return Manifest{Component: component, Data: data}, err
}

// EqualManifests reports whether two manifests describe the same Pod. It ignores comments, the
// order of keys and unknown fields.
func EqualManifests(a, b []byte) (bool, error) {
	first, err := parsePod(a)
	if err != nil {
		return false, err
	}
	second, err := parsePod(b)
	if err != nil {
		return false, err
	}
	return apiequality.Semantic.DeepEqual(first, second), nil
}

func parsePod(data []byte) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, err
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, errors.New("it is not a Pod with containers")
	}
	return &pod, nil
}

// maxKeptPodWait returns how long the kubelet takes at most to terminate the previous Pod if both
// manifests may be equal to it, else 0. The kubelet compares Pods after it has set defaults, which
// cannot be done here. So only fields without defaults are compared.
func maxKeptPodWait(old, wanted *corev1.Pod) time.Duration {
	same := apiequality.Semantic.DeepEqual(old.Annotations, wanted.Annotations) &&
		apiequality.Semantic.DeepEqual(old.Labels, wanted.Labels) &&
		slices.EqualFunc(old.Spec.Containers, wanted.Spec.Containers,
			func(a, b corev1.Container) bool {
				return a.Name == b.Name && a.Image == b.Image &&
					slices.Equal(a.Command, b.Command) &&
					slices.Equal(a.Args, b.Args) && apiequality.Semantic.DeepEqual(a.Env, b.Env)
			})
	if !same {
		return 0
	}
	const margin = 30 * time.Second
	return gracePeriod(old) + margin
}

// gracePeriod returns the termination grace period of a Pod.
func gracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second // the default of Kubernetes
}

// listImages returns the images of all containers, each once.
func listImages(pod *corev1.Pod) []string {
	var all []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !slices.Contains(all, c.Image) {
			all = append(all, c.Image)
		}
	}
	return all
}
