package main

import (
	"context"
	"fmt"

	"kubeadm/test/nodes"
)

// limitScenario measures about the least that init can take: with all files of the kubelet, etcd and
// the API server in place, the time from the start of the kubelet until the API server is live. The
// manifests of the other components, which would take CPU time from it, do not exist.
type limitScenario struct{ cp *nodes.Node }

func (l *limitScenario) stages() []stage { return []stage{{groupInitLimit, l.start}} }

func (l *limitScenario) options(b *bench) nodes.Options { return nodes.Options{Bundle: b.bundle} }

func (l *limitScenario) boot(ctx context.Context, cluster *nodes.Cluster, _ int) error {
	added, err := cluster.AddAll(ctx, "cp1")
	if err != nil {
		return err
	}
	l.cp = added[0]
	return sleepContext(ctx, bootDelay)
}

// start writes the files and starts the kubelet. Only the last command is timed; it includes the
// phase kubelet-start, which writes the kubelet's configuration in some milliseconds.
func (l *limitScenario) start(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if err := writeInitConfig(l.cp); err != nil {
		return nodes.Result{}, err
	}
	for _, phase := range [][]string{{"certs", "all"}, {"kubeconfig", "all"}, {"etcd", "local"},
		{"control-plane", "apiserver"}} {
		if r, err := l.cp.Run(ctx, "kubeadm", "init", "phase", phase[0], phase[1], "--config",
			initConfigFile); err != nil {
			return r, err
		}
	}
	return l.cp.Run(ctx, "sh", "-ec", fmt.Sprintf(`kubeadm init phase kubelet-start --config %s
		until curl --silent --fail --insecure --max-time 1 https://%s:6443/livez; do sleep 0.02; done`,
		initConfigFile, l.cp.Address()))
}
