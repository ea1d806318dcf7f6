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
	stallTimeout  = 30 * time.Second // within which the next part of a snapshot must come
	progressEvery = 5 * time.Second
)

// Snapshot is the data of one member, to be copied.
type Snapshot struct {
	// Size is how many bytes a copy takes, the checksum included. etcd may have grown a little by
	// the time of the copy.
	Size uint64

	cluster *Cluster
	via     state.Etcd // of that member alone
}

// Snapshot asks the endpoints, one after the other, until a member answers.
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
		return nil, fmt.Errorf("asking etcd for the size of its database: %w", err)
	}
	return s, nil
}

// Copy writes the snapshot. It fails where the data do not have the checksum that etcd sends after
// them, and where no more data come for half a minute.
func (s *Snapshot) Copy(ctx context.Context, to io.Writer) error {
	config, err := s.cluster.loadTLSConfig(s.via)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := clientv3.New(clientv3.Config{
		Endpoints: s.via.Endpoints, TLS: config, DialTimeout: callTimeout, MaxUnaryRetries: 1,
		Logger: clientv3.NewCtxClient(ctx).GetLogger(),
	})
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = c.Close() }()
	stall := fmt.Errorf("etcd has sent nothing for %s", stallTimeout)
	timer := time.AfterFunc(stallTimeout, func() { cancel(stall) })
	defer timer.Stop()
	stream, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).
		Snapshot(ctx, &etcdserverpb.SnapshotRequest{})
	if err != nil {
		return s.explain(ctx, err)
	}
	sums := &checksummed{to: to, hash: sha256.New()}
	told := time.Now()
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return sums.check()
		}
		if err != nil {
			return s.explain(ctx, err)
		}
		if _, err := sums.Write(part.GetBlob()); err != nil {
			return err
		}
		timer.Reset(stallTimeout)
		if time.Since(told) >= progressEvery {
			told = time.Now()
			world.ReportProgress(ctx, "%d of %d MiB", sums.written>>20, s.Size>>20)
		}
	}
}

func (s *Snapshot) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	err = fmt.Errorf("copying the database of etcd at %s: %w", s.via.Endpoints,
		untrusted.Error(err))
	return problem.New("", err, "see whether etcd is healthy: crictl logs its container")
}

// checksummed passes a snapshot on, and compares the SHA-256 at its end with that of all before
// it.
type checksummed struct {
	to   io.Writer
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	tail    []byte // the last bytes, which may be the checksum
	written uint64
}

func (c *checksummed) Write(p []byte) (int, error) {
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

// check is an error unless all that was written is a whole snapshot.
func (c *checksummed) check() error {
	const sector = 512 // the database is a multiple of it
	switch {
	case c.written%sector != sha256.Size || c.written < sector:
		return fmt.Errorf("etcd has sent %d bytes, which is no whole snapshot", c.written)
	case !bytes.Equal(c.tail, c.hash.Sum(nil)):
		return errors.New("the snapshot that etcd has sent does not have the checksum that came with it")
	}
	return nil
}
