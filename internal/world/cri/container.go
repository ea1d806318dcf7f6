package cri

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/types"

	"kubeadm/internal/crashlog"
	"kubeadm/internal/state"
)

// Sandboxes lists all Pod sandboxes, also those that are not running.
func (r Runtimes) Sandboxes(ctx context.Context, socket string) ([]state.Sandbox, error) {
	c, err := connect(ctx, socket, connectLimit)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.sandboxes(ctx)
}

func (c *client) sandboxes(ctx context.Context) ([]state.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	list, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the container runtime's Pods: %w", unwrapGRPCError(err))
	}
	var all []state.Sandbox
	for _, s := range list.Items {
		sandbox := state.Sandbox{ID: s.Id, Name: s.GetMetadata().GetName(),
			Namespace: s.GetMetadata().GetNamespace(), PodUID: s.GetMetadata().GetUid()}
		// The component of a static Pod is a label in kubeadm's manifests. The kubelet copies
		// labels and annotations of a Pod to its sandbox and adds the source of the Pod: labels of
		// Pods from the API server cannot be trusted.
		source := s.Annotations["kubernetes.io/config.source"]
		if sandbox.Namespace == "kube-system" && source != "" && source != "api" {
			sandbox.Component = s.Labels["component"]
		}
		all = append(all, sandbox)
	}
	return all, nil
}

// SandboxNetworks reads the OCI specification of each sandbox, which containerd and CRI-O report.
func (r Runtimes) SandboxNetworks(ctx context.Context, socket string) (map[string]string, error) {
	c, ctx, end, err := connectFor(ctx, socket, callLimit)
	if err != nil {
		return nil, err
	}
	defer end()
	all, err := c.sandboxes(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, s := range all {
		answer, err := c.PodSandboxStatus(ctx,
			&runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.ID, Verbose: true})
		if status.Code(err) == codes.NotFound {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("reading the status of Pod %s/%s: %w", s.Namespace, s.Name,
				unwrapGRPCError(err))
		}
		var info struct {
			RuntimeSpec struct {
				Linux struct {
					Namespaces []struct{ Type, Path string }
				}
			}
		}
		if err := json.Unmarshal([]byte(answer.Info["info"]), &info); err != nil {
			continue // of another runtime
		}
		for _, n := range info.RuntimeSpec.Linux.Namespaces {
			if n.Type == "network" && n.Path != "" {
				// both runtimes name /var/run, which is a link
				files[s.ID] = strings.TrimPrefix(path.Clean(n.Path), "/var")
			}
		}
	}
	return files, nil
}

// Containers lists all containers, exited ones too and oldest first, with their last log lines.
func (r Runtimes) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	c, ctx, end, err := connectFor(ctx, socket, callLimit)
	if err != nil {
		return nil, err
	}
	defer end()
	list, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", unwrapGRPCError(err))
	}
	slices.SortFunc(list.Containers, func(a, b *runtimeapi.Container) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Id, b.Id))
	})
	pods, err := c.sandboxes(ctx)
	if err != nil {
		return nil, err
	}
	components := map[string]string{}
	for _, s := range pods {
		components[s.ID] = s.Component
	}
	var all []state.Container
	for _, listed := range list.Containers {
		answer, err := c.ContainerStatus(ctx,
			&runtimeapi.ContainerStatusRequest{ContainerId: listed.Id})
		if status.Code(err) == codes.NotFound {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("reading the status of container %s: %w",
				listed.GetMetadata().GetName(), unwrapGRPCError(err))
		}
		s := answer.Status
		all = append(all, state.Container{
			ID:        s.Id,
			Name:      s.GetMetadata().GetName(),
			Component: components[listed.PodSandboxId],
			Pod:       s.Labels[types.KubernetesPodNameLabel],
			Namespace: s.Labels[types.KubernetesPodNamespaceLabel],
			PodUID:    s.Labels[types.KubernetesPodUIDLabel],
			Created:   time.Unix(0, s.CreatedAt),
			Running:   s.State == runtimeapi.ContainerState_CONTAINER_RUNNING,
			ExitCode:  s.ExitCode,
			Attempt:   s.GetMetadata().GetAttempt(),
			Log:       r.readLog(s.LogPath, s.State == runtimeapi.ContainerState_CONTAINER_EXITED),
		})
	}
	return all, nil
}

// Limits of a log. The lines of the file have prefixes, and the cause of a crash may be followed
// by a long list of flags or a stack trace.
const (
	logRead   = 32 << 10  // bytes read from the file
	crashRead = 256 << 10 // the same for a container that has exited
	logKept   = 8 << 10   // bytes returned
)

// readLog returns the end of a container's log, if it has exited with the line that says why; empty if
// the log cannot be read, as logs are optional.
func (r Runtimes) readLog(path string, hasExited bool) string {
	if path == "" || r.Tail == nil {
		return ""
	}
	limit := logRead
	if hasExited {
		limit = crashRead
	}
	raw, err := r.Tail(path, int64(limit))
	if err != nil {
		return ""
	}
	if len(raw) == limit {
		_, raw, _ = bytes.Cut(raw, []byte("\n")) // the first line was cut
	}
	return crashlog.Shorten(string(stripLogPrefixes(raw)), logKept)
}

// stripLogPrefixes removes the prefix that the runtime writes before each line: time, stream and a
// tag, "P" for a part of a line and "F" for its end.
func stripLogPrefixes(raw []byte) []byte {
	var text []byte
	for line := range bytes.Lines(raw) {
		fields := bytes.SplitN(line, []byte(" "), 4)
		if len(fields) < 4 {
			continue
		}
		if string(fields[2]) == "P" {
			fields[3] = bytes.TrimSuffix(fields[3], []byte("\n"))
		}
		text = append(text, fields[3]...)
	}
	return text
}
