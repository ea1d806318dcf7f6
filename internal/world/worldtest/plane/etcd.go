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

// Etcd is an etcd cluster of processes.
type Etcd struct {
	Via state.Etcd // reaches the first member

	dir     string
	members []string // "name=peerURL" of all that were started
	cas     map[string]pki.CA
}

// StartEtcd starts a cluster of one member and returns once it answers.
func StartEtcd(t *testing.T) *Etcd {
	t.Helper()
	Bundle(t)
	e := &Etcd{dir: t.TempDir()}
	var err error
	if e.cas, err = certificates(e.dir); err != nil {
		t.Fatal(err)
	}
	client := "https://" + address(t)
	e.Via = state.Etcd{
		Endpoints: []string{client},
		CAFile:    filepath.Join(e.dir, "etcd/ca.crt"),
		CertFile:  filepath.Join(e.dir, "etcd/healthcheck-client.crt"),
		KeyFile:   filepath.Join(e.dir, "etcd/healthcheck-client.key"),
	}
	e.run(t, client, e.PeerURL(t), "new")
	await(t, "etcd", func(ctx context.Context) error {
		_, err := etcd.New(os.ReadFile).Members(ctx, e.Via)
		return err
	})
	return e
}

// PeerURL is one at which a further member may listen.
func (e *Etcd) PeerURL(t *testing.T) string { return "https://" + address(t) }

// Join starts one more member that has been announced under that peer URL; kill ends it.
func (e *Etcd) Join(t *testing.T, peerURL string) (kill func()) {
	return e.run(t, "https://"+address(t), peerURL, "existing")
}

func (e *Etcd) run(t *testing.T, client, peer, state string) (kill func()) {
	name := []string{"first", "second", "third"}[len(e.members)]
	e.members = append(e.members, name+"="+peer)
	in := func(file string) string { return filepath.Join(e.dir, "etcd", file) }
	return start(t, e.dir, "etcd",
		"--name", name, "--data-dir", filepath.Join(e.dir, "data-"+name),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(e.members, ","), "--initial-cluster-state", state,
		"--client-cert-auth", "--cert-file", in("server.crt"), "--key-file", in("server.key"), "--trusted-ca-file", in("ca.crt"),
		"--peer-client-cert-auth", "--peer-cert-file", in("peer.crt"), "--peer-key-file", in("peer.key"), "--peer-trusted-ca-file", in("ca.crt"),
		"--unsafe-no-fsync")
}

func await(t *testing.T, name string, check func(context.Context) error) {
	t.Helper()
	err := world.Poll(t.Context(), nil, world.Condition{Name: name, Timeout: 3 * time.Minute,
		Check: func(ctx context.Context, _ state.Reader) error { return check(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
}
