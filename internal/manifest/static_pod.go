package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Etcd is the component that keeps the cluster's state. The others are named in package release.
const Etcd = release.Etcd

// Components lists what a control plane runs besides etcd, in the order in which manifests are written.
func Components() []string {
	return []string{release.APIServer, release.ControllerManager, release.Scheduler}
}

// static is what the static Pod of one component has of its own.
type static struct {
	image       string
	command     []string
	annotations map[string]string
	env         []corev1.EnvVar
	volumes     []node.Volume // in the order of the mounts
	probes      probes
	cpu, memory string // requested; no memory: none
}

// StaticPod is the Pod of a component on this machine: Etcd or one of Components.
func StaticPod(component string, n *node.Node, h Host) (*corev1.Pod, error) {
	images, err := Images(n)
	if err != nil {
		return nil, err
	}
	var s static
	switch component {
	case Etcd:
		if n.Cluster.Etcd.External != nil {
			return nil, fmt.Errorf("the cluster uses an external etcd: there is no static Pod for it")
		}
		s = etcd(n, h, images)
	case release.APIServer:
		s = apiServer(n, h)
	case release.ControllerManager:
		s = controllerManager(n, h, images.Target)
	case release.Scheduler:
		s = scheduler(n, h)
	default:
		return nil, fmt.Errorf("there is no control-plane component %q", component)
	}
	if s.image == "" {
		s.image = images.Component(component)
	}
	return s.pod(component, n), nil
}

// StaticPodFile is the file of StaticPod as the kubelet reads it: run by its own user in a rootless control plane, and
// patched by ours.
func StaticPodFile(component string, n *node.Node, h Host, p Patches) ([]byte, error) {
	pod, err := StaticPod(component, n, h)
	if err != nil {
		return nil, err
	}
	if Rootless(n) {
		if err := demote(pod, h); err != nil {
			return nil, err
		}
	}
	if pod, err = p.Pod(pod); err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding the static Pod %s: %w", component, err)
	}
	return data, nil
}

// ComponentContainer returns the container of a static Pod in which the component runs: the one with its name. Patches
// may add other containers and init containers, before it as well as after it.
func ComponentContainer(pod *corev1.Pod, component string) (*corev1.Container, error) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == component {
			return &pod.Spec.Containers[i], nil
		}
	}
	return nil, fmt.Errorf("the static Pod has no container %q", component)
}

func (s static) pod(name string, n *node.Node) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Namespace:   metav1.NamespaceSystem,
			Labels:      map[string]string{"component": name, "tier": "control-plane"},
			Annotations: s.annotations,
		},
		Spec: corev1.PodSpec{
			Containers:        []corev1.Container{s.container(name, n)},
			Volumes:           podVolumes(s.volumes),
			HostNetwork:       true,
			PriorityClassName: nodeCritical,
			Priority:          new(int32(2000001000)), // of that class; a static Pod passes no admission that would look it up
			SecurityContext: &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
}

func (s static) container(name string, n *node.Node) corev1.Container {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s.cpu)}
	if s.memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(s.memory)
	}
	return corev1.Container{
		Name:            name,
		Image:           s.image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         s.command,
		Env:             s.env,
		Ports:           []corev1.ContainerPort{{Name: probePort, ContainerPort: s.probes.port, Protocol: corev1.ProtocolTCP}},
		Resources:       corev1.ResourceRequirements{Requests: requests},
		VolumeMounts:    podMounts(s.volumes),
		LivenessProbe:   s.probes.liveness(),
		ReadinessProbe:  s.probes.readiness(),
		StartupProbe:    s.probes.startup(n.Timeouts.ControlPlane),
	}
}
