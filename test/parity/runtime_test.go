package parity

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerRuntime is a CRI server that is always ready and records the images that were pulled.
type containerRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	mu     sync.Mutex
	pulled map[string]bool
}

// serveRuntime listens until the end of the test. A Unix socket can be reached from other network
// namespaces.
func serveRuntime(t *testing.T, socket string) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s, c := grpc.NewServer(), &containerRuntime{pulled: map[string]bool{}}
	runtimeapi.RegisterRuntimeServiceServer(s, c)
	runtimeapi.RegisterImageServiceServer(s, c)
	go s.Serve(l)
	t.Cleanup(s.Stop)
}

// Version returns containerd's version.
func (c *containerRuntime) Version(context.Context,
	*runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "containerd",
		RuntimeVersion: "v2.4.2", RuntimeApiVersion: "v1"}, nil
}

// Status reports that the runtime and its network are ready, and the pause image.
func (c *containerRuntime) Status(context.Context,
	*runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	ready := []*runtimeapi.RuntimeCondition{{Type: "RuntimeReady", Status: true},
		{Type: "NetworkReady", Status: true}}
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: ready},
		Info:   map[string]string{"config": `{"sandboxImage":"registry.k8s.io/pause:3.10.2"}`},
	}, nil
}

// RuntimeConfig returns the cgroup driver systemd.
func (c *containerRuntime) RuntimeConfig(context.Context,
	*runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD}}, nil
}

// ImageFsInfo returns nothing; clients call it to check for an image service.
func (c *containerRuntime) ImageFsInfo(context.Context,
	*runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, nil
}

// ImageStatus returns an image if it was pulled.
func (c *containerRuntime) ImageStatus(_ context.Context,
	r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pulled[r.GetImage().GetImage()] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "sha256:1"}}, nil
}

// PullImage records any image as pulled.
func (c *containerRuntime) PullImage(_ context.Context,
	r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled[r.GetImage().GetImage()] = true
	return &runtimeapi.PullImageResponse{ImageRef: "sha256:1"}, nil
}

// ListPodSandbox returns no Pods.
func (c *containerRuntime) ListPodSandbox(context.Context,
	*runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{}, nil
}

// ListContainers returns no containers.
func (c *containerRuntime) ListContainers(context.Context,
	*runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, nil
}
