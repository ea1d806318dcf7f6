// Package phaseindex lists the addresses of phases that the code refers to, the milestones that other
// phases wait for, and the files that phases create.
package phaseindex

import (
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

// Address is how a phase is selected or skipped, such as "certs/ca".
type Address string

// Addresses of phases.
const (
	Preflight           Address = "preflight"
	Certs               Address = "certs"
	Kubeconfigs         Address = "kubeconfig"
	Etcd                Address = "etcd"
	EtcdLocal           Address = "etcd/local"
	ControlPlane        Address = "control-plane"
	KubeletStart        Address = "kubelet-start"
	KubeletFinalize     Address = "kubelet-finalize"
	WaitControlPlane    Address = "wait-control-plane"
	ClusterAdmin        Address = "cluster-admin"
	ShowJoinCommand     Address = "show-join-command"
	ControlPlanePrepare Address = "control-plane-prepare"
	DownloadCerts       Address = ControlPlanePrepare + "/download-certs"
	CheckEtcd           Address = "check-etcd"
	EtcdJoin            Address = "etcd-join"
	LeaveCluster        Address = "leave-cluster"
	CleanupNode         Address = "cleanup-node"
	UploadCerts         Address = "upload-certs"
	Renew               Address = "renew"
	Request             Address = "request"
)

// Of is the child of a phase that is named after one certificate.
func (a Address) Of(certificate string) Address { return a + "/" + Address(certificate) }

// End is the milestone at which the phase has ended.
func (a Address) End() engine.Milestone { return engine.Milestone(a) }

// Points that the phase wait-control-plane of init reaches. At those that begin with Start, the
// manifest of that component is written.
const (
	// StartEtcd is when the kubelet watches the directory of manifests.
	StartEtcd = engine.Milestone(WaitControlPlane + ":start-etcd")
	// StartAPIServer is when the files of all components exist too.
	StartAPIServer = engine.Milestone(WaitControlPlane + ":start-api-server")
	// APIServerAnswers is when the API server answers. For about a second, until it creates the RBAC
	// objects of every cluster, it has little to do.
	APIServerAnswers = engine.Milestone(WaitControlPlane + ":api-server-answers")
	// AdminAuthorized is when the admin of this run can create objects: the user of super-admin.conf in
	// that second, the user of admin.conf after it.
	AdminAuthorized = engine.Milestone(WaitControlPlane + ":admin-authorized")
	// StartControllerManager is when the API server authorizes kube-controller-manager, a moment before
	// it is live.
	StartControllerManager = engine.Milestone(WaitControlPlane + ":start-controller-manager")
	// StartScheduler is when the API server authorizes kube-scheduler, or will have done so before the
	// kubelet has started it.
	StartScheduler = engine.Milestone(WaitControlPlane + ":start-scheduler")
	// RBACComplete is when the API server has all RBAC objects of every cluster.
	RBACComplete = engine.Milestone(WaitControlPlane + ":rbac-complete")
)

// AdminsBound is the point of the phase cluster-admin of init at which the ClusterRoleBinding of
// administrators exists.
const AdminsBound = engine.Milestone(ClusterAdmin + ":bound")

// Phases of a join that create many files each, and reach a point after each of them.
const (
	joinCerts       = ControlPlanePrepare + "/" + Certs
	joinKubeconfigs = ControlPlanePrepare + "/" + Kubeconfigs
)

// JoinCertCreated is the point of a join at which the certificate of that name exists.
func JoinCertCreated(name string) engine.Milestone {
	return engine.Milestone(joinCerts + ":" + Address(name))
}

// JoinKubeconfigCreated is the point of a join at which the kubeconfig of that name exists.
func JoinKubeconfigCreated(name string) engine.Milestone {
	return engine.Milestone(joinKubeconfigs + ":" + Address(name))
}

// Command is how a user runs the phase alone, after "kubeadm init phase" or
// "kubeadm join phase".
func (a Address) Command() string { return strings.ReplaceAll(string(a), "/", " ") }

// Kind is what a file holds.
type Kind int

// Kinds of files.
const (
	KubeletConfig Kind = iota
	Manifest
	Certificate
	PrivateKey
	PublicKey
	Kubeconfig
)

// File is a file that a phase creates.
type File struct {
	Path  string
	Phase Address
	Kind  Kind
	Name  string // of the certificate, key, kubeconfig or component, as in the phase's address
	// Shared is set for CAs and service account keys. A joining control plane downloads or copies
	// them.
	Shared bool
	// LocalEtcd is set for files that only a control plane with an etcd member has.
	LocalEtcd bool
	Need      pki.Need // of the key in it, by the command that the list is for
}

// Created is the milestone at which the phase has created the file, or has checked the existing one.
func (f File) Created() engine.Milestone {
	switch {
	case f.Shared: // it exists before a join
	case f.Phase == joinCerts:
		return JoinCertCreated(f.Name)
	case f.Phase == joinKubeconfigs:
		return JoinKubeconfigCreated(f.Name)
	}
	return f.Phase.End()
}

// Files are those that init creates on this machine, or join if joins is set, and that Kubernetes
// needs to run.
func Files(l node.Local, joins bool) []File {
	p := l.Paths
	files := []File{{Path: p.KubeletConfig(), Phase: KubeletStart, Kind: KubeletConfig}}
	if l.Role != node.ControlPlane {
		return files
	}
	for _, program := range manifest.Components() {
		name := strings.TrimPrefix(program, "kube-")
		files = append(files,
			File{Path: p.Manifest(program), Phase: phaseOf(joins, ControlPlane, name),
				Kind: Manifest, Name: name})
	}
	sa := phaseOf(joins, Certs, "sa")
	etcd := EtcdLocal
	if joins {
		etcd = EtcdJoin
	}
	files = append(files,
		File{Path: p.Certificate(pki.ServiceAccountKey), Phase: sa, Kind: PrivateKey, Name: "sa",
			Shared: true},
		File{Path: p.Certificate(pki.ServiceAccountPublicKey), Phase: sa, Kind: PublicKey,
			Name: "sa", Shared: true},
		File{Path: p.Manifest(manifest.Etcd), Phase: etcd, Kind: Manifest, Name: "etcd",
			LocalEtcd: true})
	for _, c := range pki.Profiles() {
		f := File{Path: p.Cert(c.Base), Phase: phaseOf(joins, Certs, c.Name), Kind: Certificate,
			Name:   c.Name,
			Shared: c.IsCA(), LocalEtcd: c.LocalEtcdOnly(), Need: c.Need(joins)}
		key := f
		key.Path, key.Kind = p.Key(c.Base), PrivateKey
		files = append(files, f, key)
	}
	for _, k := range pki.KubeconfigProfiles() {
		if k.OnJoin || !joins {
			files = append(files,
				File{Path: p.Kubeconfig(k.File), Phase: phaseOf(joins, Kubeconfigs, k.Name),
					Kind: Kubeconfig, Name: k.Name, Need: k.Need(joins)})
		}
	}
	return files
}

// phaseOf is the phase that creates one of a group's files. In a join one phase creates all of a
// group.
func phaseOf(joins bool, group Address, name string) Address {
	if joins {
		return ControlPlanePrepare + "/" + group
	}
	return group + "/" + Address(name)
}
