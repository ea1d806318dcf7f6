// Package workflow says what each command does: the ordered list of its phases.
package workflow

import (
	"context"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/phase/address"
	"kubeadm/internal/phase/bootstraptoken"
	"kubeadm/internal/phase/certs"
	"kubeadm/internal/phase/check"
	"kubeadm/internal/phase/controlplane"
	"kubeadm/internal/phase/defrag"
	"kubeadm/internal/phase/downloadcerts"
	"kubeadm/internal/phase/etcd"
	"kubeadm/internal/phase/finished"
	"kubeadm/internal/phase/generatecsr"
	"kubeadm/internal/phase/joincommand"
	"kubeadm/internal/phase/kubeconfig"
	"kubeadm/internal/phase/kubelet"
	"kubeadm/internal/phase/kubeletserving"
	"kubeadm/internal/phase/markcontrolplane"
	"kubeadm/internal/phase/nodename"
	"kubeadm/internal/phase/rebuild"
	"kubeadm/internal/phase/reconfigure"
	"kubeadm/internal/phase/renew"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/phase/rotateca"
	"kubeadm/internal/phase/savesnapshot"
	"kubeadm/internal/phase/uploadcerts"
	"kubeadm/internal/phase/uploadconfig"
	"kubeadm/internal/phase/waitcontrolplane"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/rotation"
	"kubeadm/internal/snapshots"
)

// Init makes this machine the first control plane of a cluster. The kubelet starts as soon as it has
// its own files, and each component as soon as it can do its work, while the other phases go on. Once
// the API server lets this run create objects, the group of admin.conf is bound to cluster-admin, and
// the phases that create objects run. One of them that runs alone begins with that binding too. The
// kubelet is restarted before kube-controller-manager and kube-scheduler start: a restart later would
// delay them.
var Init = initWith(addon.Phase)

// initWith returns the phases of init with that phase for the addons, and with phases to run before
// anything is created, which must not be skipped.
func initWith(addons engine.Phase, first ...engine.Phase) []engine.Phase {
	begin := func(p engine.Phase) engine.Phase {
		for _, f := range first {
			p.Needs = append(slices.Clone(p.Needs), f.Name)
		}
		return p
	}
	return []engine.Phase{
		check.Init,
		{Parallel: true, Phases: []engine.Phase{
			begin(certs.Phase),
			after(kubeconfig.Phase, clusterCACreated),
			after(begin(etcd.Phase), phaseindex.Certs.Of(pki.EtcdServer).End(),
				phaseindex.Certs.Of(pki.EtcdPeer).End()),
			after(controlplane.Phase, phaseindex.Certs.End(), phaseindex.Kubeconfigs.End(),
				phaseindex.Etcd.End()),
			after(kubelet.Start, clusterCACreated, kubeletConfCreated),
			after(waitcontrolplane.Init, clusterCACreated, kubeletConfCreated,
				phaseindex.KubeletStart.End()),
			after(clusterAdmin, onceRunning...),
			asAdmin(bindClusterAdmins, waitcontrolplane.ControllerAccounts, phaseindex.RBACComplete),
			asAdmin(bindClusterAdmins, uploadconfig.Phase),
			asAdmin(bindClusterAdmins.If(func(n *node.Node) bool { return n.UploadCerts }),
				uploadcerts.Phase),
			asAdmin(bindClusterAdmins, markcontrolplane.Phase),
			asAdmin(bindClusterAdmins, bootstraptoken.Phase),
			after(kubelet.Finalize, kubeletConfCreated, phaseindex.KubeletStart.End(),
				phaseindex.APIServerAnswers),
			asAdmin(bindClusterAdmins, addons),
		}},
		joincommand.Phase,
	}
}

// InitFromBackup makes this machine the first control plane of a cluster that exists only as a backup,
// which is read before the phases run. It is Init with the data of etcd and the shared files restored
// before anything is created, and with the addons kept.
func InitFromBackup(b *etcdsnapshot.Backup, removeOld bool) []engine.Phase {
	restore := rebuild.Restore(b)
	phases := initWith(addon.Rebuilt, restore)
	phases[0] = withStep(rebuild.Check(b), phases[0])
	phases[1].Phases = append(phases[1].Phases, asAdmin(bindClusterAdmins, rebuild.ReleaseLeaders(b)))
	phases = slices.Insert(phases, 1, restore)
	return slices.Insert(phases, len(phases)-1, rebuild.OldControlPlane(b, removeOld))
}

// Milestones of init.
var (
	clusterCACreated   = phaseindex.Certs.Of(pki.ClusterCA).End()
	kubeletConfCreated = phaseindex.Kubeconfigs.Of(pki.KubeletKubeconfig).End()
)

// after is the phase to begin when the milestones are reached.
func after(p engine.Phase, milestones ...engine.Milestone) engine.Phase {
	p.After = milestones
	return p
}

// onceRunning is when the API server runs and lets the admin create objects. Where nothing waits for
// that, it is when the API server was started.
var onceRunning = []engine.Milestone{phaseindex.Kubeconfigs.End(), phaseindex.ControlPlane.End(),
	phaseindex.KubeletStart.End(), phaseindex.AdminAuthorized}

// asAdmin is the phase to begin when the step is done, the admin can create objects, and the
// milestones are reached. Where the phase runs alone, it begins with the step.
func asAdmin(s engine.Step, p engine.Phase, milestones ...engine.Milestone) engine.Phase {
	return withStep(s, after(p, slices.Concat(onceRunning,
		[]engine.Milestone{phaseindex.AdminsBound}, milestones)...))
}

// withStep is the phase with a step to be done before it.
func withStep(s engine.Step, p engine.Phase) engine.Phase {
	p.Before = append(p.Before, s)
	return p
}

// FinishedInit is what a re-run of a finished init does: it changes nothing. The arguments are those
// of run.FinishedRun.
func FinishedInit(recorded func(target string) bool, skipped []string) []engine.Phase {
	run := finished.Record{Recorded: recorded, Skipped: skipped}
	return []engine.Phase{finished.Init(run), joincommand.ShowAgain}
}

// FinishedJoin is what a re-run of a finished join does: it changes nothing.
func FinishedJoin(recorded func(target string) bool, skipped []string) []engine.Phase {
	return []engine.Phase{finished.Join(finished.Record{Recorded: recorded, Skipped: skipped})}
}

// Join makes this machine a node of a cluster: a worker, or one more control plane. A control plane's
// kubelet is started as soon as a member can be added to etcd, while the files of the components
// are generated. It talks to the API server beside it, which needs etcd: so etcd comes before the wait
// for the kubelet.
var Join = []engine.Phase{
	check.Join,
	{Parallel: true, Phases: []engine.Phase{
		prepare,
		after(etcd.Check, phaseindex.DownloadCerts.End(),
			phaseindex.JoinCertCreated(pki.EtcdHealthcheckClient), adminConfCreated),
		after(joinedAccess, adminConfCreated),
		after(withStep(checkFollowed, kubelet.JoinStart), phaseindex.DownloadCerts.End(), phaseindex.CheckEtcd.End(),
			adminConfCreated),
		after(etcd.Join, phaseindex.ControlPlanePrepare.End(), phaseindex.KubeletStart.End()),
	}},
	kubelet.WaitBootstrap,
	markcontrolplane.Join,
	waitcontrolplane.Join,
}

// checkFollowed prevents that a control plane node joins while nodes depend on the address of another one.
var checkFollowed = engine.Step{
	Name: string(phaseindex.CheckEtcd),
	When: func(n *node.Node) bool { return n.Role == node.ControlPlane },
	Run: func(ctx context.Context, e *engine.Env) error {
		as, err := e.Admin(ctx)
		if err != nil {
			return err
		}
		return reconfiguration.CheckFollowed(ctx, e, as)
	},
}

// adminConfCreated is when a join can use admin.conf.
var adminConfCreated = phaseindex.JoinKubeconfigCreated(pki.AdminKubeconfig)

// prepare creates the files of an additional control plane.
var prepare = engine.Phase{
	Name:  "control-plane-prepare",
	Short: "Prepare the certificates, kubeconfig files and manifests for a control plane node",
	Long:  "Download or generate the certificates, and write the kubeconfig files and static Pod manifests of a control plane node.",
	Flags: flag.WithDiscovery(flag.APIServerAdvertise, flag.APIServerBindPort, flag.CertificateKey,
		flag.Config, flag.ControlPlane, flag.DryRun, flag.NodeAddressFrom, flag.NodeName, flag.Patches),
	When: node.IsControlPlane,
	Phases: []engine.Phase{
		downloadcerts.Phase,
		{Parallel: true, Phases: []engine.Phase{certs.Join, kubeconfig.Join}},
		controlplane.Join,
	},
}

// UpgradeApply upgrades the cluster and its first control plane node to another version. Objects
// that only work together, such as the Deployment of CoreDNS and its Corefile, are all upgraded or
// all left as they were.
var UpgradeApply = []engine.Phase{
	check.UpgradeApply,
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
	check.UpgradeNode,
	controlplane.Upgrade,
	kubelet.UseLocalAPIServer,
	kubelet.UpgradeConfig,
	undoneOnError(addon.Upgrade),
	kubelet.RemoveFlags,
}

// ReconfigureApply changes the configuration of the cluster and brings its first node to it. The cluster
// stores the configuration once this node and the addons run with it, so that no machine joins with one
// that does not work.
var ReconfigureApply = []engine.Phase{
	check.Reconfigure,
	holdingLock(reconfigure.Node, check.Unchanging, reconfigure.Claim, reconfigure.Node, addon.Reconfigure,
		reconfigure.Unedited, uploadconfig.Upgrade, reconfigure.ClusterInfo, reconfigure.Finish),
	uploadcerts.Reconfigured,
}

// ReconfigureNode brings another node to the configuration that the cluster stores.
var ReconfigureNode = []engine.Phase{
	check.Reconfigure,
	reconfigure.DownloadFiles,
	holdingLock(reconfigure.Node, check.Unchanging, reconfigure.Claim, reconfigure.Node, reconfigure.Finish),
}

// ChangeAddress brings this node to another address.
var ChangeAddress = []engine.Phase{
	check.Address,
	underLock(address.Node, "moving to another address", []engine.Phase{check.Staying, address.Node}, isReachable),
}

// isReachable reports whether the API server has answered that the lock of a move needs.
func isReachable(e *engine.Env) bool { return nodeaddress.IntentOf(e).IsReachable }

// FinishAddress takes the previous addresses out of the certificates of this node.
var FinishAddress = []engine.Phase{
	check.Address,
	underLock(address.Finish, "forgetting an address", []engine.Phase{check.Staying, address.Finish}, isReachable),
}

// KeepNodeName lets the kubelet of this machine keep the name of its Node when the host is renamed.
var KeepNodeName = []engine.Phase{
	check.KeepNodeName,
	underLock(nodename.Keep, "restarting a kubelet under the name of its node", []engine.Phase{nodename.Keep},
		func(*engine.Env) bool { return false }),
}

// ChangeNodeName gives this node another name.
var ChangeNodeName = []engine.Phase{
	check.ChangeNodeName,
	underLock(nodename.Change, "giving a node another name", []engine.Phase{check.NothingElse, nodename.Change},
		func(*engine.Env) bool { return true }),
}

// Reset reverts what Init and Join did to this machine. The journal is removed before anything
// else on the machine.
var Reset = []engine.Phase{
	check.Reset,
	reset.LeaveCluster,
	withStep(removeJournal, reset.Etcd),
	withStep(removeJournal, reset.Cleanup),
}

// BeforeReset says what a reset means for the cluster, before it asks for confirmation.
var BeforeReset = []engine.Phase{{Run: func(ctx context.Context, e *engine.Env) error {
	reset.ReportQuorumAfterRemoval(ctx, e.Named("reset"))
	return nil
}}}

// AfterReset says what a whole reset has left.
var AfterReset = []engine.Phase{{Run: func(_ context.Context, e *engine.Env) error {
	e.Named("reset").Print(reset.ClosingText(e))
	return nil
}}}

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
func ApproveKubeletServing(allowed node.AllowedNames) []engine.Phase {
	return []engine.Phase{kubeletserving.Approve(allowed)}
}

// WatchKubeletServing also approves those that are made later.
func WatchKubeletServing(allowed node.AllowedNames) []engine.Phase {
	return []engine.Phase{kubeletserving.Watch(allowed)}
}

// RotateCA brings this node to a stage of a CA rotation.
func RotateCA(s rotation.Stage, o rotation.Options) []engine.Phase {
	return []engine.Phase{rotateca.New(s, o)}
}

// DefragmentEtcd frees the unused space of etcd's databases.
var DefragmentEtcd = []engine.Phase{defrag.Phase}

// SaveEtcdSnapshot saves a snapshot of etcd, and calls onSaved with its path.
func SaveEtcdSnapshot(o snapshots.Options, onSaved func(file string)) []engine.Phase {
	return []engine.Phase{savesnapshot.Save(o, onSaved)}
}

// RestoreEtcd restores etcd from a snapshot.
func RestoreEtcd(o etcddata.Options) []engine.Phase { return []engine.Phase{etcd.Restore(o)} }

// RejoinEtcd replaces the data of this machine's etcd member by those of the cluster.
func RejoinEtcd(o etcddata.Options) []engine.Phase { return []engine.Phase{etcd.Rejoin(o)} }

// RecoverEtcd makes this machine's etcd member the only one after the loss of the quorum.
func RecoverEtcd(o etcddata.Options) []engine.Phase { return []engine.Phase{etcd.Recover(o)} }

// GenerateCSR generates keys and certificate signing requests for an external CA.
var GenerateCSR = []engine.Phase{generatecsr.Phase}
