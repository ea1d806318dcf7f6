package reconfiguration

import (
	"context"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
)

// Intent is what the user wants of a change of the configuration, for its phases.
type Intent struct {
	// Change is what the cluster stores of it. "reconfigure apply" begins it or goes on with it.
	Change *State
	// Before is this node by what the cluster stored before the change.
	Before *node.Node
	// Found is the ID of the change that the cluster stored when this command began; empty for none.
	Found string
	// Stored is the configuration that it stored then.
	Stored config.StoredConfig
	// KubeletArgs change the arguments of this machine's kubelet.
	KubeletArgs config.KubeletArgs
	// OnlyEndpoint is set if the kubelet's configuration stays as it is, and only its kubeconfig changes.
	OnlyEndpoint bool
	// Ask asks the user whether to go on, and is an error if not; nil if there is no question.
	Ask func(context.Context) error
}

// IntentOf is the intent of the command that a phase belongs to.
func IntentOf(e *engine.Env) Intent { return engine.IntentOf[Intent](e) }
