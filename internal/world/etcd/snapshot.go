package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

const (
	stallTimeout     = 30 * time.Second // for the next part of a snapshot
	progressInterval = 5 * time.Second
)

// Snapshot is a snapshot of one member that has not been copied yet.
type Snapshot struct {
	// Size is the number of bytes of a copy with its checksum. The database may grow until it is
	// copied.
	Size uint64

	cluster *Cluster
	via     state.Etcd // of that member alone
}

// Snapshot returns the snapshot of the first endpoint that answers.
func (k *Cluster) Snapshot(ctx context.Context, via state.Etcd) (*Snapshot, error) {
	s := &Snapshot{cluster: k, via: via}
	err := k.tryEndpoints(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).
			Status(ctx, &etcdserverpb.StatusRequest{})
		if err != nil {
			return err
		}
		s.Size = uint64(max(answer.GetDbSize(), 0)) + sha256.Size
		s.via.Endpoints = c.Endpoints()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the size of etcd's database: %w", err)
	}
	return s, nil
}

// Copy writes the snapshot. It returns an error if the checksum that etcd sends at the end does not
// match, or if etcd sends nothing for half a minute.
func (s *Snapshot) Copy(ctx context.Context, to io.Writer) error {
	config, err := s.cluster.loadTLSConfig(s.via)
	if err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: s.via.Endpoints, TLS: config, DialTimeout: callTimeout, MaxUnaryRetries: 1,
		Logger: clientv3.NewCtxClient(ctx).GetLogger(),
	})
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = c.Close() }()
	var stream etcdserverpb.Maintenance_SnapshotClient
	return s.copyParts(ctx, to, func(ctx context.Context) ([]byte, error) {
		if stream == nil {
			if stream, err = etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).
				Snapshot(ctx, &etcdserverpb.SnapshotRequest{}); err != nil {
				return nil, err
			}
		}
		part, err := stream.Recv()
		return part.GetBlob(), err
	})
}

// copyParts writes the parts of a snapshot that receive returns until io.EOF. Only the time in which
// etcd sends nothing counts, not that in which the disk of this machine writes.
func (s *Snapshot) copyParts(ctx context.Context, to io.Writer,
	receive func(context.Context) ([]byte, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	verifier := &checksumVerifier{to: to, hash: sha256.New()}
	lastReport := time.Now()
	for {
		timer := time.AfterFunc(stallTimeout, func() {
			cancel(fmt.Errorf("etcd sent nothing for %s", stallTimeout))
		})
		part, err := receive(ctx)
		timer.Stop()
		if errors.Is(err, io.EOF) {
			return verifier.check()
		}
		if err != nil {
			return s.addContext(ctx, err)
		}
		if _, err := verifier.Write(part); err != nil {
			return err
		}
		if time.Since(lastReport) >= progressInterval {
			lastReport = time.Now()
			world.ReportProgress(ctx, "%d of %d MiB", verifier.written>>20, s.Size>>20)
		}
	}
}

func (s *Snapshot) addContext(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	err = fmt.Errorf("copying the database of etcd at %s: %w", s.via.Endpoints,
		untrusted.Error(err))
	return problem.New(err, "check the log of the etcd container: crictl logs CONTAINERID")
}

// checksumVerifier passes a snapshot on and compares the SHA-256 at its end with that of the data.
type checksumVerifier struct {
	to   io.Writer
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	tail    []byte // the last bytes, possibly the checksum
	written uint64
}

func (c *checksumVerifier) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.written += uint64(n)
	if err != nil {
		return n, err
	}
	c.tail = append(c.tail, p...)
	if data := len(c.tail) - sha256.Size; data > 0 {
		_, _ = c.hash.Write(c.tail[:data]) // a hash never fails
		c.tail = append(c.tail[:0], c.tail[data:]...)
	}
	return n, nil
}

// check returns an error unless a complete snapshot was written.
func (c *checksumVerifier) check() error {
	const sector = 512 // the size of the database is a multiple of it
	switch {
	case c.written%sector != sha256.Size || c.written < sector:
		return fmt.Errorf("the snapshot is incomplete: etcd sent %d bytes", c.written)
	case !bytes.Equal(c.tail, c.hash.Sum(nil)):
		return errors.New("the snapshot does not match its checksum")
	}
	return nil
}
