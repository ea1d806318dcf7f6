// Package cri calls the container runtime of this machine by the Container Runtime
// Interface (runtime.v1 over gRPC on a Unix socket or a named pipe).
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

// Timeouts of one call. A runtime usually answers at once, unless the machine is busy; stopping a
// Pod includes removing its network.
const (
	connectLimit = 10 * time.Second
	// of the first connection of a command, when there may be no runtime
	firstLimit = 5 * time.Second
	callLimit  = 10 * time.Second
	stopLimit  = 30 * time.Second
)

// progressDelay is how long a runtime may take to answer before a progress message.
const progressDelay = time.Second

// maxMessage limits the size of a response: a list of all containers of a full machine has some
// megabytes.
const maxMessage = 16 << 20

// Runtimes are the container runtimes of this machine, each identified by the URL of its socket.
type Runtimes struct {
	// Tail returns the last bytes of a file, at most limit. It reads the logs of containers.
	Tail func(path string, limit int64) ([]byte, error)
}

// Do carries out a change of images or containers.
func (r Runtimes) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.PullImage:
		return pullImage(ctx, c)
	case change.RemoveContainers:
		return removeContainers(ctx, c)
	case change.RemoveImage:
		return removeImage(ctx, c)
	}
	return fmt.Errorf("a container runtime cannot carry out a %T", c)
}

// client is a working connection to one runtime.
type client struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
	conn    *grpc.ClientConn
	version *runtimeapi.VersionResponse
}

func (c *client) close() { _ = c.conn.Close() } // an error does not matter

// connectFor opens a connection for calls that may take until the limit. end closes it.
func connectFor(ctx context.Context, socket string, limit time.Duration) (c *client,
	limited context.Context, end func(), err error) {
	if c, err = connect(ctx, socket, connectLimit); err != nil {
		return nil, nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	return c, limited, func() { cancel(); c.close() }, nil
}

// connect opens a connection and checks that the runtime answers.
func connect(ctx context.Context, socket string, limit time.Duration) (*client, error) {
	target, options, err := dialOptions(socket)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(target, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))...)
	if err != nil {
		return nil, fmt.Errorf("the container runtime's socket %q: %w", socket, err)
	}
	c := &client{
		RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn),
		ImageServiceClient:   runtimeapi.NewImageServiceClient(conn),
		conn:                 conn,
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer time.AfterFunc(progressDelay, func() {
		world.ReportProgress(ctx, "waiting for the container runtime at %s to answer, at most %s",
			socket, limit)
	}).Stop()
	c.version, err = c.Version(limited, &runtimeapi.VersionRequest{})
	if err == nil {
		return c, nil
	}
	c.close()
	if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %s", limit)
	}
	return nil, newNoAnswerError(socket, err)
}

// newNoAnswerError returns the error for a runtime that does not answer, with hints.
func newNoAnswerError(socket string, err error) error {
	if _, dial, ok := strings.Cut(err.Error(), "Error while dialing: "); ok {
		err = errors.New(strings.TrimSuffix(dial, `"`))
	}
	if status.Code(err) == codes.Unimplemented {
		return problem.New(
			fmt.Errorf("the container runtime at %s does not serve the CRI: %w", socket,
				unwrapGRPCError(err)),
			"in containerd the CRI plugin may be disabled: remove \"cri\" from disabled_plugins in "+
				containerdConfig+", then "+platform.ServiceCommand("restart", "containerd"))
	}
	name := "containerd" // the usual name of the service behind the socket
	switch {
	case strings.Contains(socket, "crio"):
		name = "crio"
	case strings.Contains(socket, "cri-dockerd"):
		name = "cri-docker"
	}
	return problem.New(
		fmt.Errorf("container runtime at %s is not responding: %w; is %s running?", socket,
			unwrapGRPCError(err), name),
		"check its state: "+platform.ServiceCommand("status", name))
}

// unwrapGRPCError returns an error with the message of a gRPC error only, which keeps its code.
// The message is escaped, as it may include text of a registry.
func unwrapGRPCError(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return &grpcError{s}
	}
	return err
}

type grpcError struct{ s *status.Status }

func (a *grpcError) Error() string {
	if a.s.Message() == "" {
		return a.s.Code().String()
	}
	return untrusted.Line(a.s.Message())
}

// GRPCStatus makes status.Code work.
func (a *grpcError) GRPCStatus() *status.Status { return a.s }
