package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kubeadm/internal/certstore"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/renewal"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/upgrade"
)

// Upgrade replaces the static Pods of this control plane node by those of another version, as one
// change: at the end all of them run, or the previous ones run again.
var Upgrade = engine.Phase{
	Name:  "control-plane",
	Short: "Upgrade the static Pods of this control plane node",
	Long: "Replace the static Pods of etcd and the control plane components, one at a time. If one " +
		"of them does not become healthy, the previous manifests are restored.",
	Flags: []flag.Name{flag.CertificateRenewal, flag.Config, flag.DryRun, flag.EtcdUpgrade,
		flag.Kubeconfig, flag.Patches},
	When: isUpgradedControlPlane,
	Run:  upgradeStaticPods,
}

func isUpgradedControlPlane(n *node.Node) (bool, string) {
	return n.Role == node.ControlPlane, "this machine is not a control plane node"
}

func upgradeStaticPods(ctx context.Context, e *engine.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	wanted, err := renderWanted(ctx, e, n)
	if err != nil {
		return err
	}
	shared := as
	shared.Server = "" // that of the kubeconfig: often a load balancer
	lock := clusterlock.Lock{
		Node: n.Name, Purpose: "upgrading its control plane to " + n.Cluster.Version,
		As: []state.Identity{as, shared},
	}
	return lock.Hold(ctx, e, func(ctx context.Context, e *engine.Env) error {
		// Another node may have changed it, or begun to get another address or name, while this one waited for the lock.
		if err := existing.CheckNodeChanges(ctx, e.Reader(), as, nil); err != nil {
			return err
		}
		if err := existing.CheckUnchanged(ctx, e.Reader(), as, n); err != nil {
			return err
		}
		replacement := staticpod.Replacement{Node: n, As: as,
			Prepare: func(ctx context.Context, component string) error {
				return prepareComponent(ctx, e, n, component)
			}}
		if _, err := replacement.Replace(ctx, e, wanted...); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return errors.Join(err, staticpod.EndFailedUpgrade(ctx, e, n))
		}
		return renewCertificates(ctx, e, n, "admin.conf", "super-admin.conf")
	})
}

// renderWanted returns the manifests by which the components are to run.
func renderWanted(ctx context.Context, e *engine.Env, n *node.Node) ([]staticpod.Manifest, error) {
	if err := e.Do(ctx, manifest.AccountChanges(n)...); err != nil {
		return nil, err
	}
	var wanted []staticpod.Manifest
	for _, component := range staticpod.Components(n) {
		if component == manifest.Etcd {
			why, err := staticpod.WhyEtcdStays(ctx, e, n, upgrade.IntentOf(e).EtcdUpgrade)
			if err != nil {
				return nil, err
			}
			if why != "" {
				say := e.Warn
				if !upgrade.IntentOf(e).EtcdUpgrade { // as the user wants
					say = e.Say
				}
				say("etcd is not upgraded: %s", why)
				continue
			}
		}
		m, err := staticpod.RenderPresent(ctx, e, n, component)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, m)
	}
	return wanted, nil
}

// prepareComponent is done before the manifest of a component is replaced: a snapshot of etcd, and
// new certificates.
func prepareComponent(ctx context.Context, e *engine.Env, n *node.Node, component string) error {
	if err := e.Do(ctx, staticpod.BeginUpgrade(n.Paths, n.Cluster.Version)); err != nil {
		return err
	}
	if component == manifest.Etcd {
		if err := staticpod.PrepareEtcd(ctx, e, n); err != nil {
			return err
		}
	}
	if err := renewCertificates(ctx, e, n, certificatesOf(component)...); err != nil {
		return err
	}
	return staticpod.SetOwners(ctx, e, n, component)
}

// certificatesOf names the certificates that a component reads when it starts, as upstream's
// kubeadm renews them.
func certificatesOf(component string) []string {
	return map[string][]string{
		manifest.Etcd: {pki.EtcdServer, pki.EtcdPeer, pki.EtcdHealthcheckClient},
		release.APIServer: {"apiserver", "apiserver-kubelet-client", "front-proxy-client",
			"apiserver-etcd-client"},
		release.ControllerManager: {"controller-manager.conf"},
		release.Scheduler:         {"scheduler.conf"},
	}[component]
}

// renewCertificates renews the certificates of those names that this node has, if the user wants
// that.
func renewCertificates(ctx context.Context, e *engine.Env, n *node.Node, names ...string) error {
	if !upgrade.IntentOf(e).CertificateRenewal {
		return nil
	}
	localEtcd, _ := node.HasLocalEtcd(n)
	for _, c := range pki.Renewables() {
		if !slices.Contains(names, c.Name) || c.LocalEtcdOnly() && !localEtcd {
			continue
		}
		exists, err := state.Exists(ctx, e.World, certstore.RenewablePath(n.Paths, c))
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		if err := renewal.Renew(ctx, e, c); err != nil {
			return fmt.Errorf("renewing certificate %s: %w", c.Name, err)
		}
	}
	return nil
}
