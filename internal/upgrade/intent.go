package upgrade

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
)

// Intent is what the user wants of an upgrade, for its phases.
type Intent struct {
	node.Upgrade
	// Ask asks the user whether to go on, and is an error if not; nil if there is no question.
	Ask func(context.Context) error
}

// IntentOf is the intent of the upgrade that a phase belongs to.
func IntentOf(e *engine.Env) Intent { return engine.IntentOf[Intent](e) }
