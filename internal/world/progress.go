package world

import (
	"context"
	"fmt"
)

// progressKey is the context key of the function that receives progress messages.
type progressKey struct{}

// WithProgress returns a context in which changes report their progress. report may be called by
// several goroutines at any time before Do returns.
func WithProgress(ctx context.Context, report func(text string)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ReportProgress reports the progress of a running change.
func ReportProgress(ctx context.Context, format string, args ...any) {
	if report, ok := ctx.Value(progressKey{}).(func(string)); ok {
		report(fmt.Sprintf(format, args...))
	}
}

// listingKey is the context key of the function that receives how far long lists are.
type listingKey struct{}

// WithListing returns a context in which lists report how far they are to report instead of to that of WithProgress. report may
// be called by several goroutines.
func WithListing(ctx context.Context, report func(text string)) context.Context {
	return context.WithValue(ctx, listingKey{}, report)
}

// ReportListing reports that a list goes on. Unlike a failure that is retried, it is no reason for a warning.
func ReportListing(ctx context.Context, kind string, count int) {
	if report, ok := ctx.Value(listingKey{}).(func(string)); ok {
		report(fmt.Sprintf(listingText, kind, count))
		return
	}
	ReportProgress(ctx, listingText, kind, count)
}

const listingText = "still listing %s objects: %d so far"
