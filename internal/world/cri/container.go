package cri

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"kubeadm/internal/state"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/types"
)

// Sandboxes lists all Pod sandboxes, ended ones too.
func (r Runtimes) Sandboxes(ctx context.Context, socket string) ([]state.Sandbox, error) {
	c, err := connect(ctx, socket, connectLimit)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.sandboxes(ctx)
}

func (c *client) sandboxes(ctx context.Context) ([]state.Sandbox, error) {
	ctx, cancel := calling(ctx)
	defer cancel()
	list, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the container runtime's Pods: %w", plain(err))
	}
	var all []state.Sandbox
	for _, s := range list.Items {
		all = append(all, state.Sandbox{
			ID: s.Id, Name: s.GetMetadata().GetName(), Namespace: s.GetMetadata().GetNamespace(), Component: componentOf(s),
			PodUID: s.GetMetadata().GetUid(),
		})
	}
	return all, nil
}

// componentOf returns the part of the control plane that a static Pod runs, by the label that
// kubeadm's manifests carry. The kubelet passes a Pod's labels and annotations on to its sandbox
// and notes there where the Pod came from: a Pod that came from the API server may have any label.
func componentOf(s *runtimeapi.PodSandbox) string {
	const source, fromAPI = "kubernetes.io/config.source", "api"
	from := s.Annotations[source]
	if s.GetMetadata().GetNamespace() != "kube-system" || from == "" || from == fromAPI {
		return ""
	}
	return s.Labels["component"]
}

// Containers lists all containers, ended ones too and oldest first, with the last lines of what they wrote.
func (r Runtimes) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	c, err := connect(ctx, socket, connectLimit)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ctx, cancel := calling(ctx)
	defer cancel()
	list, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", plain(err))
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
		s, err := c.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: listed.Id})
		if status.Code(err) == codes.NotFound {
			continue // removed since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("asking for the state of container %s: %w", listed.GetMetadata().GetName(), plain(err))
		}
		container := r.container(s.Status)
		container.Component = components[listed.PodSandboxId]
		all = append(all, container)
	}
	return all, nil
}

func (r Runtimes) container(s *runtimeapi.ContainerStatus) state.Container {
	return state.Container{
		ID:        s.Id,
		Name:      s.GetMetadata().GetName(),
		Pod:       s.Labels[types.KubernetesPodNameLabel],
		Namespace: s.Labels[types.KubernetesPodNamespaceLabel],
		PodUID:    s.Labels[types.KubernetesPodUIDLabel],
		Created:   time.Unix(0, s.CreatedAt),
		Running:   s.State == runtimeapi.ContainerState_CONTAINER_RUNNING,
		ExitCode:  s.ExitCode,
		Attempt:   s.GetMetadata().GetAttempt(),
		Log:       r.log(s.LogPath),
	}
}

// Bounds of a log: what is read of the file, whose lines carry prefixes, and what is kept. What a
// program gives as its reason may stand before a long list of its flags or calls.
const (
	logRead = 32 << 10
	logKept = 8 << 10
)

// log is the end of a container's log; empty when there is none to be read, since a log is a help and never the point.
func (r Runtimes) log(path string) string {
	if path == "" || r.Tail == nil {
		return ""
	}
	raw, err := r.Tail(path, logRead)
	if err != nil {
		return ""
	}
	if len(raw) == logRead {
		_, raw, _ = bytes.Cut(raw, []byte("\n")) // the first line was cut
	}
	text := messages(raw)
	if len(text) > logKept {
		text = text[len(text)-logKept:]
		if _, whole, ok := bytes.Cut(text, []byte("\n")); ok && len(whole) > 0 {
			text = whole
		}
	}
	return string(text)
}

// messages takes off what the runtime puts before each line of a log: time, stream and a tag, "P"
// for a part of a line and "F" for its end.
func messages(raw []byte) []byte {
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
