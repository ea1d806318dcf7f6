package cri

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// stopRecorder is a runtime that records which containers and Pods are stopped.
type stopRecorder struct {
	server
	mu    sync.Mutex
	calls []string
}

func (s *stopRecorder) record(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *stopRecorder) ListContainers(
	_ context.Context, r *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	if r.Filter.GetPodSandboxId() != "1" ||
		r.Filter.GetState().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return &runtimeapi.ListContainersResponse{}, nil
	}
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "a"}}}, nil
}

func (s *stopRecorder) StopContainer(
	_ context.Context, r *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	s.record("stop container " + r.ContainerId + " within " +
		(time.Duration(r.Timeout) * time.Second).String())
	return &runtimeapi.StopContainerResponse{}, nil
}

func TestContainersStopWithinGracePeriod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		grace time.Duration
		keep  bool
		want  []string
	}{
		{0, false, []string{"stop Pod 1"}},
		{30 * time.Second, false, []string{"stop container a within 30s", "stop Pod 1"}},
		{0, true, []string{"stop container a within 0s"}},
	} {
		s := &stopRecorder{}
		s.stop = func(id string) error { s.record("stop Pod " + id); return nil }
		s.sandboxes = []*runtimeapi.PodSandbox{staticPod("1", "etcd-cp1", "etcd", "file")}
		remove := change.RemoveContainers{Socket: startServer(t, s), Component: "etcd",
			GracePeriod: c.grace, KeepPod: c.keep}
		if err := (Runtimes{}).Do(t.Context(), remove); err != nil || !slices.Equal(s.calls, c.want) {
			t.Errorf("within %s, keeping the Pod %v: %q, %v", c.grace, c.keep, s.calls, err)
		}
	}
}

// containerd refuses to remove a container that the kubelet is just starting.
func TestStartingContainerIsRemovedLater(t *testing.T) {
	t.Parallel()
	s, refusals := &stopRecorder{}, 0
	s.stop = func(string) error {
		if refusals++; refusals < 3 {
			return errors.New("container is in starting state, can't be removed")
		}
		return nil
	}
	s.sandboxes = []*runtimeapi.PodSandbox{staticPod("1", "etcd-cp1", "etcd", "file")}
	var progress []string
	ctx := world.WithProgress(t.Context(), func(text string) { progress = append(progress, text) })
	remove := change.RemoveContainers{Socket: startServer(t, s), Component: "etcd"}
	if err := (Runtimes{}).Do(ctx, remove); err != nil || refusals != 3 || len(progress) > 0 {
		t.Errorf("%d attempts, %v; reported %q", refusals, err, progress)
	}
}
