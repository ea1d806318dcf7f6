// Package phaseindex lists the addresses of phases that the code refers to, and the files that
// phases create.
package phaseindex

import (
	"strings"

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
	EtcdLocal           Address = "etcd/local"
	ControlPlane        Address = "control-plane"
	KubeletStart        Address = "kubelet-start"
	ShowJoinCommand     Address = "show-join-command"
	ControlPlanePrepare Address = "control-plane-prepare"
	EtcdJoin            Address = "etcd-join"
	LeaveCluster        Address = "leave-cluster"
	CleanupNode         Address = "cleanup-node"
	UploadCerts         Address = "upload-certs"
	Renew               Address = "renew"
	Request             Address = "request"
)

// Of is the child of a phase that is named after one certificate.
func (a Address) Of(certificate string) Address { return a + "/" + Address(certificate) }

// Points that the phase wait-control-plane of init reaches (engine.Milestone). At those that begin
// with Start, the manifest of that component is written.
const (
	// StartEtcd is when the kubelet watches the directory of manifests.
	StartEtcd = "wait-control-plane:start-etcd"
	// StartAPIServer is when the files of all components exist too.
	StartAPIServer = "wait-control-plane:start-api-server"
	// APIServerAnswers is when the API server answers. For about a second, until it creates the RBAC
	// objects of every cluster, it has little to do.
	APIServerAnswers = "wait-control-plane:api-server-answers"
	// AdminAuthorized is when the admin of this run can create objects: the user of super-admin.conf in
	// that second, the user of admin.conf after it.
	AdminAuthorized = "wait-control-plane:admin-authorized"
	// StartControllerManager is when the API server authorizes kube-controller-manager, a moment before
	// it is live.
	StartControllerManager = "wait-control-plane:start-controller-manager"
	// StartScheduler is when the API server authorizes kube-scheduler, or will have done so before the
	// kubelet has started it.
	StartScheduler = "wait-control-plane:start-scheduler"
	// RBACComplete is when the API server has all RBAC objects of every cluster.
	RBACComplete = "wait-control-plane:rbac-complete"
)

// Points that the phase control-plane-prepare of join reaches.
var (
	// EtcdClientCreated is when kubeadm has its client certificate for etcd.
	EtcdClientCreated = Created(ControlPlanePrepare+"/"+Certs, pki.EtcdHealthcheckClient)
	// AdminCreated is when admin.conf exists.
	AdminCreated = Created(ControlPlanePrepare+"/"+Kubeconfigs, pki.AdminKubeconfig)
)

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
func (f File) Created() string { return Created(f.Phase, f.Name) }

// Created is that milestone of the file with that name: a point of the phase, as in a join one phase
// creates many files.
func Created(phase Address, name string) string { return string(phase) + ":" + name }

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
