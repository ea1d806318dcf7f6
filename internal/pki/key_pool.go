package pki

import (
	"context"
	"crypto"
	"runtime"
	"sync"
)

// Need says when a run needs a key.
type Need int

// A control plane starts its kubelet, and in an init also etcd, while the other keys are being generated.
const (
	Later Need = iota
	First      // before these can start
)

// KeyPool generates private keys in the background before they are needed. An RSA key takes tens of
// milliseconds and a control plane needs about seventeen, which is most of the time that its
// certificates take.
type KeyPool struct {
	ctx       context.Context // of the run that the keys are for
	generate  func(Algorithm) (crypto.Signer, error)
	algorithm Algorithm

	mu      sync.Mutex
	ahead   int // keys that the background has not begun yet
	running int // keys that the background is generating
	free    int // keys of the background that no call has got or waits for
	first   int // how many of them are still to be requested first
	unused  []generatedKey
	waiting [First + 1][]chan generatedKey // calls that wait for a key, by need
}

type generatedKey struct {
	key crypto.Signer
	err error
}

// NewKeyPool starts to generate n keys in the background and returns at once. The goroutines end
// after n keys, used or not, or after those that they are generating when the context ends. As many as first are kept for calls that need theirs First; these are
// generated on all processors, the others on all but one: what the run does meanwhile needs it.
// generate must be safe for concurrent use.
func NewKeyPool(ctx context.Context, generate func(Algorithm) (crypto.Signer, error), a Algorithm,
	n, first int) *KeyPool {
	p := &KeyPool{ctx: ctx, generate: generate, algorithm: a, ahead: n, free: n, first: first}
	processors := runtime.GOMAXPROCS(0)
	for i := range min(n, processors) {
		if i > 0 && i == processors-1 {
			go p.fill(n - first)
		} else {
			go p.fill(0)
		}
	}
	return p
}

// fill generates keys until only as many as rest are left for other goroutines.
func (p *KeyPool) fill(rest int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.ahead > rest && p.ctx.Err() == nil {
		p.ahead--
		p.running++
		p.mu.Unlock()
		key, err := p.generate(p.algorithm)
		p.mu.Lock()
		p.running--
		p.unused = append(p.unused, generatedKey{key, err})
		p.deliver()
	}
}

// deliver hands unused keys to the calls that wait, to those first that need theirs first. It needs
// the lock.
func (p *KeyPool) deliver() {
	for len(p.unused) > 0 {
		isSpare := len(p.unused) > p.first || p.ahead+p.running == 0
		need := First
		if len(p.waiting[First]) == 0 && isSpare {
			need = Later
		}
		if len(p.waiting[need]) == 0 {
			return
		}
		p.waiting[need][0] <- p.unused[0]
		p.waiting[need], p.unused = p.waiting[need][1:], p.unused[1:]
		if need == First {
			p.first--
		}
	}
}

// Key returns a new key, and waits for it if necessary. After the first n keys each call generates
// one itself.
func (p *KeyPool) Key(need Need) (crypto.Signer, error) {
	p.mu.Lock()
	if p.free == 0 {
		p.mu.Unlock()
		return p.generate(p.algorithm)
	}
	p.free--
	result := make(chan generatedKey, 1)
	p.waiting[need] = append(p.waiting[need], result)
	p.deliver()
	p.mu.Unlock()
	select {
	case g := <-result:
		return g.key, g.err
	case <-p.ctx.Done():
		return nil, context.Cause(p.ctx)
	}
}
