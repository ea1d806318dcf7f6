package addon

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

func deployCoreDNS(ctx context.Context, e *engine.Env) error { return deployCoreDNSWith(ctx, e, false) }

// deployCoreDNSWith deploys CoreDNS, on request with the Corefile as it is: one that the user has just set.
func deployCoreDNSWith(ctx context.Context, e *engine.Env, keepsCorefile bool) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	replicas, version, err := findDeployedDNS(ctx, e, as)
	if err != nil {
		return err
	}
	_, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	objects, err := manifest.NewCoreDNS(n, replicas, patches)
	if err != nil {
		return err
	}
	plan, err := planCorefile(ctx, e, n, state.RefOf(objects.Config, as), version)
	if err != nil {
		return err
	}
	if keepsCorefile {
		plan.KeepConfig, plan.Migrates, plan.KeepDeployment, plan.Warning = true, false, false, ""
	}
	if plan.Warning != "" {
		e.Warn("%s", plan.Warning)
	}
	e.Say("deploying CoreDNS")
	return applyCoreDNS(ctx, e, as, objects, plan)
}

// applyCoreDNS applies the objects. A running CoreDNS of an old version uses a copy of the old
// Corefile until it is replaced.
func applyCoreDNS(ctx context.Context, e *engine.Env, as state.Identity, objects manifest.CoreDNS,
	plan manifest.CorefilePlan) error {
	if err := e.Do(ctx, change.ApplyObject{Object: plan.Config, As: as,
		Keep: plan.KeepConfig}); err != nil {
		return err
	}
	if plan.Migrates {
		backup := change.MutateObject{Object: objects.Deployment, As: as,
			Mutate: manifest.UseBackupCorefile}
		if err := e.Do(ctx, backup); err != nil {
			return err
		}
	}
	rest := change.ApplyAll(as, append(objects.Access, objects.Service)...)
	deployment := change.ApplyObject{Object: objects.Deployment, As: as, Keep: plan.KeepDeployment}
	return e.DoAll(ctx, append(rest, deployment)...)
}

// findDeployedDNS returns the number of replicas and the version of CoreDNS in the cluster.
func findDeployedDNS(ctx context.Context, e *engine.Env, as state.Identity) (int32, string, error) {
	all, err := e.List(ctx, state.Query{
		GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Namespace: "kube-system",
		LabelSelector: manifest.DNSSelector, As: as,
	})
	if err != nil {
		return 0, "", fmt.Errorf("listing the Deployments of the cluster's DNS server: %w", err)
	}
	var found []appsv1.Deployment
	for _, u := range all {
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
			return 0, "", fmt.Errorf("reading Deployment %s: %w", u.GetName(), err)
		}
		found = append(found, d)
	}
	return manifest.ReadDNSDeployment(found)
}

func planCorefile(ctx context.Context, e *engine.Env, n *node.Node, ref state.Ref,
	version string) (manifest.CorefilePlan, error) {
	u, err := e.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		return manifest.PlanCorefile(n, nil, version)
	}
	if err != nil {
		return manifest.CorefilePlan{}, err
	}
	var config corev1.ConfigMap
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &config); err != nil {
		return manifest.CorefilePlan{}, fmt.Errorf("reading %s: %w", ref, err)
	}
	data := config.Data
	if data == nil {
		data = map[string]string{}
	}
	return manifest.PlanCorefile(n, data, version)
}
