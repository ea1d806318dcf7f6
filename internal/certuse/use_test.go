package certuse

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// machine answers for one component.
type machine struct {
	*fake.World
	served     *x509.Certificate // nil: nothing listens
	containers []state.Container // oldest first
	written    time.Time         // of every file
	err        error             // of listing containers
}

func (m machine) ServedCertificate(context.Context, string) (*x509.Certificate, error) {
	if m.served == nil {
		return nil, state.ErrNoServer
	}
	return m.served, nil
}

func (m machine) Containers(context.Context, string) ([]state.Container, error) {
	return m.containers, m.err
}

func (m machine) Stat(context.Context, string) (state.FileInfo, error) {
	return state.FileInfo{ModTime: m.written}, nil
}

func newCertificate(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: "c",
		Validity: pki.NewValidity(time.Now(), time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return ca.Certificate
}

// A stale component is restarted. One that is starting is waited for, as a restart would only begin
// that again; one of which nothing is known is left alone.
func TestWhetherAComponentUsesTheCertificateOfItsFile(t *testing.T) {
	const component = "etcd"
	file, older := newCertificate(t), newCertificate(t)
	written := time.Unix(1000, 0)
	newContainer := func(name string, age time.Duration, running bool) state.Container {
		return state.Container{ID: name, Component: component, Name: name, Running: running,
			Created: written.Add(age), ExitCode: 1}
	}
	before, after := newContainer(component, -time.Second, true), newContainer(component, time.Second, true)
	exited := newContainer(component, time.Second, false)
	sidecar := newContainer("sidecar", 2*time.Second, false)
	unknown := errors.New("the container runtime does not answer")
	const server, client = "192.0.2.10:2379", ""
	for name, c := range map[string]struct {
		server   string
		m        machine
		stale    bool
		starting bool
		fails    bool
	}{
		"serves it":                      {server: server, m: machine{served: file}},
		"serves another one":             {server: server, m: machine{served: older}, stale: true},
		"has exited":                     {server: server, m: machine{containers: []state.Container{before, exited}}, stale: true},
		"runs and does not listen yet":   {server: server, m: machine{containers: []state.Container{exited, after}}, starting: true},
		"has no container yet":           {server: server, starting: true},
		"only its sidecar has exited":    {server: server, m: machine{containers: []state.Container{after, sidecar}}, starting: true},
		"unknown whether it has exited":  {server: server, m: machine{err: unknown}, fails: true},
		"client, started after the file": {server: client, m: machine{containers: []state.Container{after}}},
		"client, started before the file": {server: client, m: machine{containers: []state.Container{before}},
			stale: true},
		"client, not running": {server: client, m: machine{containers: []state.Container{exited}}, stale: true},
		"client, unknown":     {server: client, m: machine{err: unknown}, fails: true},
	} {
		c.m.World, c.m.written = fake.New(), written
		u := Use{Component: component, Path: "/etc/kubernetes/pki/etcd/server.crt", Certificate: file,
			Server: c.server}
		err := u.Condition(&node.Node{}).Check(t.Context(), c.m)
		var stale StaleError
		if errors.As(err, &stale) != c.stale || errors.Is(err, ErrStarting) != c.starting ||
			(err != nil) != (c.stale || c.starting || c.fails) {
			t.Errorf("%s: %v", name, err)
		}
		// Waiting changes nothing for a client, which reads its file only when it starts.
		if world.IsPermanent(err) != (c.stale && c.server == client) {
			t.Errorf("%s: permanent: %t", name, world.IsPermanent(err))
		}
	}
}
