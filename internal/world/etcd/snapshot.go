package etcd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/etcdsnapshot"
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

// Snapshot returns the snapshot of the first endpoint that answers and has the data of the cluster: a
// learner may not have all of them yet, and a member that has raised the alarm CORRUPT has others.
func (k *Cluster) Snapshot(ctx context.Context, via state.Etcd) (*Snapshot, error) {
	s := &Snapshot{cluster: k, via: via}
	err := k.tryEndpoints(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).
			Status(ctx, &etcdserverpb.StatusRequest{})
		if err != nil {
			return err
		}
		switch own := fmt.Sprintf("memberID:%d ", answer.GetHeader().GetMemberId()); {
		case answer.GetIsLearner():
			return errors.New("this member is a learner")
		case slices.ContainsFunc(answer.GetErrors(), func(alarm string) bool {
			return strings.HasPrefix(alarm, own) && strings.Contains(alarm, "CORRUPT")
		}):
			return errors.New("this member has raised the alarm CORRUPT")
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
	verifier := etcdsnapshot.NewVerifier()
	lastReport := time.Now()
	for {
		timer := time.AfterFunc(stallTimeout, func() {
			cancel(fmt.Errorf("etcd sent nothing for %s", stallTimeout))
		})
		part, err := receive(ctx)
		timer.Stop()
		if errors.Is(err, io.EOF) {
			if _, err := verifier.Sum(); err != nil {
				return fmt.Errorf("etcd sent %d bytes: %w", verifier.Size(), err)
			}
			return nil
		}
		if err != nil {
			return s.addContext(ctx, err)
		}
		if _, err := to.Write(part); err != nil {
			return err
		}
		_, _ = verifier.Write(part)
		if time.Since(lastReport) >= progressInterval {
			lastReport = time.Now()
			world.ReportProgress(ctx, "%d of %d MiB", verifier.Size()>>20, s.Size>>20)
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
