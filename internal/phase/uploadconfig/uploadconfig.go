// Package uploadconfig keeps in the cluster what all its nodes agree on.
package uploadconfig

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
)

// Phase writes the cluster's and the kubelets' configuration.
var Phase = flow.Phase{
	Name:     "upload-config",
	Aliases:  []string{"uploadconfig"},
	Short:    "Keep the configuration in the cluster",
	Long:     "Keep the cluster's configuration and that of its kubelets in ConfigMaps, where nodes that join find them.",
	Parallel: true,
	Phases: []flow.Phase{
		{Name: "kubeadm", Short: "Keep the cluster's configuration in a ConfigMap", Flags: Flags, Run: uploadKubeadmConfig},
		{Name: "kubelet", Short: "Keep the kubelets' configuration in a ConfigMap", Flags: Flags, Run: uploadKubeletConfig},
	},
}

// Flags are the flags of the phase and its children.
var Flags = []flag.Name{flag.Config, flag.CRISocket, flag.DryRun, flag.Kubeconfig}

func uploadKubeadmConfig(ctx context.Context, e *flow.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	made := manifest.KubeadmConfig(n)
	e.Say("keeping the configuration in ConfigMap %q of namespace %q", made.Name, made.Namespace)
	changes := []change.Change{change.MutateObject{Object: made, As: as, Mutate: func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, made.Data[manifest.KubeadmConfigKey], "data", manifest.KubeadmConfigKey)
	}}}
	return e.DoAll(ctx, append(changes, change.ApplyAll(as, manifest.KubeadmConfigAccess()...)...)...)
}

func uploadKubeletConfig(ctx context.Context, e *flow.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	made, err := manifest.KubeletConfig(n)
	if err != nil {
		return err
	}
	e.Say("keeping the kubelets' configuration in ConfigMap %q of namespace %q", made.Name, made.Namespace)
	return e.DoAll(ctx, change.ApplyAll(as, append(manifest.KubeletConfigAccess(), made)...)...)
}
