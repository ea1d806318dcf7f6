package plane

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/etcd"
)

// Etcd is a cluster of etcd processes.
type Etcd struct {
	Via state.Etcd // reaches the first member

	dir     string
	members []string // "name=peerURL" of all started members
	cas     map[string]pki.CA
}

// StartEtcd starts a cluster of one member and waits until it answers.
func StartEtcd(t *testing.T) *Etcd {
	t.Helper()
	BundleDir(t)
	e := &Etcd{dir: t.TempDir()}
	var err error
	if e.cas, err = writeCertificates(e.dir); err != nil {
		t.Fatal(err)
	}
	client := "https://" + freeAddress(t)
	e.Via = state.Etcd{
		Endpoints: []string{client},
		CAFile:    filepath.Join(e.dir, "etcd/ca.crt"),
		CertFile:  filepath.Join(e.dir, "etcd/healthcheck-client.crt"),
		KeyFile:   filepath.Join(e.dir, "etcd/healthcheck-client.key"),
	}
	e.startMember(t, client, e.PeerURL(t), "new")
	waitFor(t, "etcd", func(ctx context.Context) error {
		_, err := etcd.New(os.ReadFile).Members(ctx, e.Via)
		return err
	})
	return e
}

// PeerURL returns an unused peer URL for another member.
func (e *Etcd) PeerURL(t *testing.T) string { return "https://" + freeAddress(t) }

// Join starts a member that was added with that peer URL. kill ends it.
func (e *Etcd) Join(t *testing.T, peerURL string) (kill func()) {
	return e.startMember(t, "https://"+freeAddress(t), peerURL, "existing")
}

// StartRestored starts a member of its own cluster with the data in dir, and returns how to reach it.
func (e *Etcd) StartRestored(t *testing.T, name, peerURL, dir string) state.Etcd {
	via := e.Via
	via.Endpoints = []string{"https://" + freeAddress(t)}
	e.start(t, via.Endpoints[0], peerURL, "--name", name, "--data-dir", dir,
		"--initial-cluster", name+"="+peerURL, "--initial-cluster-state", "existing")
	waitFor(t, "etcd", func(ctx context.Context) error {
		_, err := etcd.New(os.ReadFile).Members(ctx, via)
		return err
	})
	return via
}

func (e *Etcd) startMember(t *testing.T, client, peer, state string) (kill func()) {
	name := []string{"first", "second", "third"}[len(e.members)]
	e.members = append(e.members, name+"="+peer)
	return e.start(t, client, peer, "--name", name, "--data-dir", filepath.Join(e.dir, "data-"+name),
		"--initial-cluster", strings.Join(e.members, ","), "--initial-cluster-state", state)
}

func (e *Etcd) start(t *testing.T, client, peer string, args ...string) (kill func()) {
	in := func(file string) string { return filepath.Join(e.dir, "etcd", file) }
	return startProgram(t, e.dir, "etcd", append(args,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--client-cert-auth", "--cert-file", in("server.crt"), "--key-file", in("server.key"),
		"--trusted-ca-file", in("ca.crt"),
		"--peer-client-cert-auth", "--peer-cert-file", in("peer.crt"), "--peer-key-file",
		in("peer.key"), "--peer-trusted-ca-file", in("ca.crt"),
		"--unsafe-no-fsync")...)
}

func waitFor(t *testing.T, name string, check func(context.Context) error) {
	t.Helper()
	err := world.Poll(t.Context(), nil, world.Condition{Name: name, Timeout: 3 * time.Minute,
		Check: func(ctx context.Context, _ state.Reader) error { return check(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
}
