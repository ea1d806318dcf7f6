package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// longCall calls do at one endpoint after the other until one answers. The call may take as long as
// etcd works on it; every five seconds its duration is reported.
func (k *Cluster) longCall(ctx context.Context, via state.Etcd,
	do func(context.Context, *clientv3.Client) error) error {
	if len(via.Endpoints) == 0 {
		return errors.New("no etcd endpoint is known")
	}
	config, err := k.loadTLSConfig(via)
	if err != nil {
		return err
	}
	started, ended := time.Now(), make(chan struct{})
	defer close(ended)
	go func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				world.ReportProgress(ctx, "etcd has been working on it for %s", time.Since(started).Round(time.Second))
			}
		}
	}()
	var all []error
	for _, endpoint := range via.Endpoints {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, DialTimeout: callTimeout,
			// A member that works on a call answers these; one whose machine is gone does not.
			DialKeepAliveTime: progressInterval * 2, DialKeepAliveTimeout: callTimeout * 5,
			MaxUnaryRetries: 1, Logger: clientv3.NewCtxClient(ctx).GetLogger()})
		if err == nil {
			err = errors.Join(do(ctx, c), c.Close())
		}
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		all = append(all, fmt.Errorf("at %s: %w", endpoint, untrusted.Error(err)))
	}
	return errors.Join(all...)
}

// defragment rewrites the database of one member, through one of its own addresses.
func (k *Cluster) defragment(ctx context.Context, c change.Defragment) error {
	via := c.Via
	via.Endpoints = c.Member.ClientURLs
	err := k.longCall(ctx, via, func(ctx context.Context, client *clientv3.Client) error {
		if c.Successor != 0 {
			moving, cancel := context.WithTimeout(ctx, callTimeout)
			// Where that fails, the members elect another leader by themselves.
			_, _ = etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).
				MoveLeader(moving, &etcdserverpb.MoveLeaderRequest{TargetID: c.Successor})
			cancel()
		}
		_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).
			Defragment(ctx, &etcdserverpb.DefragmentRequest{})
		return err
	})
	if err != nil {
		return problem.New(err, "check the log of etcd on that node, and whether its disk has room for a copy of the database",
			"if the kubelet has restarted etcd meanwhile, raise the failureThreshold of its liveness probe first")
	}
	return nil
}

// compact removes the revisions before one. Revisions that are compacted already are no error.
func (k *Cluster) compact(ctx context.Context, c change.CompactHistory) error {
	return k.longCall(ctx, c.Via, func(ctx context.Context, client *clientv3.Client) error {
		_, err := etcdserverpb.NewKVClient(client.ActiveConnection()).
			Compact(ctx, &etcdserverpb.CompactionRequest{Revision: c.Revision, Physical: true})
		if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			return nil
		}
		return err
	})
}

func (k *Cluster) disarm(ctx context.Context, c change.DisarmAlarm) error {
	kind, ok := etcdserverpb.AlarmType_value[c.Kind]
	if !ok {
		return fmt.Errorf("etcd has no alarm %q", c.Kind)
	}
	return k.tryEndpoints(ctx, c.Via, func(ctx context.Context, client *clientv3.Client) error {
		_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx,
			&etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_DEACTIVATE, MemberID: c.Member,
				Alarm: etcdserverpb.AlarmType(kind)})
		return err
	})
}
