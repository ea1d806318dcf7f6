package discovery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// configReader reads the configuration that a cluster stores for its nodes, with certain
// credentials.
type configReader struct {
	as          state.Identity
	credentials string // what they are: "the bootstrap token"
	reasons     string // why the API server may not accept them, in brackets; optional
	remedy      string
}

// newTokenReader reads with the token in the bootstrap kubeconfig.
func newTokenReader(bootstrap *pki.Kubeconfig, l node.Local) (configReader, error) {
	text, err := bootstrap.Encode()
	return configReader{
		as:          state.Identity{Config: text},
		credentials: "the bootstrap token",
		reasons: fmt.Sprintf(" (it was deleted, has expired, or lacks the %q usage)",
			bootstrapapi.KnownTokenUsages[1]),
		remedy: newJoinCommandHint(l),
	}, err
}

// newJoinCommandHint names the command that creates all that this machine needs to join.
func newJoinCommandHint(l node.Local) string {
	command := "kubeadm token create --print-join-command"
	if l.CertificateKey != "" {
		command += " --upload-certs"
	}
	return "get a new join command on a control plane node: " + command
}

// read returns this machine's configuration as a node of the cluster.
func (c configReader) read(ctx context.Context, e *engine.Env) (*node.Node, error) {
	e.Say("reading the cluster's configuration from ConfigMap %q in namespace %q",
		manifest.KubeadmConfigMap, "kube-system")
	var stored config.StoredConfig
	var found corev1.ConfigMap
	if err := c.awaitConfigMap(ctx, e, manifest.KubeadmConfigMap, &found); err != nil {
		return nil, err
	}
	stored.Cluster = found.Data[manifest.KubeadmConfigKey]
	if err := c.awaitConfigMap(ctx, e, manifest.KubeletConfigMap, &found); err != nil {
		return nil, err
	}
	stored.Kubelet = config.StoredComponent{Text: found.Data[manifest.KubeletConfigKey],
		Generated: manifest.IsGenerated(&found)}
	// a cluster may have no kube-proxy
	proxy, err := ReadObject(ctx, e, configMapRef(manifest.KubeProxyConfigMap, c.as))
	found = corev1.ConfigMap{}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		e.Warn("ConfigMap %s cannot be read, so the defaults are assumed: %v", manifest.KubeProxyConfigMap,
			err)
	case err != nil:
		return nil, err
	default:
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(proxy.Object,
			&found); err != nil {
			return nil, err
		}
	}
	stored.KubeProxy = config.StoredComponent{Text: found.Data[manifest.KubeProxyConfigKey],
		Generated: manifest.IsGenerated(&found)}
	n, warnings, err := config.CompleteJoin(e.Local, stored, e.Tool)
	for _, w := range warnings {
		e.Warn("%s", untrusted.Line(w))
	}
	return n, err
}

// API servers may need a moment until they know a new token, and rights that were just granted.
const (
	unauthorizedGrace = 2 * time.Second
	forbiddenGrace    = 10 * time.Second
)

// bootstrapTokenGroup may read the configuration that a cluster stores for its nodes.
const bootstrapTokenGroup = "system:bootstrappers:kubeadm:default-node-token"

// awaitConfigMap reads a ConfigMap that must exist.
func (c configReader) awaitConfigMap(ctx context.Context, e *engine.Env, name string,
	into *corev1.ConfigMap) error {
	begun := e.World.Now()
	return awaitServer(ctx, e, world.Condition{
		Name:    "ConfigMap " + name + " in namespace kube-system",
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			err := readConfigMap(ctx, r, configMapRef(name, c.as), into)
			since := r.Now().Sub(begun)
			switch {
			case apierrors.IsUnauthorized(err) && since >= unauthorizedGrace:
				err = fmt.Errorf("the API server does not accept %s%s: %w", c.credentials,
					c.reasons, err)
			case apierrors.IsForbidden(err) && since >= forbiddenGrace:
				err = fmt.Errorf("%s may not read ConfigMap %s, although members of group %s may: %w",
					c.credentials, name, bootstrapTokenGroup, err)
			default:
				return err
			}
			p := problem.New(err, c.remedy)
			p.Alone = true // the hints of the errors in it are about other commands
			return world.Permanent(p)
		},
	})
}

func configMapRef(name string, as state.Identity) state.Ref {
	return state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-system",
		Name: name, As: as}
}

func readConfigMap(ctx context.Context, r state.Reader, ref state.Ref,
	into *corev1.ConfigMap) error {
	if world.RetryLimit(ctx) == 0 { // the caller retries
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	u, err := r.Object(ctx, ref)
	if err != nil {
		return err
	}
	*into = corev1.ConfigMap{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}
