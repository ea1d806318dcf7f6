package certstore

import (
	"context"
	"fmt"
	"time"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// maxClockDifference is how far the clock of this machine may be from that of another one. Smaller
// differences are bridged by the five minutes by which certificates are valid before they are signed.
const maxClockDifference = time.Hour

// CheckClock is an error if the clock of this machine differs from that of a server at "host:port":
// then a certificate that seems to have expired may be valid, and a new one invalid elsewhere. The
// server is not verified, so what it says must not decide more than whether to go on. A server that
// does not answer is ignored.
func CheckClock(ctx context.Context, r state.Reader, server string) error {
	there, err := r.ServerTime(ctx, server)
	if err != nil {
		return nil
	}
	here := r.Now()
	text := "ahead of"
	difference := here.Sub(there)
	if difference < 0 {
		text, difference = "behind", -difference
	}
	if difference <= maxClockDifference {
		return nil
	}
	return problem.New(fmt.Errorf("this machine's clock shows %s, which is %s %s that of %s",
		here.UTC().Format(time.RFC3339), difference.Round(time.Minute), text, server),
		"correct the clock that is wrong, and re-run the command: timedatectl")
}
