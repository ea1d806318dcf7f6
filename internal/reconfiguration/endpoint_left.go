package reconfiguration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// checkLeft is an error if something may still use the previous endpoint.
func (s *State) checkLeft(ctx context.Context, e *engine.Env, as state.Identity) error {
	all, err := s.ReadProgress(ctx, e.Reader(), as)
	if err != nil {
		return err
	}
	if behind := append(ListBehind(all, true), ListBehind(all, false)...); len(behind) > 0 {
		return problem.New(fmt.Errorf("these nodes may still use the previous endpoint: %s",
			strings.Join(behind, ", ")), "on each of them: kubeadm reconfigure node", lostNodeHint)
	}
	servers, err := ListServers(ctx, e, as)
	if err != nil {
		return err
	}
	info, proxy := servers[0], servers[1]
	if s.Endpoint.LeavesFrom(info) {
		return problem.New(fmt.Errorf("ConfigMap kube-public/cluster-info still leads joining machines to the previous "+
			"endpoint, %s", untrusted.Line(info)), "write it again, along with a token that expires after a day: "+
			"kubeadm init phase bootstrap-token")
	}
	if node.HasHost(s.Endpoint.Added, node.HostOf(proxy)) {
		return problem.New(fmt.Errorf("ConfigMap kube-system/kube-proxy still has the previous endpoint, %s",
			untrusted.Line(proxy)), "change the server in its kubeconfig.conf, and restart the Pods that read it")
	}
	return checkProxyPods(ctx, e, as)
}

// ProxyConfigAnnotation is the annotation of the Pods of kube-proxy with the digest of their configuration.
const ProxyConfigAnnotation = "kubeadm.kubernetes.io/kube-proxy-config"

// ListProxySets returns the DaemonSets whose Pods read the ConfigMap of kube-proxy: that of kubeadm and others, such as
// one for Windows nodes.
func ListProxySets(ctx context.Context, e *engine.Env, as state.Identity) (sets []appsv1.DaemonSet, err error) {
	all, err := e.List(ctx, state.Query{GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), As: as,
		Namespace: metav1.NamespaceSystem})
	if err != nil {
		return nil, fmt.Errorf("looking for the DaemonSets that use the configuration of kube-proxy: %w", err)
	}
	for _, u := range all {
		var set appsv1.DaemonSet
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &set) != nil {
			continue // it is not kube-proxy's
		}
		if slices.ContainsFunc(set.Spec.Template.Spec.Volumes, readsProxyConfig) {
			sets = append(sets, set)
		}
	}
	return sets, nil
}

func readsProxyConfig(v corev1.Volume) bool {
	if v.ConfigMap != nil && v.ConfigMap.Name == manifest.KubeProxyConfigMap {
		return true
	}
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
		return p.ConfigMap != nil && p.ConfigMap.Name == manifest.KubeProxyConfigMap
	})
}

// checkProxyPods is an error if Pods of kube-proxy are older than its configuration: they use the previous endpoint.
func checkProxyPods(ctx context.Context, e *engine.Env, as state.Identity) error {
	sets, err := ListProxySets(ctx, e, as)
	if err != nil {
		return err
	}
	for _, set := range sets {
		digest, isSet := set.Spec.Template.Annotations[ProxyConfigAnnotation]
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if !isSet || err != nil || selector.Empty() { // it is younger than the change, or not valid
			continue
		}
		pods, err := e.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), As: as,
			Namespace: set.Namespace, LabelSelector: selector.String(), Fields: []string{"metadata"}})
		if err != nil {
			return fmt.Errorf("looking for the Pods of DaemonSet %s: %w", untrusted.Line(set.Name), err)
		}
		pods = slices.DeleteFunc(pods, func(u unstructured.Unstructured) bool {
			return u.GetDeletionTimestamp() != nil || u.GetAnnotations()[ProxyConfigAnnotation] == digest
		})
		if len(pods) == 0 {
			continue
		}
		return problem.New(fmt.Errorf("%d Pods of DaemonSet %s have not been replaced since the endpoint of kube-proxy "+
			"changed, such as %s", len(pods), untrusted.Line(set.Name), untrusted.Line(pods[0].GetName())),
			"if the roll-out does not go on, delete them", untrusted.CommandHint("list them",
				"kubectl get pods --output wide --namespace %s --selector", set.Namespace, selector.String()))
	}
	return nil
}

// isCertified reports whether the configuration gives the API server of this node a certificate for a host.
func isCertified(n *node.Node, host string) (bool, error) {
	sans, _, err := n.CertificateNames().SANs(pki.APIServerSANs)
	one, _ := pki.ParseSANs([]string{host})
	return one.String() != "" && one.Without(sans).String() == "", err
}

// CheckUnused is an error if a kubeconfig of this control plane node has a host that the certificate of its API server
// is about to lose.
func CheckUnused(ctx context.Context, e *engine.Env, before, after *node.Node) error {
	if after.Role != node.ControlPlane {
		return nil
	}
	for _, p := range pki.KubeconfigProfiles() {
		file := after.Paths.Kubeconfig(p.File)
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return err
		}
		kubeconfig, err := pki.ParseKubeconfig(data)
		if data == nil || err != nil {
			continue // what cannot be read connects to nothing
		}
		cluster, err := kubeconfig.CurrentCluster()
		if err != nil {
			continue
		}
		u, err := url.Parse(cluster.Server)
		if err != nil {
			continue
		}
		had, failed := isCertified(before, u.Hostname())
		has, err := isCertified(after, u.Hostname())
		if err := errors.Join(failed, err); err != nil {
			return err
		}
		if had && !has {
			return problem.New(fmt.Errorf("%s still connects to %s, which the certificate of the API server is about to lose",
				file, untrusted.Line(cluster.Server)), "set its server to "+after.LocalServerURL()+", restart what reads the "+
				"file, and run this command again")
		}
	}
	return nil
}
