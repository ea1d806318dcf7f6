package cri

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"google.golang.org/grpc"

	"kubeadm/internal/node"
	"kubeadm/internal/world/pipe"
)

const containerdConfig = `C:\Program Files\containerd\config.toml`

// platform is that of this machine, for hints.
var platform = node.Windows("C:")

// knownSockets are the default pipes of common container runtimes, in the order of preference.
func knownSockets() []string {
	return []string{platform.DefaultCRISocket(), "npipe:////./pipe/cri-dockerd"}
}

// dialOptions returns what gRPC needs to connect to a pipe or a TCP port. The name of a target must
// be plain, so the dialer ignores it.
func dialOptions(socket string) (target string, options []grpc.DialOption, err error) {
	if _, _, err := parseSocket(socket); err != nil {
		return "", nil, err
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return dialSocket(ctx, socket) }
	return "passthrough:///runtime", []grpc.DialOption{grpc.WithContextDialer(dial)}, nil
}

func dialSocket(ctx context.Context, socket string) (net.Conn, error) {
	network, address, err := parseSocket(socket)
	if err != nil {
		return nil, err
	}
	if network == "pipe" {
		return pipe.Dial(ctx, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// parseSocket returns the name of a pipe, or the host and port of a TCP address.
func parseSocket(socket string) (network, address string, err error) {
	u, err := url.Parse(socket)
	switch {
	case err == nil && u.Scheme == "npipe" && u.Host == "" && strings.HasPrefix(u.Path, "//./pipe/"):
		return "pipe", strings.ReplaceAll(u.Path, "/", `\`), nil
	case err == nil && u.Scheme == "tcp" && u.Host != "":
		return "tcp", u.Host, nil
	}
	return "", "", fmt.Errorf(
		"the container runtime's endpoint %q is not a URL like npipe:////./pipe/containerd-containerd", socket)
}
