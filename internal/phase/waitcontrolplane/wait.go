// Package waitcontrolplane waits until a started control plane answers, and names what keeps it from answering.
package waitcontrolplane

import (
	"context"
	"fmt"
	"net"

	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/world"
)

// Init waits for the kubelet and the components of a first control plane, and gives the
// administrator his rights as soon as the API server answers.
var Init = flow.Phase{
	Name:  "wait-control-plane",
	Short: "Wait until the control plane answers",
	Long:  "Wait until the kubelet has started the control plane's components and they say that they are well.",
	Run: func(ctx context.Context, e *flow.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		e.Say("waiting for the kubelet to run the control plane from %q", n.Paths.Manifests())
		if err := e.Await(ctx, Kubelet(n)); err != nil {
			return kubeletHelp(err)
		}
		admin := change.Identity{Kubeconfig: n.Paths.Kubeconfig("super-admin.conf"), Server: n.LocalServer()}
		if _, err := e.World.Stat(ctx, admin.Kubeconfig); err != nil {
			admin.Kubeconfig = n.Paths.Kubeconfig("admin.conf")
		}
		if err := e.Await(ctx, apiServer(n, admin)); err != nil {
			return componentHelp(n, err)
		}
		if _, err := e.Admin(ctx); err != nil {
			return err
		}
		return others(ctx, e, n)
	},
}

// others waits for the components that serve nobody but themselves.
func others(ctx context.Context, e *flow.Env, n *node.Node) error {
	for _, c := range []struct {
		name, port, path string
	}{
		{release.ControllerManager, "10257", "/healthz"},
		{release.Scheduler, "10259", "/livez"},
	} {
		url, err := address(ctx, e.World, n, c.name, c.port)
		if err != nil {
			return err
		}
		if err := e.Await(ctx, healthy(n, c.name, url+c.path)); err != nil {
			return componentHelp(n, err)
		}
	}
	return nil
}

// address is where a component answers, as its static Pod on this machine says.
func address(ctx context.Context, r change.Reader, n *node.Node, name, port string) (string, error) {
	data, err := r.ReadFile(ctx, n.Paths.Manifest(name))
	if err != nil {
		return "", problem.New("looking for the address of "+name, err, "run the control-plane phase first")
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil || len(pod.Spec.Containers) != 1 {
		return "", fmt.Errorf("static Pod %s: one container was expected in it: %w", n.Paths.Manifest(name), err)
	}
	args := append(pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args...)
	host := lastValue(args, "bind-address", "127.0.0.1")
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = n.Loopback()
	}
	return "https://" + net.JoinHostPort(host, lastValue(args, "secure-port", port)), nil
}

// Kubelet holds once the kubelet says that it is well.
func Kubelet(n *node.Node) world.Condition {
	config := n.Cluster.Kubelet.Config
	host, port := "127.0.0.1", int32(10248)
	if config.HealthzBindAddress != "" {
		host = config.HealthzBindAddress
	}
	if config.HealthzPort != nil {
		port = *config.HealthzPort
	}
	url := fmt.Sprintf("http://%s/healthz", net.JoinHostPort(host, fmt.Sprint(port)))
	return world.Condition{
		Name:    "the kubelet at " + url,
		Timeout: n.Timeouts.Kubelet,
		Check: func(ctx context.Context, r change.Reader) error {
			if port == 0 {
				return nil // the user has turned the endpoint off
			}
			return well(ctx, r, change.Request{URL: url, Loopback: true})
		},
	}
}

func apiServer(n *node.Node, as change.Identity) world.Condition {
	b := &blame{socket: n.CRISocket, component: release.APIServer}
	return world.Condition{
		Name:    "kube-apiserver at " + n.LocalServer() + "/livez",
		Timeout: n.Timeouts.ControlPlane,
		Check: func(ctx context.Context, r change.Reader) error {
			return b.explain(ctx, r, r.Livez(ctx, as))
		},
	}
}

func healthy(n *node.Node, component, url string) world.Condition {
	b := &blame{socket: n.CRISocket, component: component}
	return world.Condition{
		Name:    component + " at " + url,
		Timeout: n.Timeouts.ControlPlane,
		Check: func(ctx context.Context, r change.Reader) error {
			return b.explain(ctx, r, well(ctx, r, change.Request{URL: url, Loopback: true}))
		},
	}
}

func well(ctx context.Context, r change.Reader, req change.Request) error {
	answer, err := r.Fetch(ctx, req)
	if err == nil && answer.Status != 200 {
		err = fmt.Errorf("it answered with status %d: %.200s", answer.Status, answer.Body)
	}
	return err
}

func kubeletHelp(err error) error {
	return problem.New("", err,
		"see why the kubelet does not run: systemctl status kubelet; journalctl -xeu kubelet",
		"then give the same command again: it goes on from here")
}

func componentHelp(n *node.Node, err error) error {
	return problem.New("", err,
		fmt.Sprintf("list the containers: crictl --runtime-endpoint %s ps -a", n.CRISocket),
		fmt.Sprintf("read one's log: crictl --runtime-endpoint %s logs CONTAINERID", n.CRISocket),
		"mend the cause (settings are in the configuration given to this command), then give the same command again: it goes on from here")
}
