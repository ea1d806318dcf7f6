// Package keys has private keys that tests of many clusters share: generating them would be most of the
// time that these tests take.
package keys

import (
	"crypto"
	"crypto/rand"
	"sync"

	"kubeadm/internal/pki"
)

// Pool is a list of private keys. They are generated when they are first needed, and used again by each
// machine. Its zero value has none yet. It is safe for concurrent use.
type Pool struct {
	mu        sync.Mutex
	generated map[pki.Algorithm][]crypto.Signer
}

// ForMachine returns a function that hands out the keys in turn, from the first one on. A machine
// never gets a key twice; another one gets the same keys.
func (k *Pool) ForMachine() func(pki.Algorithm) (crypto.Signer, error) {
	used := map[pki.Algorithm]int{}
	return func(a pki.Algorithm) (crypto.Signer, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		i := used[a]
		if i == len(k.generated[a]) {
			key, err := pki.NewKey(rand.Reader, a)
			if err != nil {
				return nil, err
			}
			if k.generated == nil {
				k.generated = map[pki.Algorithm][]crypto.Signer{}
			}
			k.generated[a] = append(k.generated[a], key)
		}
		used[a]++
		return k.generated[a][i], nil
	}
}
