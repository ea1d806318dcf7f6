package existing

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// runtimeFlag matches the flag of the kubelet's environment file.
var runtimeFlag = regexp.MustCompile(`--container-runtime-endpoint[= ]([^"\s]+)`)

// ErrSeveralRuntimes says that this machine has several container runtimes, and that it is not known
// which of them the kubelet uses.
var ErrSeveralRuntimes = errors.New("several container runtimes run on this machine")

// RuntimeSocket is the container runtime's socket that the kubelet of this machine uses. For a machine that
// is not a node yet, package config chooses one.
func RuntimeSocket(ctx context.Context, r state.Reader, paths node.Paths) (string, error) {
	file := paths.KubeletInstanceConfig()
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil {
		return "", err
	}
	var instance struct {
		Socket string `json:"containerRuntimeEndpoint"`
	}
	if err := yaml.Unmarshal(data, &instance); err != nil {
		return "", problem.During("reading "+file, err, "correct the file")
	}
	if instance.Socket != "" {
		return instance.Socket, nil
	}
	flags, err := state.ReadOptional(ctx, r, paths.KubeletFlags())
	if err != nil {
		return "", err
	}
	if found := runtimeFlag.FindSubmatch(flags); found != nil { // of kubeadm before 1.34
		return string(found[1]), nil
	}
	sockets, err := r.Runtimes(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("looking for container runtimes: %w", err)
	case len(sockets) > 1:
		return "", problem.New(fmt.Errorf("%w: %s", ErrSeveralRuntimes,
			strings.Join(sockets, ", ")),
			fmt.Sprintf("add the one that the kubelet uses to %s: containerRuntimeEndpoint: %q",
				file, sockets[0]))
	case len(sockets) == 1:
		return sockets[0], nil
	}
	host, err := r.Host(ctx)
	return host.Platform.DefaultCRISocket(), err
}
