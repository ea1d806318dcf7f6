package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// server is a container runtime on its own socket. Without its functions it succeeds always.
type server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	condition []*runtimeapi.RuntimeCondition
	driver    *runtimeapi.RuntimeConfigResponse
	driverErr error
	info      map[string]string
	pull      func() error
	stop      func(id string) error

	mu         sync.Mutex
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.ContainerStatus
	held       []string
}

// startServer starts the server until the end of the test and returns the URL of the socket.
func startServer(t *testing.T, s interface {
	runtimeapi.RuntimeServiceServer
	runtimeapi.ImageServiceServer
}) string {
	t.Helper()
	l, socket := listen(t)
	g := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(g, s)
	runtimeapi.RegisterImageServiceServer(g, s)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return socket
}

// listen opens a socket of this operating system and returns its URL. Wine has no named pipes that work.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	network, address := "tcp", "127.0.0.1:0"
	if runtime.GOOS != "windows" {
		network, address = "unix", filepath.Join(t.TempDir(), "cri.sock")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l, network + "://" + l.Addr().String()
}

func (s *server) Version(context.Context,
	*runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.4.2"}, nil
}

func (s *server) ImageFsInfo(context.Context,
	*runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, nil
}

func (s *server) Status(_ context.Context,
	r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	answer := &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: s.condition}}
	if r.Verbose {
		answer.Info = s.info
	}
	return answer, nil
}

func (s *server) RuntimeConfig(context.Context,
	*runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	if s.driverErr != nil {
		return nil, s.driverErr
	}
	if s.driver == nil {
		return nil, status.Error(codes.Unimplemented, "unknown method RuntimeConfig")
	}
	return s.driver, nil
}

func (s *server) ImageStatus(_ context.Context,
	r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.held, r.Image.Image) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "sha256:1"}}, nil
}

func (s *server) PullImage(_ context.Context,
	r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	if s.pull != nil {
		if err := s.pull(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, r.Image.Image)
	return &runtimeapi.PullImageResponse{ImageRef: "sha256:1"}, nil
}

func (s *server) ListPodSandbox(context.Context,
	*runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.ListPodSandboxResponse{Items: slices.Clone(s.sandboxes)}, nil
}

func (s *server) StopPodSandbox(_ context.Context,
	r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	if s.stop != nil {
		return &runtimeapi.StopPodSandboxResponse{}, s.stop(r.PodSandboxId)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (s *server) RemovePodSandbox(_ context.Context,
	r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandboxes = slices.DeleteFunc(s.sandboxes,
		func(p *runtimeapi.PodSandbox) bool { return p.Id == r.PodSandboxId })
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

func (s *server) ListContainers(context.Context,
	*runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	list := &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "gone",
		CreatedAt: 5}}}
	for _, c := range s.containers {
		list.Containers = append(list.Containers,
			&runtimeapi.Container{Id: c.Id, CreatedAt: c.CreatedAt, PodSandboxId: "pod of " + c.Id})
	}
	return list, nil
}

func (s *server) ContainerStatus(_ context.Context,
	r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	for _, c := range s.containers {
		if c.Id == r.ContainerId {
			return &runtimeapi.ContainerStatusResponse{Status: c}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func TestRuntimeStatus(t *testing.T) {
	well := []*runtimeapi.RuntimeCondition{{Type: "NetworkReady"},
		{Type: "RuntimeReady", Status: true}}
	driver := func(d runtimeapi.CgroupDriver) *runtimeapi.RuntimeConfigResponse {
		return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: d}}
	}
	for name, c := range map[string]struct {
		server *server
		want   state.Runtime
	}{
		"ready": {
			&server{condition: well, driver: driver(runtimeapi.CgroupDriver_SYSTEMD),
				info: map[string]string{"config": `{"sandboxImage":"pause:1"}`}},
			state.Runtime{Ready: true, CgroupDriver: "systemd", ReportsDriver: true,
				SandboxImage: "pause:1"},
		},
		"cgroupfs": {
			&server{condition: well, driver: driver(runtimeapi.CgroupDriver_CGROUPFS),
				info: map[string]string{"config": `{}`}},
			state.Runtime{Ready: true, CgroupDriver: "cgroupfs", ReportsDriver: true},
		},
		"no RuntimeConfig": {
			&server{condition: well, info: map[string]string{"config": "not JSON"}},
			state.Runtime{Ready: true},
		},
		"RuntimeConfig without Linux": {&server{condition: well,
			driver: &runtimeapi.RuntimeConfigResponse{}}, state.Runtime{Ready: true}},
		"RuntimeConfig fails": {
			&server{condition: well, driverErr: status.Error(codes.Internal, "no such cgroup")},
			state.Runtime{Ready: true, DriverError: "no such cgroup"},
		},
		"not ready": {
			&server{condition: []*runtimeapi.RuntimeCondition{{Type: "RuntimeReady",
				Reason: "Broken", Message: "no disk"}}},
			state.Runtime{Reason: "Broken: no disk"},
		},
		"no conditions": {&server{},
			state.Runtime{Reason: "its status has no condition RuntimeReady"}},
	} {
		c.want.Name, c.want.Version = "containerd", "v2.4.2"
		got, err := Runtimes{}.Runtime(t.Context(), startServer(t, c.server))
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v and %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestRuntimeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	mute := filepath.Join(t.TempDir(), "mute.sock")
	l, err := net.Listen("unix", mute)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it accepts, since the kernel does, and never says a word
	half := grpc.NewServer()
	lh, err := net.Listen("unix", filepath.Join(t.TempDir(), "half.sock"))
	if err != nil {
		t.Fatal(err)
	}
	go half.Serve(lh)
	defer half.Stop()
	for socket, says := range map[string]string{
		"unix:///nonexistent/crio.sock":   "container runtime at unix:///nonexistent/crio.sock is not responding: ",
		"unix://" + mute:                  "is not responding",
		"unix://" + lh.Addr().String():    "does not serve the CRI",
		"tcp://127.0.0.1:1":               "is not a URL like unix:///",
		"/run/containerd/containerd.sock": "is not a URL like unix:///",
	} {
		begun := time.Now()
		_, err := Runtimes{}.Runtime(t.Context(), socket)
		if err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "rpc error") {
			t.Errorf("%s: got %v, want %q in it", socket, err, says)
		}
		if strings.Contains(says, "does not") && len(problem.Hints(err)) == 0 {
			t.Errorf("%s: want a hint", socket)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("%s: it took %s", socket, took)
		}
	}
}

func TestRuntimesAcceptingConnections(t *testing.T) {
	a, b := startServer(t, &server{}), startServer(t, &server{})
	got := filterAccepting(t.Context(), []string{b, "unix:///nonexistent/crio.sock", a})
	if !slices.Equal(got, []string{b, a}) {
		t.Errorf("got %q, want the two that accept, in the given order", got)
	}
	if got := filterAccepting(t.Context(), nil); len(got) != 0 {
		t.Errorf("got %q of none", got)
	}
}

func TestRemoveContainers(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	var stumbled sync.Map
	s := &server{stop: func(id string) error {
		for n := now.Add(1); ; {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		defer now.Add(-1)
		// The first one waits for the next.
		for begun := time.Now(); most.Load() < 2 && time.Since(begun) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		if _, again := stumbled.LoadOrStore(id, true); !again && strings.HasSuffix(id, "3") {
			return errors.New("the network plugin stumbled")
		}
		return nil
	}}
	for i := range 20 {
		s.sandboxes = append(s.sandboxes, &runtimeapi.PodSandbox{
			Id: fmt.Sprint(i), Metadata: &runtimeapi.PodSandboxMetadata{Name: fmt.Sprint("pod", i),
				Namespace: "default"}})
	}
	socket := startServer(t, s)
	if err := (Runtimes{}).Do(t.Context(), change.RemoveContainers{Socket: socket}); err != nil {
		t.Error(err)
	}
	if left, err := (Runtimes{}).Sandboxes(t.Context(), socket); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if n := most.Load(); n < 2 || n > maxParallelRemovals {
		t.Errorf("%d Pods were stopped at the same time, want 2 to %d", n, maxParallelRemovals)
	}
}

func TestRemoveContainersContinuesAfterError(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := &server{stop: func(string) error {
		if calls.Add(1); calls.Load() <= 5 {
			return errors.New("stuck")
		}
		return nil
	}}
	s.sandboxes = []*runtimeapi.PodSandbox{{Id: "1", Metadata: &runtimeapi.PodSandboxMetadata{
		Name: "etcd-cp1", Namespace: "kube-system", Uid: "u1"}}}
	socket := startServer(t, s)
	err := Runtimes{}.Do(t.Context(), change.RemoveContainers{Socket: socket})
	if err == nil || !strings.Contains(err.Error(), "stopping Pod kube-system/etcd-cp1: stuck") ||
		calls.Load() != 5 {
		t.Errorf("after %d attempts: %v", calls.Load(), err)
	}
	left, err := Runtimes{}.Sandboxes(t.Context(), socket)
	want := []state.Sandbox{{ID: "1", Name: "etcd-cp1", Namespace: "kube-system", PodUID: "u1"}}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %v, %v; want %v", left, err, want)
	}
}

// staticPod returns the sandbox of a static Pod of the control plane.
func staticPod(id, name, component, source string) *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "kube-system"},
		Labels:      map[string]string{"component": component, "io.kubernetes.pod.name": name},
		Annotations: map[string]string{"kubernetes.io/config.source": source},
	}
}

func TestRemoveContainersOfComponent(t *testing.T) {
	t.Parallel()
	foreign := staticPod("5", "etcd-cp1", "etcd", "file")
	foreign.Metadata.Namespace = "default"
	s := &server{sandboxes: []*runtimeapi.PodSandbox{
		staticPod("1", "etcd-cp1", "etcd", "file"),
		staticPod("2", "etcd-backup-cp1", "etcd-backup", "file"),
		staticPod("3", "etcd-backup-28114-x7k2p", "etcd", "api"),
		staticPod("4", "kube-apiserver-cp1", "kube-apiserver", "file"),
		foreign,
	}}
	socket := startServer(t, s)
	if err := (Runtimes{}).Do(t.Context(),
		change.RemoveContainers{Socket: socket, Component: "etcd"}); err != nil {
		t.Fatal(err)
	}
	left, err := Runtimes{}.Sandboxes(t.Context(), socket)
	var names []string
	for _, s := range left {
		names = append(names, s.Name)
	}
	want := []string{"etcd-backup-cp1", "etcd-backup-28114-x7k2p", "kube-apiserver-cp1", "etcd-cp1"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("left are %q (%v), want %q", names, err, want)
	}
}

func TestContainersHaveLogs(t *testing.T) {
	labels := map[string]string{"io.kubernetes.pod.name": "etcd-cp1",
		"io.kubernetes.pod.namespace": "kube-system", "io.kubernetes.pod.uid": "u1"}
	s := &server{sandboxes: []*runtimeapi.PodSandbox{
		staticPod("pod of 1", "etcd-cp1", "etcd", "file"),
		staticPod("pod of 2", "etcd-cp1", "etcd", "api"),
	}, containers: []*runtimeapi.ContainerStatus{
		{Id: "2", CreatedAt: 20, Labels: labels, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
			LogPath:  "/absent",
			Metadata: &runtimeapi.ContainerMetadata{Name: "etcd", Attempt: 1}},
		{Id: "1", CreatedAt: 10, Labels: labels, State: runtimeapi.ContainerState_CONTAINER_EXITED,
			ExitCode: 2, LogPath: "/log",
			Metadata: &runtimeapi.ContainerMetadata{Name: "etcd"}},
	}}
	r := Runtimes{Tail: func(path string, limit int64) ([]byte, error) {
		if path != "/log" {
			return nil, errors.New("no such file")
		}
		return []byte("2026-09-01T12:00:00.1Z stderr F bad flag\n"), nil
	}}
	got, err := r.Containers(t.Context(), startServer(t, s))
	want := []state.Container{
		{ID: "1", Name: "etcd", Pod: "etcd-cp1", Namespace: "kube-system", Component: "etcd",
			PodUID: "u1", Created: time.Unix(0, 10), ExitCode: 2, Log: "bad flag\n"},
		{ID: "2", Name: "etcd", Pod: "etcd-cp1", Namespace: "kube-system", PodUID: "u1",
			Created: time.Unix(0, 20), Running: true, Attempt: 1},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}

func TestLogs(t *testing.T) {
	line := func(tag, text string) string {
		return "2026-09-01T12:00:00.000000001Z stdout " + tag + " " + text + "\n"
	}
	for name, c := range map[string]struct{ raw, want string }{
		"empty":  {"", ""},
		"a line": {line("F", "hello  world"), "hello  world\n"},
		"parts of a line": {line("P", "one ") + line("P", "two ") + line("F", "three"),
			"one two three\n"},
		"an empty line": {line("F", "a") + line("F", "") + line("F", "b"), "a\n\nb\n"},
		"cut off": {"the end of a line" +
			strings.Repeat("!", logRead-18-194*len(line("F", "x"))) + "\n" +
			strings.Repeat(line("F", "x"), 194), strings.Repeat("x\n", 194)},
		"too long": {strings.Repeat(line("F", strings.Repeat("y", 99)), 120),
			strings.Repeat(strings.Repeat("y", 99)+"\n", 81)},
		"one long line": {line("F", strings.Repeat("z", 3*logKept)),
			strings.Repeat("z", logKept-1) + "\n"},
	} {
		r := Runtimes{Tail: func(string, int64) ([]byte, error) { return []byte(c.raw), nil }}
		if got := r.readLog("/log", false); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := (Runtimes{}).readLog("/log", false); got != "" {
		t.Errorf("got %q without Tail", got)
	}
}

// startMuteServer accepts connections and never answers.
func startMuteServer(t *testing.T) string {
	t.Helper()
	l, socket := listen(t)
	t.Cleanup(func() { l.Close() })
	return socket
}

func TestSocketNeverAnswers(t *testing.T) {
	t.Parallel()
	socket := startMuteServer(t)
	begin := time.Now()
	if found := filterAccepting(t.Context(), []string{socket}); len(found) != 1 ||
		time.Since(begin) > firstLimit/2 {
		t.Errorf("after %s: %q", time.Since(begin), found)
	}
	var mu sync.Mutex
	var told []string
	ctx := world.WithProgress(t.Context(), func(text string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, text)
	})
	_, err := Runtimes{}.Runtime(ctx, socket)
	if took := time.Since(begin); took > 2*firstLimit {
		t.Errorf("the first check took %s", took)
	}
	if err == nil || !strings.Contains(err.Error(), socket) ||
		!strings.Contains(err.Error(), "no answer within 5s") {
		t.Errorf("got %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || !strings.Contains(told[0], socket) {
		t.Errorf("progress %q", told)
	}
}
