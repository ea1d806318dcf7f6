// Package uploadconfig uploads the configuration that all nodes of the cluster share.
package uploadconfig

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Phase uploads the configuration of the cluster and of its kubelets.
var Phase = newPhase(nil, Flags...)

// Flags are the flags of the phase and its children.
var Flags = []flag.Name{flag.Config, flag.CRISocket, flag.DryRun, flag.Kubeconfig}

// Upgrade is the same phase in an upgrade. It does not hold the lock of the cluster any more, so another node
// may have changed the configuration since.
var Upgrade = newPhase(existing.CheckUnchanged, flag.Config, flag.DryRun, flag.Kubeconfig)

// Reconfigure is the same phase in a change of the configuration, which holds the lock.
var Reconfigure = newPhase(nil)

// check finds out whether the configuration may be uploaded; nil for no check.
type check func(ctx context.Context, r state.Reader, as state.Identity, n *node.Node) error

func newPhase(mayUpload check, flags ...flag.Name) engine.Phase {
	checked := func(upload func(context.Context, *engine.Env) error) func(context.Context, *engine.Env) error {
		if mayUpload == nil {
			return upload
		}
		return func(ctx context.Context, e *engine.Env) error {
			n, as, err := e.Cluster(ctx)
			if err != nil {
				return err
			}
			if err := mayUpload(ctx, e.Reader(), as, n); err != nil {
				return err
			}
			return upload(ctx, e)
		}
	}
	return engine.Phase{
		Name:     "upload-config",
		Aliases:  []string{"uploadconfig"},
		Short:    "Store the configuration in the cluster",
		Long:     "Store the cluster configuration and the kubelet configuration in ConfigMaps that joining nodes read.",
		Parallel: true,
		Phases: []engine.Phase{
			{Name: "kubeadm", Short: "Store the cluster's configuration in a ConfigMap",
				Flags: flags, Run: checked(uploadKubeadmConfig)},
			{Name: "kubelet", Short: "Store the kubelets' configuration in a ConfigMap",
				Flags: flags, Run: checked(uploadKubeletConfig)},
		},
	}
}

func uploadKubeadmConfig(ctx context.Context, e *engine.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	config := manifest.KubeadmConfig(n)
	e.Say("uploading the configuration to ConfigMap %q in namespace %q", config.Name,
		config.Namespace)
	changes := []change.Change{change.MutateObject{Object: config, As: as,
		Mutate: func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, config.Data[manifest.KubeadmConfigKey],
				"data", manifest.KubeadmConfigKey)
		}}}
	return e.DoAll(ctx, append(changes,
		change.ApplyAll(as, manifest.KubeadmConfigAccess.Objects()...)...)...)
}

func uploadKubeletConfig(ctx context.Context, e *engine.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	config, err := manifest.KubeletConfig(n)
	if err != nil {
		return err
	}
	e.Say("uploading the kubelets' configuration to ConfigMap %q in namespace %q", config.Name,
		config.Namespace)
	objects := append(manifest.KubeletConfigAccess.Objects(), config)
	return e.DoAll(ctx, change.ApplyAll(as, objects...)...)
}
