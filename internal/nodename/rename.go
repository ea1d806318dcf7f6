package nodename

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/state"
)

// Rename is what the user wants of a Node that gets another name, for the phases.
type Rename struct {
	Record
	// Member is the etcd member of this machine; nil if it has none.
	Member *etcddata.Member
	// Etcd is how the members are reached.
	Etcd state.Etcd
	// Ask asks the user whether to go on, and is an error if not; nil if there is no question.
	Ask func(context.Context) error
}

// RenameOf is the intent of the command that a phase belongs to.
func RenameOf(e *engine.Env) Rename { return engine.IntentOf[Rename](e) }
