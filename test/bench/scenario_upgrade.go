package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"kubeadm/test/nodes"
)

// These create the clusters that are upgraded. They are not figures.
const (
	groupOlderCluster = "older-cluster"
	groupOlderPlanes  = "older-control-planes"
)

// upgradeScenario upgrades a cluster of the older release with one control plane node.
type upgradeScenario struct {
	cp, worker *nodes.Node
	version    string        // of the older release
	gap        time.Duration // the longest time in which the API server did not answer
}

func (u *upgradeScenario) stages() []stage {
	return []stage{{groupOlderCluster, u.create}, {groupUpgradeApply, u.apply},
		{groupUpgradeNode, u.upgradeWorker}}
}

func (u *upgradeScenario) options(b *bench) nodes.Options {
	return nodes.Options{Bundle: b.bundle, Older: []string{b.older}}
}

func (u *upgradeScenario) boot(ctx context.Context, cluster *nodes.Cluster, _ int) error {
	added, err := cluster.AddAll(ctx, "cp1", "worker1")
	if err != nil {
		return err
	}
	u.cp, u.worker = added[0], added[1]
	for _, n := range added {
		if err := n.UseRelease(ctx, u.version); err != nil {
			return err
		}
	}
	return sleepContext(ctx, bootDelay)
}

func (u *upgradeScenario) create(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	r, err := u.cp.Init(ctx, nodes.InitConfig(nodes.Config{Address: u.cp.Address(),
		Version: u.version}), io.Discard)
	if err != nil {
		return r, err
	}
	join, _, err := nodes.JoinCommands(r.Stdout)
	if err != nil {
		return r, err
	}
	if _, err := u.worker.Join(ctx, join, io.Discard); err != nil {
		return r, err
	}
	if err := awaitReady(ctx, u.cp, u.worker); err != nil {
		return r, err
	}
	return r, errors.Join(u.cp.AwaitDNS(ctx), sleepContext(ctx, settleTime))
}

// probeScript writes the time of each good answer of the API server, until it is told to stop.
const probeScript = `rm -f /root/stop
while [ ! -e /root/stop ]; do
	curl --silent --fail --insecure --max-time 1 https://%s:6443/livez >/dev/null && date +%%s%%N
	sleep 0.05
done`

func (u *upgradeScenario) apply(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*commandTimeout)
	defer cancel()
	probe, err := u.cp.Start(ctx, "sh", "-c", fmt.Sprintf(probeScript, u.cp.Address()))
	if err != nil {
		return nodes.Result{}, err
	}
	r, err := applyUpgrade(ctx, u.cp)
	_, stopped := u.cp.Run(ctx, "touch", "/root/stop")
	answers, failed := probe.Wait()
	if err := errors.Join(err, stopped, failed); err != nil {
		return r, err
	}
	u.gap, err = longestGap(answers.Stdout)
	return r, err
}

// upgradeTarget is the version that both programs have.
const upgradeTarget = "v1.37.1"

// longestGap is the longest time between two lines, each a time in nanoseconds.
func longestGap(lines string) (gap time.Duration, err error) {
	var last int64
	for line := range strings.Lines(lines) {
		at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the answers of the API server: %w", err)
		}
		if last > 0 {
			gap = max(gap, time.Duration(at-last))
		}
		last = at
	}
	if last == 0 {
		return 0, errors.New("the API server never answered")
	}
	return gap, nil
}

func (u *upgradeScenario) upgradeWorker(ctx context.Context) (nodes.Result, error) {
	return upgradeNode(ctx, u.worker)
}

func applyUpgrade(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	return n.Run(ctx, "kubeadm", "upgrade", "apply", upgradeTarget, "--yes",
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
}

func upgradeNode(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*commandTimeout)
	defer cancel()
	return n.Run(ctx, "kubeadm", "upgrade", "node",
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
}

// planeUpgradeScenario upgrades the second of two control planes of the older release.
type planeUpgradeScenario struct{ controlPlaneScenario }

func (u *planeUpgradeScenario) stages() []stage {
	return []stage{{groupOlderPlanes, u.create}, {groupUpgradePlane, u.upgrade}}
}

func (u *planeUpgradeScenario) options(b *bench) nodes.Options {
	return nodes.Options{Bundle: b.bundle, Older: []string{b.older}}
}

func (u *planeUpgradeScenario) boot(ctx context.Context, cluster *nodes.Cluster, _ int) error {
	if err := u.bootPlanes(ctx, cluster, "cp1", "cp2"); err != nil {
		return err
	}
	for _, n := range u.nodes {
		if err := n.UseRelease(ctx, u.version); err != nil {
			return err
		}
	}
	return nil
}

// create creates the cluster and upgrades its first control plane.
func (u *planeUpgradeScenario) create(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*commandTimeout)
	defer cancel()
	r, err := u.init(ctx)
	if err != nil {
		return r, err
	}
	if err := sleepContext(ctx, joinDelay); err != nil {
		return r, err
	}
	if _, err := u.joinNode(ctx, u.nodes[1]); err != nil {
		return r, err
	}
	if err := errors.Join(awaitReady(ctx, u.nodes...), u.nodes[0].AwaitDNS(ctx),
		sleepContext(ctx, settleTime)); err != nil {
		return r, err
	}
	return applyUpgrade(ctx, u.nodes[0])
}

func (u *planeUpgradeScenario) upgrade(ctx context.Context) (nodes.Result, error) {
	return upgradeNode(ctx, u.nodes[1])
}
