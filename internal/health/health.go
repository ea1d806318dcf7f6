// Package health reports whether a kubelet and the components of a control plane are healthy, what keeps
// them from being so, and what to do about it.
package health

import (
	"context"
	"fmt"
	"net"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Kubelet holds once the kubelet says that it is well, where its configuration file says that it does.
func Kubelet(ctx context.Context, r state.Reader, n *node.Node) world.Condition {
	config := kubeletConfig(ctx, r, n)
	host, port := "127.0.0.1", int32(10248)
	if config.HealthzBindAddress != "" {
		host = config.HealthzBindAddress
	}
	if config.HealthzPort != nil {
		port = *config.HealthzPort
	}
	url := fmt.Sprintf("http://%s/healthz", net.JoinHostPort(host, fmt.Sprint(port)))
	var w kubeletWatch
	return world.Condition{
		Name:    "the kubelet at " + url,
		Timeout: n.Timeouts.Kubelet,
		Check: func(ctx context.Context, r state.Reader) error {
			if port == 0 {
				return nil // the user has turned the endpoint off
			}
			return w.explain(ctx, r, well(ctx, r, state.Request{URL: url, Loopback: true}))
		},
	}
}

// kubeletConfig is what the kubelet reads, with the user's patches in it; without the file it is what the cluster wants of kubelets.
func kubeletConfig(ctx context.Context, r state.Reader, n *node.Node) *kubeletconfig.KubeletConfiguration {
	var own kubeletconfig.KubeletConfiguration
	data, err := r.ReadFile(ctx, n.Paths.KubeletConfig())
	if err != nil || yaml.Unmarshal(data, &own) != nil {
		return n.Cluster.Kubelet.Config
	}
	return &own
}

// APIServer holds once this machine's API server says that it is alive, and is the one of today's manifests. Where the
// etcd beside it has failed, that is what the user reads.
func APIServer(n *node.Node, as state.Identity) world.Condition {
	d := diagnosis{watches: []*crashWatch{{socket: n.CRISocket, component: release.APIServer}}}
	if local, _ := node.LocalEtcd(n); local {
		d.watches[0].requires = manifest.Etcd
		d.watches = append([]*crashWatch{{socket: n.CRISocket, component: manifest.Etcd}}, d.watches...)
	}
	old := &outdated{n: n, components: []string{release.APIServer, manifest.Etcd}}
	return world.Condition{
		Name:    "kube-apiserver at " + n.LocalServer() + "/livez",
		Timeout: n.Timeouts.ControlPlane,
		Check: func(ctx context.Context, r state.Reader) error {
			if err := old.check(ctx, r); err != nil {
				return err
			}
			return d.explain(ctx, r, r.Livez(ctx, as))
		},
	}
}

// Component holds once a component of the control plane on this machine says at url that it is well, and is the one of today's manifest.
func Component(n *node.Node, component, url string) world.Condition {
	d := diagnosis{watches: []*crashWatch{{socket: n.CRISocket, component: component}}}
	old := &outdated{n: n, components: []string{component}}
	return world.Condition{
		Name:    component + " at " + url,
		Timeout: n.Timeouts.ControlPlane,
		Check: func(ctx context.Context, r state.Reader) error {
			if err := old.check(ctx, r); err != nil {
				return err
			}
			return d.explain(ctx, r, well(ctx, r, state.Request{URL: url, Loopback: true}))
		},
	}
}

func well(ctx context.Context, r state.Reader, req state.Request) error {
	answer, err := r.Fetch(ctx, req)
	if err == nil && answer.Status != 200 {
		err = fmt.Errorf("it answered with status %d: %s", answer.Status, untrusted.Quote(string(answer.Body)))
	}
	return err
}

// KubeletHelp adds the next steps to the error of a kubelet that does not come up.
func KubeletHelp(err error) error {
	return problem.New("", err,
		"The kubelet is not running or not healthy; see why: systemctl status kubelet; journalctl -xeu kubelet")
}

// ComponentHelp adds the next steps to the error of a component that does not come up.
func ComponentHelp(n *node.Node, err error) error {
	var hints []string
	if servers, ok := node.LastArg(n.Cluster.APIServer.Args, "etcd-servers"); ok {
		hints = append(hints, fmt.Sprintf("apiServer.extraArgs sets etcd-servers to %s: check that etcd answers there", untrusted.Quote(servers)))
	}
	return problem.New("", err, append(hints,
		fmt.Sprintf("list the containers: crictl --runtime-endpoint %s ps -a", n.CRISocket),
		fmt.Sprintf("read one's log: crictl --runtime-endpoint %s logs CONTAINERID", n.CRISocket),
		"if a container is missing, see why in the kubelet's log: journalctl -xeu kubelet",
		"if the settings given to this command must change: kubeadm reset, then the command with the new ones")...)
}
