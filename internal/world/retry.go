package world

import (
	"context"
	"time"
)

// retryKey is the key under which a context carries how long reads are retried.
type retryKey struct{}

// Retry is a context in which a read of the API server that fails in a way that may pass is retried for that long: no
// connection, an API server that restarts, etcd without a leader. It is for reads that decide what is changed; one that is
// made in a wait needs none.
func Retry(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, retryKey{}, limit)
}

// RetryLimit is how long reads are retried in that context; 0 for not at all.
func RetryLimit(ctx context.Context) time.Duration {
	limit, _ := ctx.Value(retryKey{}).(time.Duration)
	return limit
}
