package pki

import (
	"crypto"
	"io"
	"runtime"
	"sync/atomic"
)

// KeyPool generates private keys in the background, on all processors, before they are needed. An
// RSA key takes tens of milliseconds and a control plane needs about seventeen, which is most of
// the time that its certificates take.
type KeyPool struct {
	random    io.Reader
	algorithm Algorithm
	ahead     int64 // number of keys generated in the background
	requested atomic.Int64
	generated chan generatedKey
}

type generatedKey struct {
	key crypto.Signer
	err error
}

// NewKeyPool starts to generate n keys in the background and returns at once. The goroutines end
// after n keys, used or not. random must be safe for concurrent use.
func NewKeyPool(random io.Reader, a Algorithm, n int) *KeyPool {
	s := &KeyPool{random: random, algorithm: a, ahead: int64(n),
		generated: make(chan generatedKey, n)}
	var started atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		go func() {
			for started.Add(1) <= s.ahead {
				key, err := NewKey(random, a)
				s.generated <- generatedKey{key, err}
			}
		}()
	}
	return s
}

// Key returns a new key, and waits for it if necessary. After the first n keys each call
// generates one itself.
func (s *KeyPool) Key() (crypto.Signer, error) {
	if s.requested.Add(1) > s.ahead {
		return NewKey(s.random, s.algorithm)
	}
	g := <-s.generated
	return g.key, g.err
}
