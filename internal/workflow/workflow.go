// Package workflow says what each command does: the ordered list of its phases.
package workflow

import (
	"kubeadm/internal/flow"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/phase/bootstraptoken"
	"kubeadm/internal/phase/certs"
	"kubeadm/internal/phase/controlplane"
	"kubeadm/internal/phase/etcd"
	"kubeadm/internal/phase/joincommand"
	"kubeadm/internal/phase/kubeconfig"
	"kubeadm/internal/phase/kubelet"
	"kubeadm/internal/phase/markcontrolplane"
	"kubeadm/internal/phase/preflight"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/phase/uploadcerts"
	"kubeadm/internal/phase/uploadconfig"
	"kubeadm/internal/phase/waitcontrolplane"
)

// Init makes this machine the first control plane of a cluster. Once its API server answers,
// the phases that talk to it do so side by side.
var Init = []flow.Phase{
	preflight.Init,
	certs.Phase,
	kubeconfig.Phase,
	etcd.Phase,
	controlplane.Phase,
	kubelet.Start,
	waitcontrolplane.Init,
	{Parallel: true, Phases: []flow.Phase{
		uploadconfig.Phase,
		uploadcerts.Phase,
		markcontrolplane.Phase,
		bootstraptoken.Phase,
		kubelet.Finalize,
		addon.Phase,
	}},
	joincommand.Phase,
}

// InitAgain is what is left to do where an earlier run of the same init did everything.
var InitAgain = []flow.Phase{joincommand.Again}

// Join makes this machine a node of a cluster.
var Join = []flow.Phase{
	preflight.Join,
	kubelet.JoinStart,
	kubelet.WaitBootstrap,
}

// Reset takes back what Init and Join made on this machine.
var Reset = []flow.Phase{
	preflight.Reset,
	reset.Etcd,
	reset.Cleanup,
}
