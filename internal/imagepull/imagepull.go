// Package imagepull pulls container images, and groups the errors by their cause.
package imagepull

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
)

// Pull pulls images, serially or in parallel. If one fails it still pulls the others, but not from
// an unreachable registry. The error lists the images that failed by cause.
func Pull(ctx context.Context, e *engine.Env, pulls []change.Change, serially bool) error {
	if !serially {
		return groupPullErrors(e.DoAll(ctx, pulls...))
	}
	var errs []error
	unreachable := map[string]*change.PullError{}
	for _, p := range pulls {
		image, isImage := p.(change.PullImage)
		if before := unreachable[registryOf(image.Ref)]; isImage && before != nil {
			errs = append(errs, &change.PullError{Ref: image.Ref, Cause: before.Cause,
				Unreachable: true, Err: before.Err})
			continue
		}
		err := e.Do(ctx, p)
		var failed *change.PullError
		if errors.As(err, &failed) && failed.Unreachable {
			unreachable[registryOf(image.Ref)] = failed
		}
		errs = append(errs, err)
	}
	return groupPullErrors(errors.Join(errs...))
}

func registryOf(ref string) string {
	registry, _, _ := strings.Cut(ref, "/")
	return registry
}

// groupPullErrors groups joined errors by their cause: a line for the cause, then the images.
func groupPullErrors(joined error) error {
	many, ok := joined.(interface{ Unwrap() []error })
	if !ok {
		return joined
	}
	var errs []error
	groups := map[string]*pullErrors{}
	for _, err := range many.Unwrap() {
		var failed *change.PullError
		if !errors.As(err, &failed) {
			errs = append(errs, err)
			continue
		}
		if groups[failed.Cause] == nil {
			groups[failed.Cause] = &pullErrors{}
			errs = append(errs, groups[failed.Cause])
		}
		groups[failed.Cause].list = append(groups[failed.Cause].list, failed)
	}
	return errors.Join(errs...)
}

// pullErrors has the errors with the same cause.
type pullErrors struct{ list []*change.PullError }

func (p *pullErrors) Error() string {
	if len(p.list) == 1 {
		return fmt.Sprintf("could not pull image %q: %s", p.list[0].Ref, p.list[0].Cause)
	}
	text := fmt.Sprintf("could not pull %d images: %s", len(p.list), p.list[0].Cause)
	for _, failed := range p.list {
		text += "\n\t\t" + failed.Ref
	}
	return text
}

// Unwrap returns the first of them.
func (p *pullErrors) Unwrap() error { return p.list[0] }
