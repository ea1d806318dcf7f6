package discovery

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Node finds the cluster and completes what is known of this machine with what the cluster
// keeps for its nodes.
func Node(ctx context.Context, e *flow.Env) (*node.Node, error) {
	e = e.Named("discovery")
	f, err := find(ctx, e)
	if err != nil {
		return nil, err
	}
	n, err := f.visitor.read(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := f.bootstrap.RenameCluster(n.Cluster.Name); err != nil {
		return nil, err
	}
	cluster, err := f.bootstrap.CurrentCluster()
	if err != nil {
		return nil, err
	}
	// It goes into a file that all may read.
	if cluster.CertificateAuthorityData, err = pki.WithoutPrivateKeys(cluster.CertificateAuthorityData); err != nil {
		return nil, fmt.Errorf("reading the discovered CA: %w", err)
	}
	n.Bootstrap, err = f.bootstrap.Encode()
	return n, err
}

// found is a cluster that is believed.
type found struct {
	bootstrap *pki.Kubeconfig // how the kubelet introduces itself there
	visitor   visitor         // as whom its configuration is read
}

func find(ctx context.Context, e *flow.Env) (found, error) {
	j := e.Local.Join
	if j.File != "" {
		return byFile(ctx, e, j)
	}
	cluster, err := byToken(ctx, e, j)
	if err != nil {
		return found{}, err
	}
	bootstrap, err := pki.Bootstrap(cluster, j.TLSToken)
	if err != nil {
		return found{}, err
	}
	v, err := bearer(bootstrap, e.Local)
	return found{bootstrap, v}, err
}

// read gets the cluster's configuration.
func (v visitor) read(ctx context.Context, e *flow.Env) (*node.Node, error) {
	e.Say("reading the cluster's configuration from ConfigMap %q of namespace %q", manifest.KubeadmConfigMap, "kube-system")
	kept := config.Stored{}
	var found corev1.ConfigMap
	if err := v.await(ctx, e, manifest.KubeadmConfigMap, &found); err != nil {
		return nil, err
	}
	kept.Cluster = found.Data[manifest.KubeadmConfigKey]
	if err := v.await(ctx, e, manifest.KubeletConfigMap, &found); err != nil {
		return nil, err
	}
	kept.Kubelet = stored(found, manifest.KubeletConfigKey)
	proxy, err := optional(ctx, e, v.as, manifest.KubeProxyConfigMap)
	if err != nil {
		return nil, err
	}
	kept.KubeProxy = stored(proxy, manifest.KubeProxyConfigKey)
	n, warnings, err := config.Joined(e.Local, kept, e.Tool)
	for _, w := range warnings {
		e.Warn("%s", untrusted.Line(w))
	}
	return n, err
}

func stored(c corev1.ConfigMap, key string) config.StoredComponent {
	return config.StoredComponent{Text: c.Data[key], Generated: manifest.Generated(&c)}
}

// kept names a ConfigMap that the cluster keeps for its nodes.
func kept(name string, as state.Identity) state.Ref {
	return state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-system", Name: name, As: as}
}
