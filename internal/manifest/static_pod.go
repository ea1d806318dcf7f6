package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Etcd is the name of the etcd component. The names of the others are in package release.
const Etcd = release.Etcd

// Components lists the control-plane components without etcd, in the order in which their
// manifests are written.
func Components() []string {
	return []string{release.APIServer, release.ControllerManager, release.Scheduler}
}

// componentPod holds what differs between the static Pods of components.
type componentPod struct {
	image       string
	args        []string
	annotations map[string]string
	env         []corev1.EnvVar
	volumes     []node.Volume // in the order of the mounts
	probes      probes
	cpu, memory string // resource requests; memory may be empty
}

// StaticPod is the Pod of a component on this machine: Etcd or one of Components.
func StaticPod(component string, n *node.Node, h Host) (*corev1.Pod, error) {
	images, err := Images(n)
	if err != nil {
		return nil, err
	}
	var s componentPod
	switch component {
	case Etcd:
		if n.Cluster.Etcd.External != nil {
			return nil, fmt.Errorf("the cluster uses an external etcd, which has no static Pod")
		}
		s = etcdPod(n, h, images)
	case release.APIServer:
		s = apiServerPod(n, h)
	case release.ControllerManager:
		s = controllerManagerPod(n, h, images.Target)
	case release.Scheduler:
		s = schedulerPod(n, h)
	default:
		return nil, fmt.Errorf("unknown control-plane component %q", component)
	}
	if s.image == "" {
		s.image = images.Component(component)
	}
	return s.pod(component, n), nil
}

// StaticPodFile is the manifest of StaticPod, with the user's patches applied. In a rootless
// control plane the Pod runs as the component's user.
func StaticPodFile(component string, n *node.Node, h Host, p Patches) ([]byte, error) {
	pod, err := StaticPod(component, n, h)
	if err != nil {
		return nil, err
	}
	if IsRootless(n) {
		if err := runAsAccount(pod, h); err != nil {
			return nil, err
		}
	}
	if pod, err = p.PatchPod(pod); err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding the static Pod %s: %w", component, err)
	}
	return data, nil
}

// ComponentContainer returns the container of a static Pod that has the name of the component.
// Patches may add other containers and init containers before or after it.
func ComponentContainer(pod *corev1.Pod, component string) (*corev1.Container, error) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == component {
			return &pod.Spec.Containers[i], nil
		}
	}
	return nil, fmt.Errorf("the static Pod has no container %q", component)
}

// ArgumentValue returns the value of --name=value in the command of the Pod's component. Other
// containers count only if none is named after the component, as a sidecar may have a flag of that
// name too.
func ArgumentValue(pod *corev1.Pod, name string) string {
	containers := pod.Spec.Containers
	if c, err := ComponentContainer(pod, pod.Name); err == nil {
		containers = []corev1.Container{*c}
	}
	for _, c := range containers {
		for _, a := range slices.Concat(c.Command, c.Args) {
			if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return value
			}
		}
	}
	return ""
}

// HostPath returns the path on the node of a file that the Pod's component reads. ok is false if it is
// in no directory or file of the node.
func HostPath(pod *corev1.Pod, file string) (host string, ok bool) {
	c, err := ComponentContainer(pod, pod.Name)
	if err != nil {
		return "", false
	}
	file = path.Clean(file)
	var mount corev1.VolumeMount // the innermost one
	for _, m := range c.VolumeMounts {
		at := path.Clean(m.MountPath)
		if (file == at || strings.HasPrefix(file, strings.TrimSuffix(at, "/")+"/")) && len(at) > len(mount.MountPath) {
			mount, mount.MountPath = m, at
		}
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if mount.Name == "" || i < 0 || pod.Spec.Volumes[i].HostPath == nil {
		return "", false
	}
	return path.Join(pod.Spec.Volumes[i].HostPath.Path, mount.SubPath, strings.TrimPrefix(file, mount.MountPath)), true
}

// CertificatesDir returns the directory on the node with the certificates of kubeadm, by the static Pod of the API server:
// users may have --cert-dir or certificatesDir of their own. Arguments that users have given other files tell nothing, so
// only those count whose files have the names that kubeadm gives them, first the one that users have no reason to
// replace. ok is false if there is none.
func CertificatesDir(apiServer *corev1.Pod) (dir string, ok bool) {
	for _, known := range []struct{ argument, base string }{
		{"kubelet-client-certificate", "apiserver-kubelet-client.crt"},
		{"client-ca-file", "ca.crt"},
	} {
		file := ArgumentValue(apiServer, known.argument)
		if !path.IsAbs(file) || path.Base(file) != known.base {
			continue
		}
		if host, ok := HostPath(apiServer, file); ok {
			file = host
		}
		return path.Dir(file), true
	}
	return "", false
}

func (s componentPod) pod(name string, n *node.Node) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s.cpu)}
	if s.memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(s.memory)
	}
	c := corev1.Container{
		Name:            name,
		Image:           s.image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         append([]string{name}, s.args...),
		Env:             s.env,
		Ports: []corev1.ContainerPort{{Name: probePort, ContainerPort: s.probes.port,
			Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{Requests: requests},
	}
	for _, v := range s.volumes {
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: v.Name, MountPath: v.MountPath, ReadOnly: v.ReadOnly})
	}
	s.probes.addTo(&c, n.Timeouts.ControlPlane)
	var volumes []corev1.Volume
	for _, v := range mergeVolumes(s.volumes) {
		volumes = append(volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: v.HostPath, Type: &v.PathType},
		}})
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Namespace:   metav1.NamespaceSystem,
			Labels:      map[string]string{"component": name, "tier": "control-plane"},
			Annotations: s.annotations,
		},
		Spec: corev1.PodSpec{
			Containers:        []corev1.Container{c},
			Volumes:           volumes,
			HostNetwork:       true,
			PriorityClassName: nodeCritical,
			// of nodeCritical; static Pods do not pass the admission that sets it
			Priority: new(int32(2000001000)),
			SecurityContext: &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
}
