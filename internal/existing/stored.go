package existing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// ReadNode returns the desired state of this machine, by what its cluster stores. A target replaces
// the Kubernetes version that the cluster stores. Warnings are about the stored configuration. An
// argument of a rotation of the CAs counts only where its file exists.
func ReadNode(ctx context.Context, r state.Reader, as state.Identity, local node.Local,
	target release.Target) (n *node.Node, warnings []string, err error) {
	stored, err := ReadStoredConfig(ctx, r, as)
	if err != nil {
		return nil, nil, err
	}
	return Complete(ctx, r, local, stored, target)
}

// Complete is ReadNode for a configuration that the cluster is to store, or has stored before.
func Complete(ctx context.Context, r state.Reader, local node.Local, stored config.StoredConfig,
	target release.Target) (n *node.Node, warnings []string, err error) {
	n, warnings, err = config.CompleteUpgrade(local, stored, target)
	if err != nil || local.Role != node.ControlPlane {
		return n, warnings, err
	}
	return n, warnings, dropSigner(ctx, r, n)
}

// CheckUnchanged is an error if the cluster stores another configuration than that by which n was read: a
// command that waited for the lock of the cluster would overwrite a change of another node. The Kubernetes
// version does not count, since the target of an upgrade replaces it.
func CheckUnchanged(ctx context.Context, r state.Reader, as state.Identity, n *node.Node) error {
	target, err := release.ParseTarget(n.Cluster.Version)
	if err != nil {
		return err
	}
	now, _, err := ReadNode(ctx, r, as, n.Local, target)
	if err != nil || config.IsSame(&now.Cluster, &n.Cluster) {
		return err
	}
	fields, err := config.ListChanges(&n.Cluster, &now.Cluster)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range fields {
		if f.Field != "kubernetesVersion" { // which the target may name by a label
			names = append(names, f.Kind+" "+untrusted.Line(f.Field))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return problem.New(fmt.Errorf("the configuration that the cluster stores has been changed meanwhile: %s",
		strings.Join(names, ", ")), "re-run the command")
}

// ReadCluster is ReadNode without the configurations of the kubelet and of kube-proxy, which the
// identity need not be allowed to read. Local of the Env need not be complete. It warns of what is odd
// about the stored configuration.
func ReadCluster(ctx context.Context, e *engine.Env, as state.Identity) (*node.Node, error) {
	document, err := ReadClusterConfiguration(ctx, e.Reader(), as)
	if err != nil {
		return nil, err
	}
	n, warnings, err := config.CompleteMember(e.Local, document, e.Tool)
	for _, w := range warnings {
		e.Warn("%s", untrusted.Line(w))
	}
	return n, err
}

// dropSigner removes the arguments with which kube-controller-manager signs during a rotation of the
// CAs, if this machine does not have the pair that they name: it takes part in the rotation later, or
// has finished before other machines. It signs with ca.crt then.
func dropSigner(ctx context.Context, r state.Reader, n *node.Node) error {
	cert, key := n.Paths.RotationSigner()
	for _, file := range []string{cert, key} {
		if exists, err := state.Exists(ctx, r, file); err != nil || exists {
			return err
		}
	}
	args := &n.Cluster.ControllerManager.Args
	*args = slices.DeleteFunc(slices.Clone(*args), func(a node.Arg) bool {
		return a.Value == cert || a.Value == key
	})
	return nil
}

// ReadStoredConfig reads the configuration that the cluster stores.
func ReadStoredConfig(ctx context.Context, r state.Reader,
	as state.Identity) (stored config.StoredConfig, err error) {
	if stored.Cluster, err = ReadClusterConfiguration(ctx, r, as); err != nil {
		return stored, err
	}
	component := func(name, key string) (config.StoredComponent, error) {
		found, err := ReadConfigMap(ctx, r, as, name)
		if found == nil || err != nil {
			return config.StoredComponent{}, err
		}
		return config.StoredComponent{Text: found.Data[key],
			Generated: manifest.IsGenerated(found)}, nil
	}
	if stored.Kubelet, err = component(manifest.KubeletConfigMap,
		manifest.KubeletConfigKey); err != nil {
		return stored, err
	}
	stored.KubeProxy, err = component(manifest.KubeProxyConfigMap, manifest.KubeProxyConfigKey)
	if apierrors.IsForbidden(err) { // a worker may not read it, and does not need it
		err = nil
	}
	return stored, err
}

// ReadingConfig is what fails if the stored ClusterConfiguration cannot be used, and RecreateConfig the
// remedy if it is lost.
const (
	ReadingConfig  = "reading the cluster's configuration"
	RecreateConfig = "re-create it from the cluster's ClusterConfiguration: " +
		"kubeadm init phase upload-config kubeadm --config FILE"
)

// ReadClusterConfiguration reads the ClusterConfiguration that the cluster stores, as YAML.
func ReadClusterConfiguration(ctx context.Context, r state.Reader, as state.Identity) (string, error) {
	found, err := ReadConfigMap(ctx, r, as, manifest.KubeadmConfigMap)
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		return "", problem.During(ReadingConfig, err, "check the API server: crictl ps "+
			"--name kube-apiserver on its node; or set --kubeconfig to one that uses another API server")
	}
	if err != nil {
		return "", problem.During(ReadingConfig, err)
	}
	if found == nil {
		return "", problem.During(ReadingConfig,
			errors.New("there is no ConfigMap kube-system/kubeadm-config: "+
				"this cluster was not created by kubeadm, or the ConfigMap was deleted"),
			RecreateConfig)
	}
	return found.Data[manifest.KubeadmConfigKey], nil
}

// ReadConfigMap reads a ConfigMap of kube-system; it is nil if there is none.
func ReadConfigMap(ctx context.Context, r state.Reader, as state.Identity,
	name string) (*corev1.ConfigMap, error) {
	u, err := r.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Namespace: metav1.NamespaceSystem, Name: name, As: as})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &corev1.ConfigMap{}
	return c, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c)
}
