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

// Image reports whether an image is present in the runtime.
func (r Runtimes) Image(ctx context.Context, socket, ref string) (bool, error) {
	c, ctx, end, err := connectFor(ctx, socket, callLimit)
	if err != nil {
		return false, err
	}
	defer end()
	found, err := c.ImageStatus(ctx,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		return false, fmt.Errorf("checking for image %s in the container runtime: %w", ref,
			unwrapGRPCError(err))
	}
	return found.Image != nil, nil
}

// ImageRefs lists the references of all images: their tags, or digests of images without tags.
func (r Runtimes) ImageRefs(ctx context.Context, socket string) ([]string, error) {
	c, ctx, end, err := connectFor(ctx, socket, callLimit)
	if err != nil {
		return nil, err
	}
	defer end()
	found, err := c.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the images of the container runtime: %w",
			unwrapGRPCError(err))
	}
	var refs []string
	for _, image := range found.Images {
		if len(image.RepoTags) == 0 {
			refs = append(refs, image.RepoDigests...)
		}
		refs = append(refs, image.RepoTags...)
	}
	return refs, nil
}

// removeImage succeeds if the runtime does not have the image.
func removeImage(ctx context.Context, want change.RemoveImage) error {
	c, ctx, end, err := connectFor(ctx, want.Socket, stopLimit)
	if err != nil {
		return err
	}
	defer end()
	_, err = c.RemoveImage(ctx,
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: want.Ref}})
	if err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("removing image %s from the container runtime: %w", want.Ref,
			unwrapGRPCError(err))
	}
	return nil
}

// pullLimit is the timeout of one image pull. It is long enough for a slow connection.
const pullLimit = 30 * time.Minute

// pullPause is the first pause between attempts to pull an image: a busy registry needs seconds.
const pullPause = time.Second

// pullImage pulls one image, with retries, within pullLimit.
func pullImage(ctx context.Context, p change.PullImage) error {
	c, err := connect(ctx, p.Socket, connectLimit)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeoutCause(ctx, pullLimit,
		fmt.Errorf("it took longer than %s", pullLimit))
	defer cancel()
	err = retry(ctx, pullPause, func() error {
		_, err := c.PullImage(ctx,
			&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: p.Ref}})
		return newPullError(p.Ref, err)
	}, isFinalPullError)
	if stopped := context.Cause(ctx); err != nil && stopped != nil {
		return stopped
	}
	return err
}

var (
	// requestPrefix is the text up to the failed request and its URL.
	requestPrefix = regexp.MustCompile(`^.*\b(?:Head|Get|Post) "[^"]*": `)
	// sourcePort differs from one connection to the next.
	sourcePort = regexp.MustCompile(`:[0-9]+->`)
)

// newPullError returns a change.PullError for an error of the runtime, and nil for nil.
func newPullError(ref string, err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	message := strings.TrimPrefix(s.Message(),
		fmt.Sprintf("failed to pull and unpack image %q: ", ref))
	// The CRI has no code for a registry to which no connection was possible, but container
	// runtimes pass on the errors of Go's libraries.
	unreachable := containsAny(message, "dial tcp", "no such host", "x509: ",
		"gave HTTP response to HTTPS client")
	e := &change.PullError{Ref: ref, Unreachable: unreachable, Err: unwrapGRPCError(err)}
	if e.Unreachable { // the image does not matter
		message = sourcePort.ReplaceAllString(requestPrefix.ReplaceAllString(message, ""), "->")
	}
	if s.Code() == codes.Canceled { // by the runtime
		message = "the container runtime has canceled the pull because it received no data for a while: " + message
	}
	e.Cause = untrusted.Line(message)
	return e
}

// isFinalPullError reports whether a retry cannot succeed until a user fixes something.
func isFinalPullError(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.InvalidArgument, codes.Canceled, codes.PermissionDenied,
		codes.Unauthenticated:
		return true
	}
	var pull *change.PullError
	return errors.As(err, &pull) && containsAny(pull.Cause,
		"no such host", "connection refused", "network is unreachable", "no route to host",
		"x509: ", "gave HTTP response to HTTPS client",
		"not found", "manifest unknown", "denied", "unauthorized", "401 ", "403 ",
		"authorization failed")
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts,
		func(part string) bool { return strings.Contains(text, part) })
}
