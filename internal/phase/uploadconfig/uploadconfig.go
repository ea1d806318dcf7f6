// Package uploadconfig uploads the configuration that all nodes of the cluster share.
package uploadconfig

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
)

// Phase uploads the configuration of the cluster and of its kubelets.
var Phase = newPhase(Flags...)

// Flags are the flags of the phase and its children.
var Flags = []flag.Name{flag.Config, flag.CRISocket, flag.DryRun, flag.Kubeconfig}

// Upgrade is the same phase in an upgrade.
var Upgrade = newPhase(flag.Config, flag.DryRun, flag.Kubeconfig)

func newPhase(flags ...flag.Name) engine.Phase {
	return engine.Phase{
		Name:     "upload-config",
		Aliases:  []string{"uploadconfig"},
		Short:    "Store the configuration in the cluster",
		Long:     "Store the cluster configuration and the kubelet configuration in ConfigMaps that joining nodes read.",
		Parallel: true,
		Phases: []engine.Phase{
			{Name: "kubeadm", Short: "Store the cluster's configuration in a ConfigMap",
				Flags: flags, Run: uploadKubeadmConfig},
			{Name: "kubelet", Short: "Store the kubelets' configuration in a ConfigMap",
				Flags: flags, Run: uploadKubeletConfig},
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
