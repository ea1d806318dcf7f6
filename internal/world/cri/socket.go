package cri

import (
	"context"
	"sync"
)

// Runtimes lists the default sockets of common container runtimes that accept a connection, in the
// order of preference.
func (r Runtimes) Runtimes(ctx context.Context) ([]string, error) {
	return filterAccepting(ctx, knownSockets()), nil
}

// filterAccepting returns the sockets on which a program listens. The kernel accepts the
// connection, so this does not block even if the program does not respond.
func filterAccepting(ctx context.Context, sockets []string) []string {
	accepts := make([]bool, len(sockets))
	var wg sync.WaitGroup
	for i, s := range sockets {
		wg.Go(func() {
			if conn, err := dialSocket(ctx, s); err == nil {
				accepts[i] = true
				_ = conn.Close()
			}
		})
	}
	wg.Wait()
	var found []string
	for i, s := range sockets {
		if accepts[i] {
			found = append(found, s)
		}
	}
	return found
}
