package run

import (
	"context"
	"crypto"
	"errors"
	"sync"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

// KeysOnceKnown returns keys for a joining machine, which learns the cluster's algorithm only by
// discovery.
func (r *Run) KeysOnceKnown() *LateKeys { return &LateKeys{run: r} }

// LateKeys generates private keys once the cluster is known.
type LateKeys struct {
	run *Run

	mu       sync.Mutex
	generate func(pki.Need) (crypto.Signer, error)
}

// SetCluster begins to generate the keys that a control plane is going to need.
func (k *LateKeys) SetCluster(ctx context.Context, n *node.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generate = k.run.Keys(ctx, n)
}

// Key returns the next private key.
func (k *LateKeys) Key(need pki.Need) (crypto.Signer, error) {
	k.mu.Lock()
	generate := k.generate
	k.mu.Unlock()
	if generate == nil {
		return nil, errors.New("no key can be generated before the cluster has been discovered")
	}
	return generate(need)
}
