package check

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/renewal"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/world"
)

// UpgradeApply checks whether the cluster and this control plane can be upgraded, asks the user to
// confirm, and pulls the images.
var UpgradeApply = engine.Phase{
	Name:  "preflight",
	Short: "Check the cluster and this machine, and pull images",
	Long: "Check whether the cluster can be upgraded to the given version, ask for confirmation, " +
		"and pull the images of the new version.",
	Flags: []flag.Name{flag.AllowExperimentalUpgrades, flag.AllowRCUpgrades, flag.Config,
		flag.DryRun, flag.FailOnManualChanges, flag.Force, flag.IgnorePreflightErrors,
		flag.Kubeconfig, flag.Yes},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		e.Say("checking the cluster and this machine")
		if err := checkMachine(ctx, e, n, preflight.Upgrade(n)); err != nil {
			return err
		}
		if err := checkNodeChanges(ctx, e, as); err != nil {
			return err
		}
		cluster, err := readCluster(ctx, e, as, upgrade.ReadCluster)
		if err != nil {
			return err
		}
		target, err := release.ParseTarget(n.Cluster.Version)
		if err != nil {
			return err
		}
		// The rules come before the health of the cluster: a wrong version is the user's first
		// mistake to correct.
		if err := checkSkew(e, cluster, target); err != nil {
			return err
		}
		if err := e.Await(ctx, cluster.Leaders(as)); err != nil && ctx.Err() != nil {
			return err // the checks report what is wrong
		}
		health := cluster.Checks(as, n.Paths, cluster.CoreDNSTag(target))
		if components := replacedComponents(e, n); components[0] == manifest.Etcd {
			health = append(health, upgrade.StaticPodManifests(n.Paths, components[:1]))
		}
		if err := runChecks(ctx, e, slices.Concat(health, preflight.EtcdRestart(n))); err != nil {
			return err
		}
		if err := reportManualChanges(ctx, e, n, as); err != nil {
			return err
		}
		if err := checkRenewals(ctx, e); err != nil {
			return err
		}
		if ask := upgrade.IntentOf(e).Ask; ask != nil {
			if err := ask(ctx); err != nil {
				return err
			}
		}
		return pullUpgradeImages(ctx, e, n)
	},
}

// UpgradeNode checks whether this node can be upgraded to the version of its cluster, and pulls the
// images of a control plane.
var UpgradeNode = engine.Phase{
	Name:  "preflight",
	Short: "Check this machine and, if it is a control plane node, pull images",
	Flags: []flag.Name{flag.Config, flag.FailOnManualChanges, flag.IgnorePreflightErrors},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		e.Say("checking this machine")
		if err := checkMachine(ctx, e, n, preflight.Upgrade(n)); err != nil {
			return err
		}
		if n.Role != node.ControlPlane {
			return nil
		}
		if err := checkNodeChanges(ctx, e, as); err != nil {
			return err
		}
		if err := checkUpgradeOrder(ctx, e, n, as); err != nil {
			return err
		}
		if err := runChecks(ctx, e, append(preflight.EtcdRestart(n),
			upgrade.StaticPodManifests(n.Paths, replacedComponents(e, n)))); err != nil {
			return err
		}
		if err := reportManualChanges(ctx, e, n, as); err != nil {
			return err
		}
		if err := checkRenewals(ctx, e); err != nil {
			return err
		}
		return pullUpgradeImages(ctx, e, n)
	},
}

// pullUpgradeImages pulls the images of an upgrade, without that of an etcd which is not replaced.
func pullUpgradeImages(ctx context.Context, e *engine.Env, n *node.Node) error {
	if local, _ := node.HasLocalEtcd(n); !local {
		return pullImages(ctx, e, n)
	}
	why, err := staticpod.WhyEtcdStays(ctx, e, n, upgrade.IntentOf(e).EtcdUpgrade)
	if err != nil {
		return err
	}
	if why == "" {
		return pullImages(ctx, e, n)
	}
	images, err := manifest.Images(n)
	if err != nil {
		return err
	}
	return pullImages(ctx, e, n, images.EtcdImage())
}

// replacedComponents are the components whose manifests the upgrade replaces; etcd is the first.
func replacedComponents(e *engine.Env, n *node.Node) []string {
	components := staticpod.Components(n)
	if components[0] == manifest.Etcd && !upgrade.IntentOf(e).EtcdUpgrade {
		return components[1:]
	}
	return components
}

// checkRenewals is an error if a certificate cannot be renewed. The upgrade renews the last ones
// after the components are replaced, and would stop halfway.
func checkRenewals(ctx context.Context, e *engine.Env) error {
	if !upgrade.IntentOf(e).CertificateRenewal {
		return nil
	}
	for _, c := range pki.Renewables() {
		// The API server's client certificate for etcd is renewed with the API server.
		if c.LocalEtcdOnly() && !upgrade.IntentOf(e).EtcdUpgrade && c.Name != "apiserver-etcd-client" {
			continue
		}
		if err := renewal.Check(ctx, e, c); err != nil {
			return problem.During(fmt.Sprintf("certificate %s cannot be renewed", c.Name), err,
				"to upgrade without renewing certificates: --certificate-renewal=false")
		}
	}
	return nil
}

// checkMachine runs the checks of this machine, and tries the patches before anything is changed.
func checkMachine(ctx context.Context, e *engine.Env, n *node.Node, checks []preflight.Check) error {
	warnOfUnknownNames(e)
	if err := checkComplete(ctx, e, n); err != nil {
		return err
	}
	if err := runChecks(ctx, e, checks); err != nil {
		return err
	}
	if err := checkPatchFiles(ctx, e); err != nil {
		return err
	}
	return tryPatches(ctx, e, n)
}

// mirrorPodTimeout is how long a kubelet may take to create the Pod of a changed manifest.
const mirrorPodTimeout = 30 * time.Second

// readCluster reads what runs in the cluster with one of the functions of package upgrade that do so.
func readCluster(ctx context.Context, e *engine.Env, as state.Identity,
	read func(context.Context, state.Reader, state.Identity) (*upgrade.Cluster, []string, error)) (*upgrade.Cluster, error) {
	cluster, warnings, err := read(ctx, e.Reader(), as)
	if errors.Is(err, upgrade.ErrNoAPIServerPod) {
		missing := err
		failed := e.Await(ctx, world.Condition{
			Name: "a Pod of kube-apiserver", Timeout: mirrorPodTimeout, External: true, MaxPause: world.LongPause,
			Check: func(waitCtx context.Context, _ state.Reader) error {
				cluster, warnings, err = read(waitCtx, e.Reader(), as)
				if errors.Is(err, upgrade.ErrNoAPIServerPod) || waitCtx.Err() != nil {
					return err
				}
				return nil
			},
		})
		switch {
		case failed != nil && ctx.Err() != nil:
			return nil, failed
		case failed != nil:
			err = missing // it tells more
		}
	}
	for _, text := range warnings {
		e.Warn("%s", text)
	}
	return cluster, err
}

// checkSkew is an error if the version skew policy forbids the upgrade. --force makes warnings of
// rules that are not mandatory.
func checkSkew(e *engine.Env, cluster *upgrade.Cluster, target release.Target) error {
	e.Say("upgrading the control plane from v%s to %s with kubeadm %s", cluster.Version, target,
		e.Tool)
	violations := upgrade.Skew{
		Target: target, Cluster: cluster.Version, Tool: e.Tool, Kubelets: cluster.Kubelets,
		APIServers: cluster.ControlPlane[release.APIServer],
		Choice: upgrade.Choice{AllowExperimental: upgrade.IntentOf(e).AllowExperimental,
			AllowRC: upgrade.IntentOf(e).AllowRC},
	}.Violations()
	var failed []string
	isMandatory := false
	for _, v := range violations {
		if !v.Mandatory && upgrade.IntentOf(e).Force {
			e.Warn("%s; continuing, as --force is set", v.Text)
			continue
		}
		isMandatory = isMandatory || v.Mandatory
		failed = append(failed, v.Text)
	}
	if len(failed) == 0 {
		return nil
	}
	var hints []string
	if !isMandatory {
		hints = append(hints, "to upgrade anyway, add --force")
	}
	err := errors.New(strings.Join(failed, "; "))
	return problem.New(&upgrade.SkewError{Cluster: cluster, Target: target, Err: err}, hints...)
}

// checkUpgradeOrder is an error on a control plane node that must not be upgraded yet: "upgrade
// apply" has to raise the version of the cluster first.
func checkUpgradeOrder(ctx context.Context, e *engine.Env, n *node.Node,
	as state.Identity) error {
	cluster, err := readCluster(ctx, e, as, upgrade.ReadControlPlane)
	if err != nil {
		return err
	}
	target, err := release.ParseTarget(n.Cluster.Version)
	if err != nil {
		return err
	}
	if err := e.Tool.CheckTarget(target); err != nil {
		return problem.New(err, fmt.Sprintf("install kubeadm %s on this node first", target))
	}
	if cluster.Version.LessThan(target.Version()) {
		return problem.New(fmt.Errorf("the cluster stores Kubernetes %s, but no API server has "+
			"that version: \"kubeadm upgrade apply\" did not finish", target),
			fmt.Sprintf("on one control plane node: kubeadm upgrade apply %s; then run "+
				"\"kubeadm upgrade node\" on the others", target))
	}
	if e.Local.IgnoredChecks.Has(upgradeOrder) {
		return nil
	}
	if err := checkNewerThanStored(ctx, e, n, cluster); err != nil {
		return err
	}
	own, found := cluster.APIServerOf(n.Name)
	if !found {
		e.Warn("the Pod of this node's API server was not found, so its version is not checked")
		return nil
	}
	switch {
	case own.Minor()+1 < target.Minor():
		return problem.New(fmt.Errorf("the API server of this node, v%s, is more than one minor "+
			"version older than the cluster, %s: a control plane node is upgraded one minor version at a "+
			"time", own, target),
			"remove this node and join it again: kubeadm reset, then kubeadm join --control-plane")
	case !own.EqualTo(target.Version()) || e.Tool.Version().Minor() <= target.Minor() ||
		cluster.HasOlderComponent(n.Name, target.Version()):
		return nil
	}
	resumes, err := staticpod.IsUpgradeUnfinished(ctx, e.World, n.Paths, n.Cluster.Version)
	if err != nil || resumes {
		return err
	}
	return problem.New(fmt.Errorf("there is nothing to upgrade to: the cluster stores "+
		"Kubernetes %s, which this node already runs", target),
		fmt.Sprintf("on one control plane node first: kubeadm upgrade apply %s", e.Tool),
		"to upgrade to this version anyway, add --ignore-preflight-errors="+upgradeOrder)
}

// checkNewerThanStored is an error if the upgrade would undo an "upgrade apply" that was interrupted: it stores the version of
// the cluster after it has replaced the static Pods of its node. After a downgrade of the cluster, the API servers of other
// nodes are newer too, but one of them runs the stored version, and this node has no record of an upgrade.
func checkNewerThanStored(ctx context.Context, e *engine.Env, n *node.Node, cluster *upgrade.Cluster) error {
	stored, err := version.ParseSemantic(n.Cluster.Version)
	if err != nil {
		return err
	}
	own, err := upgrade.PresentVersion(ctx, e.World, n.Paths)
	if err != nil || own == nil || !own.GreaterThan(stored) {
		return err
	}
	recorded, err := staticpod.UnfinishedUpgrade(ctx, e.World, n.Paths)
	if err != nil {
		return err
	}
	why := "\"kubeadm upgrade apply\" did not finish"
	interrupted, err := version.ParseSemantic(recorded)
	if err != nil || !interrupted.GreaterThan(stored) {
		if cluster.RunsAPIServer(stored) {
			return nil
		}
		why, interrupted = "no API server has that version", own
	}
	return problem.New(fmt.Errorf("the API server of this node runs v%s, but the cluster stores Kubernetes v%s: %s",
		untrusted.Line(own.String()), stored, why), upgrade.ApplyHint("on this node", interrupted),
		fmt.Sprintf("to replace it with v%s anyway, add --ignore-preflight-errors=%s", stored, upgradeOrder))
}

// upgradeOrder is the name of the check whether "upgrade apply" came first.
const upgradeOrder = "UpgradeOrder"

// reportManualChanges shows how static Pod manifests differ from what kubeadm writes for the
// present version. The upgrade replaces them and keeps a backup; with FailOnEdits they are an
// error.
func reportManualChanges(ctx context.Context, e *engine.Env, n *node.Node,
	as state.Identity) error {
	present, _, err := existing.ReadNode(ctx, e.Reader(), as, n.Local, release.Target{})
	if err != nil {
		return err
	}
	var edited []string
	for _, component := range staticpod.Components(n) {
		made, found, err := staticpod.FindManualChange(ctx, e, present, n, component)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		file := n.Paths.Manifest(component)
		edited = append(edited, component)
		e.Warn("%s was changed manually; the upgrade replaces it and keeps a backup in %s", file,
			n.Paths.Tmp())
		e.Print(urlPassword.ReplaceAllString(upgrade.Diff(
			upgrade.Text{Name: "as kubeadm writes it", Content: string(made)},
			upgrade.Text{Name: file, Content: string(found)}, diffContext), "://***@"))
	}
	if len(edited) == 0 {
		return nil
	}
	const keep = "to keep a change, move it to the component's extraArgs, extraVolumes or extraEnvs " +
		"in ConfigMap kube-system/kubeadm-config, or to a patch file for --patches"
	if upgrade.IntentOf(e).FailOnEdits {
		return problem.New(fmt.Errorf("manifests were changed manually: %s",
			strings.Join(edited, ", ")), keep, "to replace them, leave out --fail-on-manual-changes")
	}
	e.Say("%s", keep)
	return nil
}

// urlPassword matches the user of a URL, such as of a proxy.
var urlPassword = regexp.MustCompile(`://[^/@\s]+@`)

// diffContext is the number of lines around each change.
const diffContext = 2
