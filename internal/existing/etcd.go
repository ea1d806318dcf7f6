package existing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/problem"
)

// findPodsTimeout limits the search for etcd's Pods: the API server may need the etcd member that does
// not answer.
const findPodsTimeout = 5 * time.Second

// Etcd returns how this control plane node reaches its etcd cluster, and the health of the members. It
// warns if the cluster has no quorum. The endpoints returned are those of all voters, the healthy ones
// first.
func (m Machine) Etcd(ctx context.Context, e *engine.Env) (etcdcluster.Client, etcdcluster.Health, error) {
	if err := etcddata.CheckNone(ctx, e.World, m.Paths); err != nil {
		return etcdcluster.Client{}, etcdcluster.Health{}, err
	}
	client, err := etcdcluster.ReadClient(ctx, e.World, m.Paths)
	if err != nil {
		return client, etcdcluster.Health{}, err
	}
	health, isStale, err := client.CheckMembers(ctx, e.World)
	if err != nil && !client.External {
		health, isStale, err = m.checkPodMembers(ctx, e, &client, err)
	}
	if err != nil {
		return client, health, problem.New(err,
			"check the log of the etcd container: crictl ps -a --name etcd; crictl logs CONTAINERID")
	}
	if isStale {
		e.Warn("etcd has no quorum: the list of members is the one that a single member knows")
	}
	if all := health.Endpoints(); len(all) > 0 && !client.External {
		client.Endpoints = all
	}
	return client, health, nil
}

// checkPodMembers asks the members whose Pods the API server knows.
func (m Machine) checkPodMembers(ctx context.Context, e *engine.Env, client *etcdcluster.Client,
	failed error) (etcdcluster.Health, bool, error) {
	limited, cancel := context.WithTimeout(ctx, findPodsTimeout)
	defer cancel()
	found, err := etcdcluster.FindEndpoints(limited, e.World, m.As)
	if err != nil {
		return etcdcluster.Health{}, false, fmt.Errorf("%w; %w", failed, err)
	}
	found = slices.DeleteFunc(found, func(url string) bool {
		return slices.Contains(client.Endpoints, url)
	})
	if len(found) == 0 {
		return etcdcluster.Health{}, false, failed
	}
	client.Endpoints = found
	return client.CheckMembers(ctx, e.World)
}
