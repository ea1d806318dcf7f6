package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// Differences between the clocks of two machines. Certificates are valid five minutes before they are
// signed, and the header that shows another machine's time has no fractions of a second.
const (
	clockWarning = 5 * time.Second
	clockError   = 5 * time.Minute
)

// checkClock compares the clock with that of the API server, and of other nodes where they can be
// listed.
func checkClock(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	servers := map[string]string{}
	if endpoint, err := endpointOf(ctx, r, c.as.Kubeconfig); err == nil {
		servers[endpoint] = "the API server at " + endpoint
	}
	if all, err := c.nodes(ctx, r); err == nil {
		for _, n := range peersOf(c.nodeName, all) {
			if address := kubeletAddress(n); address != "" {
				servers[address] = "node " + n.Name
			}
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	answered := 0
	for address, name := range servers {
		wg.Go(func() {
			there, err := r.ServerTime(ctx, address)
			here := r.Now()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				return
			}
			answered++
			difference := here.Sub(there).Abs()
			if difference < clockWarning {
				return
			}
			severity := preflight.Warning
			if difference >= clockError {
				severity = preflight.Error
			}
			rep.Add(preflight.Finding{Severity: severity,
				Text: fmt.Sprintf("the clocks of this machine and of %s differ by %s", name,
					difference.Round(time.Second)),
				Evidence: fmt.Sprintf("this machine: %s; %s: %s", here.UTC().Format(time.RFC3339), name,
					there.UTC().Format(time.RFC3339)),
				Remedy:  "synchronize the clocks with NTP",
				Command: "timedatectl set-ntp true"})
		})
	}
	wg.Wait()
	if answered == 0 {
		rep.Skip("no other machine reports its time")
	}
}
