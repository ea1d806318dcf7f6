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
