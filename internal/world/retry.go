package world

import (
	"context"
	"time"
)

// retryKey is the context key of the time limit of retries.
type retryKey struct{}

// WithRetry returns a context in which reads of the API server are retried for that long after
// transient errors: no connection, an API server that restarts, etcd without a leader. Use it for
// reads that decide what is changed. A read in the check of a Condition does not need it.
func WithRetry(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, retryKey{}, limit)
}

// RetryLimit returns how long reads are retried in that context; 0 for not at all.
func RetryLimit(ctx context.Context) time.Duration {
	limit, _ := ctx.Value(retryKey{}).(time.Duration)
	return limit
}
