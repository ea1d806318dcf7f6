package etcd

import (
	"context"
	"crypto/tls"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/state"
)

// TLSConfig is how tests connect.
func (k *Cluster) TLSConfig(via state.Etcd) (*tls.Config, error) { return k.loadTLSConfig(via) }

// RaiseAlarm raises an alarm of a member.
func (k *Cluster) RaiseAlarm(ctx context.Context, via state.Etcd, member uint64, kind etcdserverpb.AlarmType) error {
	return k.tryEndpoints(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
		_, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Alarm(ctx,
			&etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: member,
				Alarm: kind})
		return err
	})
}

// NewTestClient returns a client for tests.
func NewTestClient(readFile func(string) ([]byte, error), via state.Etcd) (*clientv3.Client, error) {
	trust, err := New(readFile).loadTLSConfig(via)
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{Endpoints: via.Endpoints, TLS: trust, DialTimeout: callTimeout})
}
