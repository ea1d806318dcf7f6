package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const serverPort = "6443"

// Balancer is a TCP load balancer with an address of its own in the cluster's network. It forwards
// each connection to the next backend that accepts it, and can simulate faults: Refuse, Delay,
// Flap.
type Balancer struct {
	cluster *Cluster

	mu          sync.Mutex
	listener    net.Listener // nil: connections are refused
	backends    []string
	turn        int
	lastFailure map[string]time.Time // when a backend did not take a connection
	delayed     chan struct{}        // closed when connections are to be served; nil: at once
	held        *heldClients         // nil: none
	stopFlap    func()
	unready     map[string]bool // backends that get no connections; see CheckReadiness
	stopChecks  func()
	clients     map[net.Conn]bool
}

// StartBalancer starts the cluster's load balancer, or returns the running one. It runs in this
// process until Close. It starts with the backends that the cluster's last balancer had.
func (c *Cluster) StartBalancer(ctx context.Context) (*Balancer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.balancer != nil {
		return c.balancer, nil
	}
	if err := runIPBatch(ctx, c.switchFile(),
		addressCommands("br0", c.record.Families.all()[0].balancer)...); err != nil {
		return nil, err
	}
	b := &Balancer{
		cluster: c, backends: slices.Clone(c.record.Backends),
		lastFailure: make(map[string]time.Time), clients: make(map[net.Conn]bool),
	}
	if err := b.Open(); err != nil {
		return nil, err
	}
	c.balancer = b
	return b, nil
}

// HasBalancer reports whether the cluster has, or had in another process, a load balancer with
// backends.
func (c *Cluster) HasBalancer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.record.Backends) > 0
}

// Endpoint is the balancer's address and port.
func (b *Balancer) Endpoint() string {
	return net.JoinHostPort(b.cluster.record.Families.all()[0].balancer, serverPort)
}

// SetBackends makes these nodes the only backends, each at the API server's port. Open connections
// stay. If readiness is checked, a new one gets connections once it is ready.
func (b *Balancer) SetBackends(backends ...*Node) error {
	var all []string
	for _, n := range backends {
		all = append(all, net.JoinHostPort(n.Address(), serverPort))
	}
	b.mu.Lock()
	for _, backend := range all {
		if b.unready != nil && !slices.Contains(b.backends, backend) {
			b.unready[backend] = true
		}
	}
	b.backends = all
	b.mu.Unlock()
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	b.cluster.record.Backends = all
	return b.cluster.save()
}

// Open accepts connections again after Refuse.
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

// Refuse closes all connections and refuses new ones until Open.
func (b *Balancer) Refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listener != nil {
		b.listener.Close()
		b.listener = nil
	}
	b.closeRandom(1)
}

// Delay accepts new connections during d, but forwards them only when d is over. Open connections
// stay.
func (b *Balancer) Delay(d time.Duration) {
	over := make(chan struct{})
	b.mu.Lock()
	b.delayed = over
	b.mu.Unlock()
	time.AfterFunc(d, func() { close(over) })
}

// heldClients are the clients whose connections are not forwarded yet.
type heldClients struct {
	from      netip.Prefix
	connected func(netip.Addr)
	last      map[netip.Addr]net.Conn
	released  chan struct{} // closed when connections are to be served
}

// Hold accepts new connections from these addresses, but forwards none until release is called. Of each
// client only the last connection is kept. Whenever there is a new one, connected is called.
func (b *Balancer) Hold(from netip.Prefix, connected func(netip.Addr)) (release func()) {
	held := &heldClients{from: from, connected: connected, last: make(map[netip.Addr]net.Conn),
		released: make(chan struct{})}
	b.mu.Lock()
	b.held = held
	b.mu.Unlock()
	return sync.OnceFunc(func() {
		b.mu.Lock()
		b.held = nil
		b.mu.Unlock()
		close(held.released)
	})
}

// keep replaces the client's last connection. The caller holds the lock.
func (b *Balancer) keep(client net.Conn, address netip.Addr) {
	if old := b.held.last[address]; old != nil {
		delete(b.clients, old)
		old.Close()
	}
	b.held.last[address] = client
}

// addressOf returns the address of the other side of a TCP connection.
func addressOf(conn net.Conn) netip.Addr {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// Flap closes one connection in five, at random, five times a second, until it is called with
// false.
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

// CheckReadiness begins to ask each backend for /readyz, and gives new connections only to those that
// are ready, as long as there is one: kube-apiserver accepts connections before it can authorize
// requests.
func (b *Balancer) CheckReadiness() {
	ctx, stop := context.WithCancel(context.Background())
	b.mu.Lock()
	b.stopChecks, b.unready = stop, make(map[string]bool)
	b.mu.Unlock()
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		DialContext: b.cluster.Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}}
	check := func(backend string) {
		answer, err := client.Get("https://" + backend + "/readyz")
		ready := err == nil && answer.StatusCode == http.StatusOK
		if err == nil {
			answer.Body.Close()
		}
		b.mu.Lock()
		b.unready[backend] = !ready
		b.mu.Unlock()
	}
	go func() {
		for ctx.Err() == nil {
			b.mu.Lock()
			backends := slices.Clone(b.backends)
			b.mu.Unlock()
			var all sync.WaitGroup
			for _, backend := range backends {
				all.Go(func() { check(backend) })
			}
			all.Wait()
			time.Sleep(300 * time.Millisecond)
		}
	}()
}

// Close stops the balancer and closes all its connections.
func (b *Balancer) Close() {
	b.Flap(false)
	if b.stopChecks != nil {
		b.stopChecks()
	}
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
		address, connected := addressOf(client), func(netip.Addr) {}
		b.mu.Lock()
		b.clients[client] = true
		wait := b.delayed
		if b.held != nil && b.held.from.Contains(address) {
			wait, connected = b.held.released, b.held.connected
			b.keep(client, address)
		}
		b.mu.Unlock()
		connected(address)
		go func() {
			if wait != nil {
				<-wait
			}
			b.mu.Lock()
			isOpen := b.clients[client] // not replaced
			b.mu.Unlock()
			if isOpen {
				b.serve(client)
			}
			b.mu.Lock()
			delete(b.clients, client)
			b.mu.Unlock()
		}()
	}
}

// serve copies data between client and backend until both have closed or one of them fails.
func (b *Balancer) serve(client net.Conn) {
	defer client.Close()
	backend, err := b.dialBackend()
	if err != nil {
		return // The client's connection is closed.
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

// copyUntilEOF copies until from is closed for writing, and then does the same to to.
func copyUntilEOF(to, from net.Conn) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// dialBackend connects to the next backend that accepts a connection.
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

// orderBackends lists the backends in turn (round robin), those that failed recently last.
func (b *Balancer) orderBackends() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return nil
	}
	b.turn = (b.turn + 1) % len(b.backends)
	list := slices.Concat(b.backends[b.turn:], b.backends[:b.turn])
	late := func(backend string) int {
		if b.unready[backend] {
			return 2
		}
		if at, ok := b.lastFailure[backend]; ok && time.Since(at) < 10*time.Second {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(x, y string) int { return late(x) - late(y) })
	return list
}

// setUserTimeout lets a connection fail when the other side is unreachable for five seconds, as
// after a power cut.
func setUserTimeout(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second,
		Interval: time.Second, Count: 3})
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
