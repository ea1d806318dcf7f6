// Package workflow says what each command does: the ordered list of its phases.
package workflow

import (
	"context"

	"kubeadm/internal/carotation"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/phase/bootstraptoken"
	"kubeadm/internal/phase/certs"
	"kubeadm/internal/phase/controlplane"
	"kubeadm/internal/phase/downloadcerts"
	"kubeadm/internal/phase/etcd"
	"kubeadm/internal/phase/finished"
	"kubeadm/internal/phase/generatecsr"
	"kubeadm/internal/phase/joincommand"
	"kubeadm/internal/phase/kubeconfig"
	"kubeadm/internal/phase/kubelet"
	"kubeadm/internal/phase/kubeletserving"
	"kubeadm/internal/phase/markcontrolplane"
	"kubeadm/internal/phase/preflight"
	"kubeadm/internal/phase/renew"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/phase/rotateca"
	"kubeadm/internal/phase/uploadcerts"
	"kubeadm/internal/phase/uploadconfig"
	"kubeadm/internal/phase/waitcontrolplane"
)

// Init makes this machine the first control plane of a cluster. Once its API server is live and
// the group of admin.conf is bound to cluster-admin, the phases that talk to the API server run
// side by side, while kube-controller-manager and kube-scheduler start. One of them that runs alone
// begins with that binding too. The kubelet is restarted before those two start: a restart later would
// delay them.
var Init = []engine.Phase{
	preflight.Init,
	certs.Phase,
	kubeconfig.Phase,
	etcd.Phase,
	controlplane.Phase,
	kubelet.Start,
	{Parallel: true, Phases: []engine.Phase{
		waitcontrolplane.Init(bindClusterAdmins),
		startOnceLive(bindClusterAdmins, uploadconfig.Phase),
		startOnceLive(bindClusterAdmins.If(func(n *node.Node) bool { return n.UploadCerts }),
			uploadcerts.Phase),
		startOnceLive(bindClusterAdmins, markcontrolplane.Phase),
		startOnceLive(bindClusterAdmins, bootstraptoken.Phase),
		startAfter(waitcontrolplane.Serving, kubelet.Finalize),
		startOnceLive(bindClusterAdmins, addon.Phase),
	}},
	joincommand.Phase,
}

// startAfter is the phase to begin when the first one of its group has reached the milestone.
func startAfter(milestone engine.Milestone, p engine.Phase) engine.Phase {
	p.After = milestone
	return p
}

// startOnceLive is the phase with a step, to begin when the API server is live.
func startOnceLive(s engine.Step, p engine.Phase) engine.Phase {
	return startAfter(waitcontrolplane.Live, withStep(s, p))
}

// withStep is the phase with a step to be done before it.
func withStep(s engine.Step, p engine.Phase) engine.Phase {
	p.Before = append(p.Before, s)
	return p
}

// FinishedInit is what a re-run of a finished init does: it changes nothing.
func FinishedInit(run finished.Record) []engine.Phase {
	return []engine.Phase{finished.Init(run), joincommand.ShowAgain}
}

// FinishedJoin is what a re-run of a finished join does: it changes nothing.
func FinishedJoin(run finished.Record) []engine.Phase { return []engine.Phase{finished.Join(run)} }

// Join makes this machine a node of a cluster: a worker, or one more control plane. The kubelet of
// a control plane talks to the API server beside it, which needs etcd: so etcd comes before the
// wait for the kubelet.
var Join = []engine.Phase{
	preflight.Join,
	prepare,
	etcd.Check,
	kubelet.JoinStart,
	etcd.Join,
	kubelet.WaitBootstrap,
	markcontrolplane.Join,
	waitcontrolplane.Join,
}

// prepare creates the files of an additional control plane.
var prepare = engine.Phase{
	Name:  "control-plane-prepare",
	Short: "Prepare the certificates, kubeconfig files and manifests of a control plane node",
	Long:  "Download or generate the certificates, and write the kubeconfig files and static Pod manifests of a control plane node.",
	Flags: flag.WithDiscovery(flag.APIServerAdvertise, flag.APIServerBindPort, flag.CertificateKey,
		flag.Config, flag.ControlPlane, flag.DryRun, flag.NodeName, flag.Patches),
	When:   node.IsControlPlane,
	Phases: []engine.Phase{downloadcerts.Phase, certs.Join, kubeconfig.Join, controlplane.Join},
}

// UpgradeApply upgrades the cluster and its first control plane node to another version. Objects
// that only work together, such as the Deployment of CoreDNS and its Corefile, are all upgraded or
// all left as they were.
var UpgradeApply = []engine.Phase{
	preflight.UpgradeApply,
	controlplane.Upgrade,
	undoneOnError(uploadconfig.Upgrade),
	kubelet.UseLocalAPIServer,
	kubelet.UpgradeConfig,
	bootstraptoken.Upgrade,
	undoneOnError(addon.Upgrade),
	kubelet.RemoveFlags,
}

// undoneOnError is the phase with all its changes undone if it fails.
func undoneOnError(p engine.Phase) engine.Phase {
	p.OnError = engine.Undo
	return p
}

// UpgradeNode upgrades another node to the version of its cluster.
var UpgradeNode = []engine.Phase{
	preflight.UpgradeNode,
	controlplane.Upgrade,
	kubelet.UseLocalAPIServer,
	kubelet.UpgradeConfig,
	undoneOnError(addon.Upgrade),
	kubelet.RemoveFlags,
}

// Reset reverts what Init and Join did to this machine. The journal is removed before anything
// else on the machine.
var Reset = []engine.Phase{
	preflight.Reset,
	reset.LeaveCluster,
	withStep(removeJournal, reset.Etcd),
	withStep(removeJournal, reset.Cleanup),
}

// removeJournal prevents that an init or join resumes after an interrupted reset.
var removeJournal = engine.Step{
	Name: "reset",
	Run: func(ctx context.Context, e *engine.Env) error {
		err := e.Do(ctx, change.Remove{Path: e.Local.Paths.Journal()})
		if err != nil {
			e.Warn("%v; remove it manually", err)
		}
		return nil
	},
}

// Renew renews the certificates of this control plane.
var Renew = []engine.Phase{renew.Phase}

// RequestRenewal writes requests for certificates of external CAs.
var RequestRenewal = []engine.Phase{renew.Request}

// RestartStale restarts the components that use a certificate from before its renewal, and repairs
// what else fails when certificates have expired.
var RestartStale = []engine.Phase{renew.RestartStale}

// RenewKubelet replaces the client certificate of this machine's kubelet.
var RenewKubelet = []engine.Phase{kubelet.Rebootstrap}

// ApproveKubeletServing approves the kubelets' requests for serving certificates.
var ApproveKubeletServing = []engine.Phase{kubeletserving.Approve}

// WatchKubeletServing also approves those that are made later.
var WatchKubeletServing = []engine.Phase{kubeletserving.Watch}

// RotateCA brings this node to a stage of a CA rotation.
func RotateCA(s carotation.Stage, o carotation.Options) []engine.Phase {
	return []engine.Phase{rotateca.New(s, o)}
}

// GenerateCSR generates keys and certificate signing requests for an external CA.
var GenerateCSR = []engine.Phase{generatecsr.Phase}
