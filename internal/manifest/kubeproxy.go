package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeconfigv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Name of the ConfigMap of kube-proxy, in kube-system, and its keys.
const (
	KubeProxyConfigMap = "kube-proxy"
	KubeProxyConfigKey = "config.conf"

	kubeProxyKubeconfigKey = "kubeconfig.conf"
)

const (
	kubeProxy        = "kube-proxy" // name of all its objects
	kubeProxyDir     = "/var/lib/kube-proxy"
	serviceAccount   = "/var/run/secrets/kubernetes.io/serviceaccount"
	xtablesLock      = "/run/xtables.lock"
	kernelModulesDir = "/lib/modules"
)

// KubeProxy holds all objects of kube-proxy.
type KubeProxy struct {
	Config    *corev1.ConfigMap
	DaemonSet *appsv1.DaemonSet
	Access    []state.Object // ServiceAccount, ClusterRoleBinding, Role and RoleBinding
}

// NewKubeProxy builds kube-proxy. It gets the proxy variables of the host's environment.
func NewKubeProxy(n *node.Node, h Host, p Patches) (KubeProxy, error) {
	images, err := Images(n)
	if err != nil {
		return KubeProxy{}, err
	}
	config, err := kubeProxyConfig(n)
	if err != nil {
		return KubeProxy{}, err
	}
	set, err := patchObject(p, KubeProxyDaemonSet,
		kubeProxyDaemonSet(images.Component(release.Proxy)))
	if err != nil {
		return KubeProxy{}, err
	}
	containers := set.Spec.Template.Spec.Containers
	for i := range containers {
		c := &containers[i]
		if c.Name != kubeProxy {
			continue
		}
		for _, v := range mergeEnv(h.proxyEnv()) {
			patched := func(e corev1.EnvVar) bool { return e.Name == v.Name }
			if !slices.ContainsFunc(c.Env, patched) {
				c.Env = append(c.Env, v)
			}
		}
	}
	access := append([]state.Object{
		newServiceAccount(kubeProxy),
		clusterBinding("kubeadm:node-proxier", "system:node-proxier", kubeProxyAccount),
	}, kubeProxyConfigAccess.Objects()...)
	return KubeProxy{Config: config, DaemonSet: set, Access: access}, nil
}

// Objects lists the objects in the order in which they are created.
func (k KubeProxy) Objects() []state.Object {
	return append([]state.Object{k.Config, k.DaemonSet}, k.Access...)
}

// ConfigHash is the digest of the configuration.
func (k KubeProxy) ConfigHash() string { return dataHash(k.Config) }

// ManifestObjects lists the objects in the order of --print-manifest, without the annotation of a
// generated configuration: the user may edit it.
func (k KubeProxy) ManifestObjects() []state.Object {
	config := k.Config.DeepCopy()
	config.Annotations = nil
	return append(k.Access, config, k.DaemonSet)
}

func kubeProxyConfig(n *node.Node) (*corev1.ConfigMap, error) {
	config := n.Cluster.KubeProxy.Config.DeepCopy()
	config.TypeMeta = metav1.TypeMeta{APIVersion: proxyconfig.SchemeGroupVersion.String(),
		Kind: "KubeProxyConfiguration"}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of kube-proxy: %w", err)
	}
	// The kubeconfig contains the server's URL, since kube-proxy cannot use the kubernetes Service,
	// which it implements itself. CA and token come from the ServiceAccount.
	const name = "default"
	kubeconfig, err := yaml.Marshal(kubeconfigv1.Config{
		Clusters: []kubeconfigv1.NamedCluster{{Name: name, Cluster: kubeconfigv1.Cluster{
			Server: cmp.Or(n.Cluster.KubeProxy.Server, n.ServerURL()), CertificateAuthority: serviceAccount + "/ca.crt",
		}}},
		AuthInfos: []kubeconfigv1.NamedAuthInfo{{Name: name, AuthInfo: kubeconfigv1.AuthInfo{
			TokenFile: serviceAccount + "/token",
		}}},
		Contexts: []kubeconfigv1.NamedContext{{Name: name, Context: kubeconfigv1.Context{
			Cluster: name, AuthInfo: name, Namespace: metav1.NamespaceDefault,
		}}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig of kube-proxy: %w", err)
	}
	c := configMap(kubeSystem, KubeProxyConfigMap, map[string]string{
		KubeProxyConfigKey: strings.TrimSuffix(string(text), "\n"),
		kubeProxyKubeconfigKey: "apiVersion: v1\nkind: Config\n" +
			strings.TrimSuffix(string(kubeconfig), "\n"),
	})
	if n.Cluster.KubeProxy.Generated {
		c.Annotations = map[string]string{hashAnnotation: dataHash(c)}
	}
	c.Labels = map[string]string{"app": kubeProxy}
	return c, nil
}

func kubeProxyDaemonSet(image string) *appsv1.DaemonSet {
	labels := map[string]string{"k8s-app": kubeProxy}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: kubeSystem, Name: kubeProxy, Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					PriorityClassName:  nodeCritical,
					HostNetwork:        true,
					ServiceAccountName: kubeProxy,
					NodeSelector:       map[string]string{corev1.LabelOSStable: "linux"},
					Tolerations:        []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{
						Name:            kubeProxy,
						Image:           image,
						ImagePullPolicy: corev1.PullIfNotPresent,
						Command: []string{
							"/usr/local/bin/kube-proxy",
							"--config=" + kubeProxyDir + "/" + KubeProxyConfigKey,
							"--hostname-override=$(NODE_NAME)",
						},
						SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
						Env: []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{
							FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
						}}},
						VolumeMounts: []corev1.VolumeMount{
							{Name: kubeProxy, MountPath: kubeProxyDir},
							{Name: "xtables-lock", MountPath: xtablesLock},
							{Name: "lib-modules", MountPath: kernelModulesDir, ReadOnly: true},
						},
					}},
					Volumes: []corev1.Volume{
						{Name: kubeProxy, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: KubeProxyConfigMap},
						}}},
						{Name: "xtables-lock",
							VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
								Path: xtablesLock, Type: new(corev1.HostPathFileOrCreate),
							}}},
						{Name: "lib-modules",
							VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: kernelModulesDir}}},
					},
				},
			},
		},
	}
}
