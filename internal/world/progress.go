package world

import (
	"context"
	"fmt"
)

// progressKey is the context key of the function that receives progress messages.
type progressKey struct{}

// Listen returns a context in which changes report their progress. report may be called by several
// goroutines at any time before Do returns.
func Listen(ctx context.Context, report func(text string)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Tell reports the progress of a running change.
func Tell(ctx context.Context, format string, args ...any) {
	if report, ok := ctx.Value(progressKey{}).(func(string)); ok {
		report(fmt.Sprintf(format, args...))
	}
}
