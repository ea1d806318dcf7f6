package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// newSwapCheck warns of swap space.
func newSwapCheck() Check {
	return Check{Name: "Swap", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		areas, err := state.SwapAreas(ctx, r)
		if errors.Is(err, fs.ErrPermission) {
			return
		}
		if err != nil {
			rep.Warn("", "looking for swap space: %v", err)
			return
		}
		if len(areas) == 0 {
			return
		}
		f := Finding{Severity: Warning,
			Text: fmt.Sprintf("swap is on (%s), but the kubelet does not start with swap unless its configuration allows it",
				strings.Join(areas, ", ")),
			Remedy:  `turn it off with "swapoff -a" and in /etc/fstab, or set failSwapOn: false for the kubelet`,
			Command: "swapoff -a"}
		for _, area := range areas {
			f.Changes = append(f.Changes, change.SetSwap{Area: area})
		}
		rep.Add(f)
	}, Why: "without failSwapOn: false the kubelet does not start while swap is on; " +
		"with it, Pods may become slow instead of being evicted"}
}
