package nodes

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// testBalancer has two nodes answer with their names at the API server's port.
func testBalancer(t *testing.T, c *Cluster, a, b *Node) {
	balancer, err := c.StartBalancer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer balancer.Close()
	if err := balancer.SetBackends(a, b); err != nil {
		t.Fatal(err)
	}
	startServer(t, a, serverPort, "SYSTEM:hostname")
	second := startServer(t, b, serverPort, "SYSTEM:hostname")
	ask := func() (string, error) {
		conn, err := c.Dial(t.Context(), "tcp", balancer.Endpoint())
		if err != nil {
			return "", err
		}
		defer conn.Close()
		said, err := io.ReadAll(conn)
		return strings.TrimSpace(string(said)), err
	}
	seen := make(map[string]int)
	count := func() map[string]int {
		clear(seen)
		for range 10 {
			said, err := ask()
			if err != nil {
				t.Fatal(err)
			}
			seen[said]++
		}
		return seen
	}
	if count(); seen[a.Name()] == 0 || seen[b.Name()] == 0 {
		t.Errorf("of ten answers, these by each: %v", seen)
	}
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	second.Wait() // Only then the port is closed. The error is the signal.
	if count(); seen[a.Name()] != 10 {
		t.Errorf("of ten answers when only one is there, these by each: %v", seen)
	}
	held := time.Now()
	balancer.Delay(time.Second)
	if said, err := ask(); said != a.Name() || time.Since(held) < time.Second {
		t.Errorf("a balancer that holds connections for a second answered %q after %s: %v", said,
			time.Since(held), err)
	}
	balancer.Refuse()
	if said, err := ask(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a balancer that refuses answered %q: %v", said, err)
	}
	if err := balancer.Open(); err != nil {
		t.Fatal(err)
	}
	if said, err := ask(); said != a.Name() {
		t.Errorf("a balancer that is open again answered %q: %v", said, err)
	}
	testFlapping(t, c, balancer, a)
}

// testFlapping keeps a connection open until the balancer closes it.
func testFlapping(t *testing.T, c *Cluster, balancer *Balancer, n *Node) {
	startServer(t, n, "6444", "PIPE")
	balancer.mu.Lock()
	balancer.backends = []string{n.Address() + ":6444"}
	balancer.mu.Unlock()
	echoed := func(conn io.ReadWriter) error {
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	conn, err := c.Dial(t.Context(), "tcp", balancer.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := echoed(conn); err != nil {
		t.Fatal(err)
	}
	balancer.Flap(true)
	defer balancer.Flap(false)
	err = pollUntil(t.Context(), "a flapping balancer to cut the connection", pollLimit,
		func(context.Context) error {
			if echoed(conn) == nil {
				return errors.New("it echoes")
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// startServer has socat answer each connection to a port of a node.
func startServer(t *testing.T, n *Node, port, how string) *Process {
	t.Helper()
	server, err := n.Start(t.Context(), "socat", "TCP-LISTEN:"+port+",fork,reuseaddr", how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Kill()
		server.Wait()
	})
	// Checked on the node, since the balancer counts connections.
	err = pollUntil(t.Context(), "a server at port "+port, pollLimit,
		func(ctx context.Context) error {
			_, err := n.Run(ctx, "sh", "-c", "ss --no-header --listening --tcp --numeric | grep :"+
				port)
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// TestHeldConnectionsAreServedAfterRelease sees that a connection is served by its end: there are no backends.
func TestHeldConnectionsAreServedAfterRelease(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	b := &Balancer{clients: make(map[net.Conn]bool)}
	seen := make(chan netip.Addr, 2)
	release := b.Hold(netip.MustParsePrefix("127.0.0.0/8"), func(client netip.Addr) { seen <- client })
	go b.accept(listener)
	connect := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	hasEnded := func(conn net.Conn, within time.Duration) bool {
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Read(make([]byte, 1))
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	first := connect()
	defer first.Close()
	if client := <-seen; client != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("the first client is %s", client)
	}
	if hasEnded(first, 50*time.Millisecond) {
		t.Error("a held connection ended")
	}
	second := connect()
	defer second.Close()
	<-seen
	if !hasEnded(first, 10*time.Second) || hasEnded(second, 50*time.Millisecond) {
		t.Error("of a client's two connections not only the last one was kept")
	}
	release()
	if !hasEnded(second, 10*time.Second) {
		t.Error("a connection was still held after the release")
	}
}
