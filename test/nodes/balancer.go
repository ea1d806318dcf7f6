package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const serverPort = "6443"

// Balancer is a load balancer for TCP with an address of its own in the cluster's network. It passes each connection to
// the next of its backends that takes it, and is as bad to its clients as it is told to be.
type Balancer struct {
	cluster *Cluster

	mu          sync.Mutex
	listener    net.Listener // nil: connections are refused
	backends    []string
	turn        int
	lastFailure map[string]time.Time // when a backend did not take a connection
	delayed     chan struct{}        // closed when connections are to be served; nil: at once
	stopFlap    func()
	clients     map[net.Conn]bool
}

// StartBalancer starts the cluster's load balancer, or returns the one that was started. It is part of this process and ends
// with it, or with Close. At first its backends are those that the cluster's last one had.
func (c *Cluster) StartBalancer(ctx context.Context) (*Balancer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.balancer != nil {
		return c.balancer, nil
	}
	if err := runIPBatch(ctx, c.switchFile(), addressCommands("br0", c.record.Families.all()[0].balancer)...); err != nil {
		return nil, err
	}
	b := &Balancer{
		cluster: c, backends: slices.Clone(c.record.Backends), lastFailure: make(map[string]time.Time), clients: make(map[net.Conn]bool),
	}
	if err := b.Open(); err != nil {
		return nil, err
	}
	c.balancer = b
	return b, nil
}

// HasBalancer tells whether the cluster has, or had in another process, a load balancer with backends.
func (c *Cluster) HasBalancer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.record.Backends) > 0
}

// Endpoint is the balancer's address and port, as clients are to be told.
func (b *Balancer) Endpoint() string {
	return net.JoinHostPort(b.cluster.record.Families.all()[0].balancer, serverPort)
}

// SetBackends makes these nodes the only backends, each at the port of an API server. Connections that are there go on.
func (b *Balancer) SetBackends(backends ...*Node) error {
	var all []string
	for _, n := range backends {
		all = append(all, net.JoinHostPort(n.Address(), serverPort))
	}
	b.mu.Lock()
	b.backends = all
	b.mu.Unlock()
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	b.cluster.record.Backends = all
	return b.cluster.save()
}

// Open takes connections again after Refuse. A balancer is open at first.
func (b *Balancer) Open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listener != nil {
		return nil
	}
	listener, err := b.cluster.listen(b.Endpoint())
	if err != nil {
		return fmt.Errorf("starting the load balancer: %w", err)
	}
	b.listener = listener
	go b.accept(listener)
	return nil
}

// Refuse cuts all connections and refuses new ones, as a balancer that is down does, until Open.
func (b *Balancer) Refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listener != nil {
		b.listener.Close()
		b.listener = nil
	}
	b.closeRandom(1)
}

// Delay takes connections but serves them, and those that come meanwhile, only when the time is over. Connections that
// are there go on.
func (b *Balancer) Delay(d time.Duration) {
	over := make(chan struct{})
	b.mu.Lock()
	b.delayed = over
	b.mu.Unlock()
	time.AfterFunc(d, func() { close(over) })
}

// Flap cuts one connection in five, at random, five times a second, until it is called with false.
func (b *Balancer) Flap(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopFlap != nil {
		b.stopFlap()
		b.stopFlap = nil
	}
	if !on {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stopFlap = stop
	go func() {
		for ctx.Err() == nil {
			b.mu.Lock()
			b.closeRandom(0.2)
			b.mu.Unlock()
			time.Sleep(200 * time.Millisecond)
		}
	}()
}

// Close ends the balancer and all its connections.
func (b *Balancer) Close() {
	b.Flap(false)
	b.Refuse()
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	b.cluster.balancer = nil
}

// closeRandom closes each connection with the probability given. The caller holds the lock.
func (b *Balancer) closeRandom(probability float64) {
	for client := range b.clients {
		if rand.Float64() < probability {
			client.Close()
		}
	}
}

func (b *Balancer) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // It was closed.
		}
		b.mu.Lock()
		b.clients[client] = true
		held := b.delayed
		b.mu.Unlock()
		go func() {
			if held != nil {
				<-held
			}
			b.serve(client)
			b.mu.Lock()
			delete(b.clients, client)
			b.mu.Unlock()
		}()
	}
}

// serve passes on what client and backend say, until both have ended or one of them breaks.
func (b *Balancer) serve(client net.Conn) {
	defer client.Close()
	backend, err := b.dialBackend()
	if err != nil {
		return // A client is told no more than that.
	}
	defer backend.Close()
	done := make(chan error, 2)
	for from, to := range map[net.Conn]net.Conn{client: backend, backend: client} {
		go func() { done <- copyUntilEOF(to, from) }()
	}
	if err := <-done; err == nil {
		<-done
	}
}

// copyUntilEOF copies until from ends, and passes on the end.
func copyUntilEOF(to, from net.Conn) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// dialBackend connects to the next backend that takes a connection.
func (b *Balancer) dialBackend() (net.Conn, error) {
	failed := errors.New("the load balancer has no backends")
	for _, backend := range b.orderBackends() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		conn, err := b.cluster.Dial(ctx, "tcp", backend)
		cancel()
		b.mu.Lock()
		if err == nil {
			delete(b.lastFailure, backend)
		} else {
			b.lastFailure[backend] = time.Now()
		}
		b.mu.Unlock()
		if err == nil {
			return conn, setUserTimeout(conn)
		}
		failed = err
	}
	return nil, failed
}

// orderBackends lists the backends, the one whose turn it is first, and last those that lately took no connection.
func (b *Balancer) orderBackends() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return nil
	}
	b.turn = (b.turn + 1) % len(b.backends)
	list := slices.Concat(b.backends[b.turn:], b.backends[:b.turn])
	late := func(backend string) int {
		if at, ok := b.lastFailure[backend]; ok && time.Since(at) < 10*time.Second {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(x, y string) int { return late(x) - late(y) })
	return list
}

// setUserTimeout lets a connection break when the other side has not been heard of for five seconds, which is how a node goes
// that loses its power.
func setUserTimeout(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3})
	if err != nil {
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 5000)
	})
	return errors.Join(err, failed)
}
