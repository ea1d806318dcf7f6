package cri

import (
	"context"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"

	"kubeadm/internal/node"
)

const containerdConfig = "/etc/containerd/config.toml"

// platform is that of this machine, for hints.
var platform node.Platform

// knownSockets are the default sockets of common container runtimes, in the order of preference.
func knownSockets() []string {
	return []string{node.DefaultCRISocket, "unix:///var/run/crio/crio.sock",
		"unix:///var/run/cri-dockerd.sock"}
}

// dialOptions returns what gRPC needs to connect to a socket.
func dialOptions(socket string) (target string, options []grpc.DialOption, err error) {
	if !strings.HasPrefix(socket, "unix:///") {
		return "", nil, fmt.Errorf(
			"the container runtime's socket %q is not a URL like unix:///run/containerd/containerd.sock", socket)
	}
	return socket, nil, nil
}

func dialSocket(ctx context.Context, socket string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
}
