package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"kubeadm/test/nodes"
)

//go:embed pressure.yaml
var pressureObjects string

// pressureSeats are the seats that one share of those of all priority levels yields on an API server with
// its default limits: 600 seats, 246 shares.
const pressureSeats = 3

// Of each cycle the seats are taken for the first part, and free for the second.
const (
	pressureHold  = time.Second
	pressurePause = 3 * time.Second
)

// slowClient sends the head of a request with a bootstrap token, but no body: while an API server waits for
// that, the request has a seat.
type slowClient struct {
	http  *http.Client
	token string
}

// pressurize gives joining machines few seats of each API server, and takes these again and again until the
// returned function is called.
func (c *simulatedMachines) pressurize(ctx context.Context) (relieve func(), err error) {
	const file = "/root/pressure.yaml"
	first := c.planes[0]
	if err := first.WriteFile(file, []byte(pressureObjects), 0o600); err != nil {
		return nil, err
	}
	if _, err := first.Kubectl(ctx, "apply", "--filename="+file); err != nil {
		return nil, err
	}
	token, err := valueIn(c.joinCommand, "--token")
	if err != nil {
		return nil, err
	}
	ca, err := first.ReadFile("/etc/kubernetes/pki/ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("ca.crt of %s has no certificate", first.Name())
	}
	client := slowClient{token: token, http: &http.Client{Transport: &http.Transport{
		DialContext: c.host.Cluster().Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, cp := range c.planes {
		group.Go(func() { client.takeSeats(ctx, cp) })
	}
	return func() {
		cancel()
		group.Wait()
	}, nil
}

// valueIn returns what follows a word in a join command.
func valueIn(command []string, word string) (string, error) {
	at := slices.Index(command, word)
	if at < 0 || at+1 == len(command) {
		return "", fmt.Errorf("the join command has no value of %s, but %d arguments", word, len(command))
	}
	return command[at+1], nil
}

// takeSeats takes all seats of an API server again and again.
func (s slowClient) takeSeats(ctx context.Context, cp *nodes.Node) {
	for ctx.Err() == nil {
		held, cancel := context.WithTimeout(ctx, pressureHold)
		var group sync.WaitGroup
		for range pressureSeats {
			group.Go(func() { s.keepSeat(held, "https://"+cp.Address()+":6443") })
		}
		<-held.Done()
		group.Wait()
		cancel()
		_ = sleepContext(ctx, pressurePause)
	}
}

// keepSeat takes one seat, as soon as there is one, until the context ends.
func (s slowClient) keepSeat(ctx context.Context, server string) {
	for ctx.Err() == nil {
		s.takeSeat(ctx, server)
		_ = sleepContext(ctx, 200*time.Millisecond)
	}
}

// takeSeat takes one seat until the context ends. It returns at once if a machine has it, or if the API
// server is restarting.
func (s slowClient) takeSeat(ctx context.Context, server string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		server+"/apis/certificates.k8s.io/v1/certificatesigningrequests", silentReader{ctx})
	if err != nil {
		return
	}
	req.ContentLength = 1000
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "slow-client")
	if answer, err := s.http.Do(req); err == nil {
		answer.Body.Close()
	}
}

// silentReader has no data until its context ends.
type silentReader struct{ until context.Context }

func (r silentReader) Read([]byte) (int, error) {
	<-r.until.Done()
	return 0, io.ErrUnexpectedEOF
}
