package staticpod

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
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

// Components are the static Pods of a control plane node, in the order in which they are replaced.
func Components(n *node.Node) []string {
	if local, _ := node.HasLocalEtcd(n); local {
		return append([]string{manifest.Etcd}, manifest.Components()...)
	}
	return manifest.Components()
}

// RenderPresent is Render for a component that runs. A member that has joined an etcd cluster keeps
// the members of JoinedMembers.
func RenderPresent(ctx context.Context, e *engine.Env, n *node.Node,
	component string) (Manifest, error) {
	var members []state.Member
	if component == manifest.Etcd {
		data, err := state.ReadOptional(ctx, e.World, n.Paths.Manifest(component))
		if err != nil {
			return Manifest{}, err
		}
		members = initialMembers(data)
	}
	return Render(ctx, e, n, component, members)
}

// JoinedMembers are the members that the manifest of this machine's etcd member lists, if it has joined
// an etcd cluster and has its data: they have no effect on data that exist, and another list would only
// restart it. It is nil for a new cluster. All commands that write that manifest keep them
// (docs/decisions/0062).
func JoinedMembers(ctx context.Context, e *engine.Env, n *node.Node) ([]state.Member, error) {
	hasData, err := state.Exists(ctx, e.World, path.Join(n.Cluster.Etcd.DataDir, "member"))
	if err != nil || !hasData {
		return nil, err
	}
	data, err := state.ReadOptional(ctx, e.World, n.Paths.Manifest(manifest.Etcd))
	return initialMembers(data), err
}

// initialMembers are those that the manifest of a joined etcd member lists; nil for the first one.
func initialMembers(data []byte) (members []state.Member) {
	pod, err := parsePod(data)
	if err != nil {
		return nil
	}
	container, err := manifest.ComponentContainer(pod, manifest.Etcd)
	if err != nil {
		container = &pod.Spec.Containers[0]
	}
	joined := false
	for _, arg := range slices.Concat(container.Command, container.Args) {
		joined = joined || arg == "--initial-cluster-state=existing"
		list, ok := strings.CutPrefix(arg, "--initial-cluster=")
		if !ok {
			continue
		}
		for one := range strings.SplitSeq(list, ",") {
			name, url, _ := strings.Cut(one, "=")
			members = append(members, state.Member{Name: name, PeerURLs: []string{url}})
		}
	}
	if !joined {
		return nil
	}
	return members
}

// Read returns the Pod that the manifest of a component on this machine describes.
func Read(ctx context.Context, e *engine.Env, n *node.Node, component string) (*corev1.Pod, error) {
	file := n.Paths.Manifest(component)
	data, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return nil, err
	}
	pod, err := parsePod(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return pod, nil
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

// exitPeriod returns how long a component may take to exit when its Pod is replaced or restarted. With
// --shutdown-delay-duration, kube-apiserver is not ready but serves on for that time, so that load
// balancers leave it first.
func exitPeriod(pod *corev1.Pod) time.Duration {
	delay, err := time.ParseDuration(manifest.ArgumentValue(pod, "shutdown-delay-duration"))
	if err != nil {
		return change.ExitPeriod
	}
	return min(change.ExitPeriod+max(delay, 0), max(change.ExitPeriod, gracePeriod(pod)))
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
