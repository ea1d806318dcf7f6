package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"kubeadm/internal/state"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// known are the sockets on which the usual runtimes listen, in the order in which they are tried.
func known() []string {
	return []string{
		"unix:///var/run/containerd/containerd.sock",
		"unix:///var/run/crio/crio.sock",
		"unix:///var/run/cri-dockerd.sock",
	}
}

// Runtimes lists the sockets of known container runtimes that accept a connection.
func (r Runtimes) Runtimes(ctx context.Context) ([]string, error) {
	return accepting(ctx, known()), nil
}

func accepting(ctx context.Context, sockets []string) []string {
	ok := make([]bool, len(sockets))
	var wg sync.WaitGroup
	for i, s := range sockets {
		wg.Go(func() { ok[i] = accepts(ctx, s) })
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

// accepts reports whether something listens on the socket. The kernel answers that at once, also where what listens never does.
func accepts(ctx context.Context, socket string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Runtime asks the runtime for its condition; an error means that it does not answer.
func (r Runtimes) Runtime(ctx context.Context, socket string) (state.Runtime, error) {
	c, err := connect(ctx, socket, firstLimit)
	if err != nil {
		return state.Runtime{}, err
	}
	defer c.close()
	ctx, cancel := calling(ctx)
	defer cancel()
	// A runtime without an image service cannot run Pods.
	if _, err := c.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}); err != nil {
		return state.Runtime{}, silent(socket, err)
	}
	s, err := c.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return state.Runtime{}, silent(socket, err)
	}
	found := state.Runtime{Name: c.version.RuntimeName, Version: c.version.RuntimeVersion, SandboxImage: sandboxImage(s.Info)}
	found.Ready, found.Reason = ready(s.Status)
	if found.CgroupDriver, err = c.cgroupDriver(ctx); err != nil {
		found.DriverFault = err.Error()
	}
	found.ReportsDriver = found.CgroupDriver != ""
	return found, nil
}

// cgroupDriver is empty for a runtime that cannot tell, as those older than the call RuntimeConfig.
func (c *client) cgroupDriver(ctx context.Context) (string, error) {
	config, err := c.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	if status.Code(err) == codes.Unimplemented {
		return "", nil
	}
	if err != nil {
		return "", plain(err)
	}
	if config.Linux == nil {
		return "", nil
	}
	return strings.ToLower(config.Linux.CgroupDriver.String()), nil
}

// ready reads the one condition that must hold; the network becomes ready only after a network add-on was installed.
func ready(s *runtimeapi.RuntimeStatus) (ok bool, reason string) {
	for _, c := range s.GetConditions() {
		if c.Type == runtimeapi.RuntimeReady {
			if c.Status {
				return true, ""
			}
			return false, fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return false, "it does not tell whether it is ready"
}

// sandboxImage is the image of Pod sandboxes, where the runtime's verbose status tells it.
func sandboxImage(info map[string]string) string {
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if json.Unmarshal([]byte(info["config"]), &config) != nil {
		return ""
	}
	return config.SandboxImage
}
