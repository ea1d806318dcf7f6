package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"kubeadm/test/nodes"
)

// The database of etcd in groupEtcd: about 1 GB on disk.
const (
	etcdKeys      = 104_000
	etcdValueSize = 10_000
	etcdWriters   = 16
	etcdQuota     = 4 << 30 // bytes
)

const (
	peerSnapshot = "/root/upstream.db"
	ownSnapshot  = "/root/ours.db"
	etcdPKI      = "/etc/kubernetes/pki/etcd/"
)

// measureEtcd measures commands for snapshots of etcd beside etcdctl and etcdutl, which are upstream's
// here. Of a restore, the part is compared that creates the data: etcdutl stops and starts nothing.
func (b *bench) measureEtcd(ctx context.Context) (err error) {
	if !b.only.includes(groupEtcd) {
		return nil
	}
	if b.etcdTools == "" {
		return errors.New("the figures of etcd need --etcd-tools; make bench sets it")
	}
	c, err := nodes.NewCluster(ctx, nodes.Options{Bundle: b.bundle, Kubeadm: b.programs[0].path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cp, err := c.Add(ctx, "cp1")
	if err != nil {
		return err
	}
	for _, tool := range []string{"etcdctl", "etcdutl"} {
		if err := cp.Copy(path.Join(b.etcdTools, tool), "/usr/local/bin/"+tool, 0o755); err != nil {
			return err
		}
	}
	if err := sleepContext(ctx, bootDelay); err != nil {
		return err
	}
	config := nodes.Config{Address: cp.Address(), Cluster: fmt.Sprintf(
		"etcd: {local: {extraArgs: [{name: quota-backend-bytes, value: '%d'}]}}", etcdQuota)}
	if _, err := cp.Init(ctx, nodes.InitConfig(config), io.Discard); err != nil {
		return err
	}
	b.log("%s: writing %d MB into etcd", groupEtcd, etcdKeys*etcdValueSize/1_000_000)
	if err := fillEtcd(ctx, cp); err != nil {
		return fmt.Errorf("writing into etcd: %w", err)
	}
	for _, figure := range []struct {
		id             string
		ours, upstream []string
	}{
		{groupEtcd, []string{"kubeadm", "etcd", "snapshot", "save", ownSnapshot},
			[]string{"etcdctl", "--endpoints=https://127.0.0.1:2379", "--cacert=" + etcdPKI + "ca.crt",
				"--cert=" + etcdPKI + "server.crt", "--key=" + etcdPKI + "server.key", "snapshot", "save", peerSnapshot}},
		{etcdStatus, []string{"kubeadm", "etcd", "snapshot", "status", peerSnapshot},
			[]string{"etcdutl", "snapshot", "status", peerSnapshot}},
	} {
		if err := b.measureEtcdCommand(ctx, cp, figure.id, figure.ours, figure.upstream); err != nil {
			return err
		}
	}
	return b.measureEtcdRestore(ctx, cp)
}

// measureEtcdCommand runs both commands in turn. A snapshot that the last run has saved is removed first.
func (b *bench) measureEtcdCommand(ctx context.Context, cp *nodes.Node, id string, commands ...[]string) error {
	b.log("%s: %d runs each", id, b.rounds)
	for round := range b.rounds {
		for _, p := range orderForRound(b.programs, round) {
			args := commands[0]
			if p.name == upstream {
				args = commands[1]
			}
			if last := args[len(args)-1]; id == groupEtcd {
				if _, err := cp.Run(ctx, "rm", "-f", last); err != nil {
					return err
				}
			}
			r, err := cp.Run(ctx, args...)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			b.results.addRun(turn{Round: round + 1, Program: p.name}, id, r, err)
		}
	}
	return nil
}

// measureEtcdRestore restores the cluster, and creates the same data with etcdutl.
func (b *bench) measureEtcdRestore(ctx context.Context, cp *nodes.Node) error {
	b.log("%s: %d runs each", etcdRestore, b.rounds)
	for round := range b.rounds {
		for _, p := range orderForRound(b.programs, round) {
			t := turn{Round: round + 1, Program: p.name}
			if p.name == upstream {
				r, err := cp.Run(ctx, "etcdutl", "snapshot", "restore", peerSnapshot, "--data-dir=/var/lib/restored",
					"--bump-revision=1000000000", "--mark-compacted")
				b.results.addRun(t, etcdRestore, r, err)
				if _, err := cp.Run(ctx, "rm", "-rf", "/var/lib/restored"); err != nil {
					return err
				}
				continue
			}
			r, err := cp.Run(ctx, "kubeadm", "etcd", "restore", peerSnapshot, "--yes", "--events=json")
			if err == nil {
				b.log("  the whole restore took %.2f s", r.Duration.Seconds())
				r.Duration, err = findDuration(r.Stdout, "kubeadm-restored-")
			}
			b.results.addRun(t, etcdRestore, r, err)
			if _, err := cp.Run(ctx, "sh", "-c", "rm -rf /var/lib/etcd/kubeadm-kept-*"); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// findDuration returns how long the longest change took whose event has a word.
func findDuration(events, word string) (longest time.Duration, err error) {
	for line := range strings.Lines(events) {
		var e struct {
			DurationSeconds float64
		}
		if strings.Contains(line, word) && json.Unmarshal([]byte(line), &e) == nil {
			longest = max(longest, time.Duration(e.DurationSeconds*float64(time.Second)))
		}
	}
	if longest == 0 {
		err = fmt.Errorf("no event has %q and a duration", word)
	}
	return longest, err
}

// fillEtcd writes keys that Kubernetes does not read.
func fillEtcd(ctx context.Context, cp *nodes.Node) error {
	var files [3][]byte
	for i, name := range []string{"server.crt", "server.key", "ca.crt"} {
		data, err := cp.ReadFile(etcdPKI + name)
		if err != nil {
			return err
		}
		files[i] = data
	}
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(files[2])
	address := net.JoinHostPort(cp.Address(), "2379")
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + address},
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return cp.Cluster().Dial(ctx, "tcp", address)
		})}})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	g, ctx := errgroup.WithContext(ctx)
	for w := range etcdWriters {
		g.Go(func() error {
			value := make([]byte, etcdValueSize)
			for i := w; i < etcdKeys; i += etcdWriters {
				_, _ = rand.Read(value)
				if _, err := c.Put(ctx, fmt.Sprintf("/filler/%d", i), string(value)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
