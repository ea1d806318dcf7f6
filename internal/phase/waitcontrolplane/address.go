package waitcontrolplane

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// findURL returns the URL of a component, by the arguments in its static Pod manifest.
func findURL(ctx context.Context, r state.Reader, n *node.Node, name, port string) (string, error) {
	file := n.Paths.Manifest(name)
	data, err := r.ReadFile(ctx, file)
	command := "kubeadm init phase control-plane all"
	if n.IsJoining() {
		command = "kubeadm join phase control-plane-prepare control-plane"
	}
	if err != nil {
		return "", problem.During("finding the address of "+name, err,
			"run this phase first: "+command)
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return "", fmt.Errorf("reading the static Pod manifest %s: %w", file, err)
	}
	container, err := manifest.ComponentContainer(&pod, name)
	if err != nil {
		return "", problem.During("reading "+file, err,
			"remove the patch that renames or removes the container, then re-run: "+command)
	}
	args := slices.Concat(container.Command, container.Args)
	host := lastValue(args, "bind-address", "127.0.0.1")
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = n.LoopbackAddress()
	}
	return "https://" + net.JoinHostPort(host, lastValue(args, "secure-port", port)), nil
}

// lastValue returns the value of the last --name=value among the arguments, else value.
func lastValue(args []string, name, value string) string {
	for _, a := range args {
		key, given, ok := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if ok && key == name && strings.HasPrefix(a, "-") {
			value = given
		}
	}
	return value
}
