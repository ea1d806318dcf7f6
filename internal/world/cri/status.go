package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/state"
)

// knownSockets returns the default sockets of common runtimes, in the order of preference.
func knownSockets() []string {
	return []string{
		"unix:///var/run/containerd/containerd.sock",
		"unix:///var/run/crio/crio.sock",
		"unix:///var/run/cri-dockerd.sock",
	}
}

// Runtimes lists the sockets of known container runtimes that accept a connection.
func (r Runtimes) Runtimes(ctx context.Context) ([]string, error) {
	return filterAccepting(ctx, knownSockets()), nil
}

func filterAccepting(ctx context.Context, sockets []string) []string {
	ok := make([]bool, len(sockets))
	var wg sync.WaitGroup
	for i, s := range sockets {
		wg.Go(func() { ok[i] = acceptsConnections(ctx, s) })
	}
	wg.Wait()
	var found []string
	for i, s := range sockets {
		if ok[i] {
			found = append(found, s)
		}
	}
	return found
}

// acceptsConnections reports whether a program listens on the socket. The kernel accepts the
// connection, so this does not block even if the program does not respond.
func acceptsConnections(ctx context.Context, socket string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Runtime returns the status of the runtime; an error means that it does not answer.
func (r Runtimes) Runtime(ctx context.Context, socket string) (state.Runtime, error) {
	c, err := connect(ctx, socket, firstLimit)
	if err != nil {
		return state.Runtime{}, err
	}
	defer c.close()
	ctx, cancel := withCallTimeout(ctx)
	defer cancel()
	// A runtime without an image service cannot run Pods.
	if _, err := c.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}); err != nil {
		return state.Runtime{}, newNoAnswerError(socket, err)
	}
	s, err := c.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return state.Runtime{}, newNoAnswerError(socket, err)
	}
	found := state.Runtime{Name: c.version.RuntimeName, Version: c.version.RuntimeVersion,
		SandboxImage: parseSandboxImage(s.Info)}
	found.Ready, found.Reason = runtimeReadiness(s.Status)
	if found.CgroupDriver, err = c.cgroupDriver(ctx); err != nil {
		found.DriverError = err.Error()
	}
	found.ReportsDriver = found.CgroupDriver != ""
	return found, nil
}

// cgroupDriver returns the cgroup driver of the runtime; empty if the runtime does not support
// RuntimeConfig.
func (c *client) cgroupDriver(ctx context.Context) (string, error) {
	config, err := c.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	if status.Code(err) == codes.Unimplemented {
		return "", nil
	}
	if err != nil {
		return "", unwrapGRPCError(err)
	}
	if config.Linux == nil {
		return "", nil
	}
	return strings.ToLower(config.Linux.CgroupDriver.String()), nil
}

// runtimeReadiness reads the condition RuntimeReady. The condition NetworkReady is ignored, as it
// depends on the network add-on.
func runtimeReadiness(s *runtimeapi.RuntimeStatus) (ok bool, reason string) {
	for _, c := range s.GetConditions() {
		if c.Type == runtimeapi.RuntimeReady {
			if c.Status {
				return true, ""
			}
			return false, fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return false, "its status has no condition " + runtimeapi.RuntimeReady
}

// parseSandboxImage returns the image of Pod sandboxes from the verbose status; empty if it is not
// there.
func parseSandboxImage(info map[string]string) string {
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if json.Unmarshal([]byte(info["config"]), &config) != nil {
		return ""
	}
	return config.SandboxImage
}
