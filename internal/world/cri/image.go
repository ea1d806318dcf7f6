package cri

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
)

// Image tells whether the runtime holds an image.
func (r Runtimes) Image(ctx context.Context, socket, ref string) (bool, error) {
	c, err := connect(ctx, socket)
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

// pull brings one image, however slow the connection is, within pullLimit.
func pull(ctx context.Context, p change.PullImage) error {
	c, err := connect(ctx, p.Socket)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeoutCause(ctx, pullLimit, fmt.Errorf("it took longer than %s", pullLimit))
	defer cancel()
	err = again(ctx, func() error {
		_, err := c.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: p.Ref}})
		return unpulled(p.Ref, err)
	}, codes.NotFound, codes.InvalidArgument, codes.Canceled)
	if stopped := context.Cause(ctx); err != nil && stopped != nil {
		return stopped
	}
	return err
}

// unpulled is why an image did not come, less what whoever asked for it knows.
func unpulled(ref string, err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	message := strings.TrimPrefix(s.Message(), fmt.Sprintf("failed to pull and unpack image %q: ", ref))
	if s.Code() == codes.Canceled { // not by us
		message = "the container runtime has broken it off, for no data came for a while: " + message
	}
	return plain(status.Error(s.Code(), message))
}
