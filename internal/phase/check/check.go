// Package check has the phases named preflight: they check a machine and its cluster before anything
// is changed, and pull the images. The checks of a machine are in internal/preflight.
package check

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/preflight"
	"kubeadm/internal/world"
)

// Init checks whether this machine can become the first control plane of a cluster, and pulls its
// images.
var Init = engine.Phase{
	Name:  "preflight",
	Short: "Check this machine and pull images",
	Long:  "Check whether this machine can become a control plane node, and pull the images that it needs.",
	Flags: []flag.Name{flag.Config, flag.CRISocket, flag.DryRun, flag.IgnorePreflightErrors,
		flag.ImageRepository},
	UsesAddress: true,
	Run: func(ctx context.Context, e *engine.Env) error {
		e.Say("checking this machine")
		warnOfUnknownNames(e)
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if err := runChecks(ctx, e, preflight.Root()); err != nil {
			return err
		}
		if err := runChecks(ctx, e, preflight.Init(n, e.Tool)); err != nil {
			return err
		}
		if err := checkCertificates(ctx, e, n); err != nil {
			return err
		}
		if err := checkPatchFiles(ctx, e); err != nil {
			return err
		}
		if err := tryPatches(ctx, e, n); err != nil {
			return err
		}
		return pullImages(ctx, e, n)
	},
}

// Join checks whether this machine can become a node, and discovers the cluster. It changes nothing
// on a worker, and pulls the images of a control plane.
var Join = engine.Phase{
	Name:  "preflight",
	Short: "Check this machine and find the cluster",
	Long:  "Check whether this machine can become a node, find the cluster to join and read its configuration. For a control plane node, also pull the images.",
	Flags: flag.WithDiscovery(flag.APIServerAdvertise, flag.APIServerBindPort, flag.CertificateKey,
		flag.Config, flag.ControlPlane, flag.CRISocket, flag.DryRun, flag.IgnorePreflightErrors,
		flag.NodeAddressFrom, flag.NodeName),
	Run: func(ctx context.Context, e *engine.Env) error {
		e.Say("checking this machine")
		warnOfUnknownNames(e)
		if err := runChecks(ctx, e, preflight.Root()); err != nil {
			return err
		}
		kubelet := preflight.KubeletVersion()
		if err := runChecks(ctx, e, preflight.Join(&e.Local, e.Tool, kubelet)); err != nil {
			return err
		}
		if err := checkPatchFiles(ctx, e); err != nil {
			return err
		}
		n, err := e.Node(ctx)
		if err == nil {
			err = runChecks(ctx, e, preflight.AfterDiscovery(n, kubelet))
		}
		if err == nil {
			err = tryPatches(ctx, e, n)
		}
		if err != nil || n.Role == node.Worker {
			return err
		}
		return checkControlPlane(ctx, e, n)
	},
}

// checkControlPlane checks what a joining control plane needs of the cluster and of this machine.
func checkControlPlane(ctx context.Context, e *engine.Env, n *node.Node) error {
	if err := checkControlPlaneEndpoint(n); err != nil {
		return err
	}
	if n.CertificateKey == "" {
		if err := errors.Join(checkSharedFiles(ctx, e, n),
			checkExistingCAs(ctx, e, n)); err != nil {
			return err
		}
	}
	e.Say("checking whether this machine can become a control plane node")
	var downloaded []preflight.ArgumentFile
	skips := engine.Selection{Skip: e.Selection().Skip} // a phase that runs alone precedes the others
	if n.CertificateKey != "" && skips.Runs(string(phaseindex.DownloadCerts)) {
		var err error
		if downloaded, err = preflight.UploadedFiles(n); err != nil {
			return err
		}
	}
	if err := runChecks(ctx, e, preflight.JoinControlPlane(n, e.Tool, downloaded)); err != nil {
		return err
	}
	return pullImages(ctx, e, n)
}

// Reset only checks whether this process may change the machine.
var Reset = engine.Phase{
	Name:    "preflight",
	Aliases: []string{"pre-flight"},
	Short:   "Check that kubeadm is running as root",
	Flags:   []flag.Name{flag.DryRun, flag.Force, flag.IgnorePreflightErrors},
	Run: func(ctx context.Context, e *engine.Env) error {
		warnOfUnknownNames(e)
		return runChecks(ctx, e, preflight.Root())
	},
}

// warnOfUnknownNames warns about names in --ignore-preflight-errors that no check has.
func warnOfUnknownNames(e *engine.Env) {
	for _, text := range preflight.UnknownNames(e.Local.IgnoredChecks) {
		e.Warn("%s", text)
	}
}

// runChecks runs the checks. Errors that are not ignored end the phase.
func runChecks(ctx context.Context, e *engine.Env, set []preflight.Check) error {
	ctx = world.WithProgress(ctx, func(text string) { e.Say("%s", text) })
	return reportFindings(e, preflight.Run(ctx, e.Reader(), set, e.Local.IgnoredChecks))
}

func reportFindings(e *engine.Env, found preflight.Result) error {
	for _, w := range found.Warnings() {
		e.WarnCheck(w.Check, w.Message())
	}
	return found.Err()
}

// checkPatchFiles warns about skipped patch files, and finds unreadable ones before anything is
// changed.
func checkPatchFiles(ctx context.Context, e *engine.Env) error {
	_, notes, err := manifestinput.ReadPatches(ctx, e.World, e.Local.Patches)
	for _, note := range notes {
		e.Named("patches").WarnOnce("%s", note)
	}
	return err
}

// tryPatches finds patches that do not apply before anything is changed.
func tryPatches(ctx context.Context, e *engine.Env, n *node.Node) error {
	host, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	if err := patches.Check(n, host); err != nil {
		return err
	}
	wanted, _ := version.ParseSemantic(n.Cluster.Version)
	found, err := patches.FindGateProblems(n, host, wanted)
	if err != nil {
		return err
	}
	rep := preflight.NewReport(manifest.ComponentArgs)
	rep.AddComponentProblems(found)
	return reportFindings(e, rep.Result(n.IgnoredChecks))
}
