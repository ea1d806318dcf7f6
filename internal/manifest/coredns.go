package manifest

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

const (
	// DNSSelector is the label selector of the cluster DNS Deployment, in kube-system.
	DNSSelector = "k8s-app=kube-dns"
	// DNSReplicas is the number of CoreDNS replicas of a new cluster.
	DNSReplicas = 2

	dnsApp = "kube-dns"
)

// CoreDNS holds all objects of the cluster DNS.
type CoreDNS struct {
	Config     *corev1.ConfigMap
	Access     []state.Object // ClusterRole, ClusterRoleBinding and ServiceAccount
	Deployment *appsv1.Deployment
	Service    *corev1.Service
}

// NewCoreDNS builds CoreDNS with the default Corefile and the given number of replicas.
func NewCoreDNS(n *node.Node, replicas int32, p Patches) (CoreDNS, error) {
	images, err := Images(n)
	if err != nil {
		return CoreDNS{}, err
	}
	deployment, err := patchObject(p, CoreDNSDeployment, dnsDeployment(images.CoreDNS(), replicas))
	if err != nil {
		return CoreDNS{}, err
	}
	address, err := node.DNSAddress(n.Cluster.ServiceSubnet)
	if err != nil {
		return CoreDNS{}, err
	}
	watch := []string{"list", "watch"}
	return CoreDNS{
		Config: configMap(kubeSystem, "coredns",
			map[string]string{CorefileKey: defaultCorefile(n.Cluster.DNSDomain)}),
		Access: []state.Object{
			clusterRole("system:coredns",
				rbacv1.PolicyRule{APIGroups: []string{""},
					Resources: []string{"endpoints", "services", "pods", "namespaces"}, Verbs: watch},
				rbacv1.PolicyRule{APIGroups: []string{discoveryv1.GroupName},
					Resources: []string{"endpointslices"}, Verbs: watch}),
			clusterBinding("system:coredns", "system:coredns", coreDNSAccount),
			newServiceAccount("coredns"),
		},
		Deployment: deployment,
		Service:    dnsService(address),
	}, nil
}

// ManifestObjects lists the objects in the order of --print-manifest.
func (c CoreDNS) ManifestObjects() []state.Object {
	return append([]state.Object{c.Deployment, c.Config, c.Service}, c.Access...)
}

// ReadDNSDeployment returns the number of replicas and the CoreDNS version (the image tag) of the
// Deployment that DNSSelector found. Without a Deployment it returns DNSReplicas and no version.
func ReadDNSDeployment(found []appsv1.Deployment) (replicas int32, version string, err error) {
	switch len(found) {
	case 0:
		return DNSReplicas, "", nil
	case 1:
	default:
		return 0, "", fmt.Errorf(
			"%d Deployments in kube-system have the label %s: delete those that are not the cluster's DNS server", len(found), DNSSelector)
	}
	spec := found[0].Spec
	replicas = 1 // the API server's default
	if spec.Replicas != nil {
		replicas = *spec.Replicas
	}
	if containers := spec.Template.Spec.Containers; len(containers) > 0 {
		image, _, _ := strings.Cut(containers[0].Image, "@")
		_, version, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	}
	return replicas, version, nil
}

func dnsDeployment(image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"k8s-app": dnsApp}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: kubeSystem, Name: "coredns", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(
					intstr.FromInt32(1))},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					PriorityClassName:  clusterCritical,
					ServiceAccountName: "coredns",
					NodeSelector:       map[string]string{corev1.LabelOSStable: "linux"},
					// it cannot use cluster DNS for its own queries
					DNSPolicy: corev1.DNSDefault,
					Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
						PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
							Weight: 100,
							PodAffinityTerm: corev1.PodAffinityTerm{
								TopologyKey: corev1.LabelHostname,
								LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
									{Key: "k8s-app", Operator: metav1.LabelSelectorOpIn,
										Values: []string{dnsApp}},
								}},
							},
						}},
					}},
					Tolerations: []corev1.Toleration{
						{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
						{Key: node.ControlPlaneLabel,
							Effect: corev1.TaintEffectNoSchedule},
					},
					Containers: []corev1.Container{dnsContainer(image)},
					Volumes: []corev1.Volume{{Name: "config-volume",
						VolumeSource: corev1.VolumeSource{
							ConfigMap: &corev1.ConfigMapVolumeSource{
								LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"},
								Items: []corev1.KeyToPath{{Key: CorefileKey,
									Path: CorefileKey}},
							},
						}}},
				},
			},
		},
	}
}

func dnsContainer(image string) corev1.Container {
	return corev1.Container{
		Name:            "coredns",
		Image:           image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            []string{"-conf", "/etc/coredns/Corefile"},
		Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("170Mi")},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("70Mi")},
		},
		Ports: []corev1.ContainerPort{
			{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
			{Name: "dns-tcp", ContainerPort: 53, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: 9153, Protocol: corev1.ProtocolTCP},
			{Name: "liveness-probe", ContainerPort: 8080, Protocol: corev1.ProtocolTCP},
			{Name: "readiness-probe", ContainerPort: 8181, Protocol: corev1.ProtocolTCP},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config-volume", MountPath: "/etc/coredns",
			ReadOnly: true}},
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health",
				Port: intstr.FromString("liveness-probe"), Scheme: corev1.URISchemeHTTP}},
			InitialDelaySeconds: 60, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5,
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready",
				Port: intstr.FromString("readiness-probe"), Scheme: corev1.URISchemeHTTP}},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities: &corev1.Capabilities{
				Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"},
			},
		},
	}
}

func dnsService(address string) *corev1.Service {
	port := func(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, Protocol: protocol,
			TargetPort: intstr.FromInt32(number)}
	}
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: kubeSystem,
			Name:      dnsApp,
			Labels: map[string]string{"k8s-app": dnsApp, "kubernetes.io/cluster-service": "true",
				"kubernetes.io/name": "CoreDNS"},
			Annotations: map[string]string{"prometheus.io/port": "9153",
				"prometheus.io/scrape": "true"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: address,
			Selector:  map[string]string{"k8s-app": dnsApp},
			Ports: []corev1.ServicePort{
				port("dns", 53, corev1.ProtocolUDP), port("dns-tcp", 53, corev1.ProtocolTCP),
				port("metrics", 9153, corev1.ProtocolTCP),
			},
		},
	}
}
