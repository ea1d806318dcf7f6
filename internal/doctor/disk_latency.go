package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// slowSync is the median time of a write and its fsync from which etcd has trouble: it recommends that
// 99 of 100 take less (https://etcd.io/docs/latest/faq/). The median does not depend on a moment's load.
const slowSync = 10 * time.Millisecond

// checkDiskLatency measures how long an fsync takes on the disk of etcd's data, where there is or may be
// a member of etcd: etcd waits for one before it answers a write.
func checkDiskLatency(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	if m.IsNode && !m.hasEtcd {
		return
	}
	dir := etcdDataDir(m.Pods)
	for dir != "/" && !exists(ctx, r, dir) {
		dir = path.Dir(dir)
	}
	times, err := r.SyncTimes(ctx, dir)
	if err != nil || len(times) == 0 {
		rep.Skip("writes to %s cannot be measured: %v", dir, err)
		return
	}
	slices.Sort(times)
	median := times[len(times)/2]
	if median < slowSync {
		return
	}
	rep.Add(preflight.Finding{Severity: preflight.Warning,
		Text: fmt.Sprintf("the disk that holds etcd's data is slow: a write takes %s", median.Round(time.Millisecond/10)),
		Evidence: fmt.Sprintf("%d synced writes in %s: median %s, slowest %s; etcd recommends less than %s",
			len(times), dir, median.Round(time.Millisecond/10),
			times[len(times)-1].Round(time.Millisecond/10), slowSync),
		Remedy: "put etcd's data on a local SSD that other programs do not keep busy"})
}

// etcdDataDir is the directory of etcd's data on this machine, or where it will be.
func etcdDataDir(pods map[string]*corev1.Pod) string {
	if pod := pods[manifest.Etcd]; pod != nil {
		if dir := manifest.ArgumentValue(pod, "data-dir"); path.IsAbs(dir) {
			return dir
		}
	}
	return "/var/lib/etcd"
}
