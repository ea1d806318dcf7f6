// Package cri is the container runtime of this machine, reached by the Container Runtime
// Interface (runtime.v1 over gRPC on a unix socket). It reads no files itself: what it needs of them is given to it.
package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Bounds of one call. A runtime that answers at all does so at once, but on a machine that is busy; stopping a Pod waits for its
// network to be taken down.
const (
	connectLimit = 10 * time.Second
	firstLimit   = 5 * time.Second // of the first connection of a command: nothing says yet that there is a runtime
	callLimit    = 10 * time.Second
	stopLimit    = 30 * time.Second
)

// tellAfter is how long a runtime may take to answer before it is told what is waited for.
const tellAfter = time.Second

// maxMessage bounds an answer: a list of all containers of a full machine has some megabytes.
const maxMessage = 16 << 20

// Runtimes are the container runtimes of this machine, each known by the URL of its socket.
type Runtimes struct {
	// Tail returns the last bytes of a file, at most limit of them.
	Tail func(path string, limit int64) ([]byte, error)
}

// Do carries out a change of images or containers.
func (r Runtimes) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.PullImage:
		return pull(ctx, c)
	case change.RemoveContainers:
		return removeContainers(ctx, c)
	}
	return fmt.Errorf("a container runtime cannot carry out a %T", c)
}

// client is a connection to one runtime that has answered.
type client struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
	conn    *grpc.ClientConn
	version *runtimeapi.VersionResponse
}

func (c *client) close() { _ = c.conn.Close() } // a connection that cannot be closed is of no use anyway

// connect opens a connection and makes sure that the runtime answers on it.
func connect(ctx context.Context, socket string, limit time.Duration) (*client, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	c := &client{
		RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn),
		ImageServiceClient:   runtimeapi.NewImageServiceClient(conn),
		conn:                 conn,
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer time.AfterFunc(tellAfter, func() {
		world.Tell(ctx, "waiting for the container runtime at %s to answer, at most %s", socket, limit)
	}).Stop()
	c.version, err = c.Version(limited, &runtimeapi.VersionRequest{})
	if err == nil {
		return c, nil
	}
	c.close()
	if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %s", limit)
	}
	return nil, silent(socket, err)
}

func dial(socket string) (*grpc.ClientConn, error) {
	if !strings.HasPrefix(socket, "unix:///") {
		return nil, fmt.Errorf("the container runtime's socket %q is not a URL like unix:///run/containerd/containerd.sock", socket)
	}
	conn, err := grpc.NewClient(socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("the container runtime's socket %q: %w", socket, err)
	}
	return conn, nil
}

// silent says why a runtime does not answer, and what to do.
func silent(socket string, err error) error {
	name := serviceOf(socket)
	if _, dial, ok := strings.Cut(err.Error(), "Error while dialing: "); ok {
		err = errors.New(strings.TrimSuffix(dial, `"`))
	}
	if status.Code(err) == codes.Unimplemented {
		return problem.New("", fmt.Errorf("the container runtime at %s does not serve the CRI: %w", socket, plain(err)),
			"of containerd, the CRI plugin may be switched off: take \"cri\" out of disabled_plugins in /etc/containerd/config.toml, then systemctl restart containerd")
	}
	return problem.New("", fmt.Errorf("container runtime at %s does not answer: %w; is %s running?", socket, plain(err), name),
		"see what it says: systemctl status "+name)
}

// serviceOf is the customary name of the service behind a socket.
func serviceOf(socket string) string {
	switch {
	case strings.Contains(socket, "crio"):
		return "crio"
	case strings.Contains(socket, "cri-dockerd"):
		return "cri-docker"
	}
	return "containerd"
}

// plain is an error of gRPC without its wrapping, in one line, which still has its code. A runtime repeats what
// registries say.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return &answer{s}
	}
	return err
}

type answer struct{ s *status.Status }

func (a *answer) Error() string {
	if a.s.Message() == "" {
		return a.s.Code().String()
	}
	return untrusted.Line(a.s.Message())
}

// GRPCStatus is what status.Code reads.
func (a *answer) GRPCStatus() *status.Status { return a.s }

// calling bounds one call.
func calling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callLimit)
}
