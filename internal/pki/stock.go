package pki

import (
	"crypto"
	"io"
	"runtime"
	"sync/atomic"
)

// Stock makes keys ahead of need, on every processor, while its owner does
// something else. An RSA key takes tens of milliseconds and a control plane
// wants about seventeen, so this is most of what its certificates cost.
type Stock struct {
	random    io.Reader
	algorithm Algorithm
	ahead     int64
	asked     atomic.Int64
	made      chan madeKey
}

type madeKey struct {
	key crypto.Signer
	err error
}

// NewStock starts making n keys and returns at once. The work ends by itself
// after n keys, taken or not. Random must be safe for concurrent use.
func NewStock(random io.Reader, a Algorithm, n int) *Stock {
	s := &Stock{random: random, algorithm: a, ahead: int64(n), made: make(chan madeKey, n)}
	var begun atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		go func() {
			for begun.Add(1) <= s.ahead {
				key, err := NewKey(random, a)
				s.made <- madeKey{key, err}
			}
		}()
	}
	return s
}

// Key returns a key nobody else was given, waiting for it if need be. Past the
// n keys made ahead it makes one on the spot.
func (s *Stock) Key() (crypto.Signer, error) {
	if s.asked.Add(1) > s.ahead {
		return NewKey(s.random, s.algorithm)
	}
	m := <-s.made
	return m.key, m.err
}
