package cri

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/untrusted"
)

// Image tells whether the runtime holds an image.
func (r Runtimes) Image(ctx context.Context, socket, ref string) (bool, error) {
	c, err := connect(ctx, socket, connectLimit)
	if err != nil {
		return false, err
	}
	defer c.close()
	ctx, cancel := calling(ctx)
	defer cancel()
	found, err := c.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		return false, fmt.Errorf("asking the container runtime for image %s: %w", ref, plain(err))
	}
	return found.Image != nil, nil
}

// pullLimit is far beyond what any image takes on a connection that is of use.
const pullLimit = 30 * time.Minute

// pullPause is the first pause between attempts to pull an image: a registry that is busy needs seconds.
const pullPause = time.Second

// pull brings one image, however slow the connection is, within pullLimit.
func pull(ctx context.Context, p change.PullImage) error {
	c, err := connect(ctx, p.Socket, connectLimit)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeoutCause(ctx, pullLimit, fmt.Errorf("it took longer than %s", pullLimit))
	defer cancel()
	err = again(ctx, pullPause, func() error {
		_, err := c.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: p.Ref}})
		return newPullError(p.Ref, err)
	}, isFinalPullError)
	if stopped := context.Cause(ctx); err != nil && stopped != nil {
		return stopped
	}
	return err
}

var (
	// requestForm is the request that the runtime made, and all that it says before it.
	requestForm = regexp.MustCompile(`^.*\b(?:Head|Get|Post) "[^"]*": `)
	// sourcePort differs from one connection to the next.
	sourcePort = regexp.MustCompile(`:[0-9]+->`)
)

// newPullError is nil for nil.
func newPullError(ref string, err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	message := strings.TrimPrefix(s.Message(), fmt.Sprintf("failed to pull and unpack image %q: ", ref))
	e := &change.PullError{Ref: ref, Unreachable: isUnreachable(message), Err: plain(err)}
	if e.Unreachable { // then it does not matter what was asked for
		message = sourcePort.ReplaceAllString(requestForm.ReplaceAllString(message, ""), "->")
	}
	if s.Code() == codes.Canceled { // not by us
		message = "the container runtime has broken it off, for no data came for a while: " + message
	}
	e.Cause = untrusted.Line(message)
	return e
}

// isUnreachable reports whether no connection to the registry came about that it would answer on. The CRI has no code
// for that: container runtimes pass on what Go's libraries say.
func isUnreachable(message string) bool {
	return containsAny(message, "dial tcp", "no such host", "x509: ", "gave HTTP response to HTTPS client")
}

// isFinalPullError reports whether another attempt cannot succeed before a person has changed something.
func isFinalPullError(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.InvalidArgument, codes.Canceled, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	var pull *change.PullError
	return errors.As(err, &pull) && containsAny(pull.Cause,
		"no such host", "connection refused", "network is unreachable", "no route to host", "x509: ", "gave HTTP response to HTTPS client",
		"not found", "manifest unknown", "denied", "unauthorized", "401 ", "403 ", "authorization failed")
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
