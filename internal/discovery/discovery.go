package discovery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

// Node finds the cluster and completes what is known of this machine with what the cluster
// keeps for its nodes.
func Node(ctx context.Context, e *flow.Env) (*node.Node, error) {
	e = e.Named("discovery")
	j := e.Local.Join
	if j.File != "" {
		return nil, problem.New("", fmt.Errorf("discovery by file (%s) is not possible with this version", j.File),
			"join by token: kubeadm join <host:port> --token <token> --discovery-token-ca-cert-hash <hash>")
	}
	cluster, err := byToken(ctx, e, j, e.Local.Timeouts.Discovery)
	if err != nil {
		return nil, err
	}
	bootstrap, err := pki.Bootstrap(cluster, j.TLSToken)
	if err != nil {
		return nil, err
	}
	credentials, err := bootstrap.Encode()
	if err != nil {
		return nil, err
	}
	n, err := read(ctx, e, change.Identity{Config: credentials})
	if err != nil {
		return nil, err
	}
	if err := bootstrap.RenameCluster(n.Cluster.Name); err != nil {
		return nil, err
	}
	n.Bootstrap, err = bootstrap.Encode()
	return n, err
}

// read gets the cluster's configuration.
func read(ctx context.Context, e *flow.Env, as change.Identity) (*node.Node, error) {
	e.Say("reading the cluster's configuration from ConfigMap %q of namespace %q", manifest.KubeadmConfigMap, "kube-system")
	kept := config.Stored{}
	var found corev1.ConfigMap
	if err := await(ctx, e, as, manifest.KubeadmConfigMap, &found); err != nil {
		return nil, err
	}
	kept.Cluster = found.Data[manifest.KubeadmConfigKey]
	if err := await(ctx, e, as, manifest.KubeletConfigMap, &found); err != nil {
		return nil, err
	}
	kept.Kubelet = stored(found, manifest.KubeletConfigKey)
	proxy, err := optional(ctx, e, as, manifest.KubeProxyConfigMap)
	if err != nil {
		return nil, err
	}
	kept.KubeProxy = stored(proxy, manifest.KubeProxyConfigKey)
	n, warnings, err := config.Joined(e.Local, kept, e.Tool)
	for _, w := range warnings {
		e.Warn("%s", w)
	}
	return n, err
}

func stored(c corev1.ConfigMap, key string) config.StoredComponent {
	return config.StoredComponent{Text: c.Data[key], Generated: manifest.Generated(&c)}
}

// await reads a ConfigMap that must be there. Rights that were given a moment ago may take a
// little to take effect.
func await(ctx context.Context, e *flow.Env, as change.Identity, name string, into *corev1.ConfigMap) error {
	return e.Await(ctx, world.Condition{
		Name:    "ConfigMap " + name + " of namespace kube-system",
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Outside: true,
		Check: func(ctx context.Context, r change.Reader) error {
			err := configMap(ctx, r, as, name, into)
			if apierrors.IsUnauthorized(err) {
				return world.GiveUp(problem.New("", fmt.Errorf("the API server does not accept the bootstrap token (deleted, expired, or without usage %q): %w",
					bootstrapapi.KnownTokenUsages[1], err),
					"get a fresh join command on a control plane: kubeadm token create --print-join-command"))
			}
			return err
		},
	})
}

// optional reads a ConfigMap that a cluster may do without.
func optional(ctx context.Context, e *flow.Env, as change.Identity, name string) (corev1.ConfigMap, error) {
	var c corev1.ConfigMap
	err := configMap(ctx, e.World, as, name, &c)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		e.Warn("ConfigMap %s cannot be read, defaults are assumed: %v", name, err)
		return c, nil
	}
	return c, err
}

func configMap(ctx context.Context, r change.Reader, as change.Identity, name string, into *corev1.ConfigMap) error {
	ref := change.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-system", Name: name, As: as}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	u, err := r.Object(limited, ref)
	if err != nil {
		return err
	}
	*into = corev1.ConfigMap{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}
