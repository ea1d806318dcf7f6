package preview

import (
	"context"

	"kubeadm/internal/change"
)

// StandIn makes a cluster that is not there answer in place of one that cannot be reached: from
// then on nothing of any cluster is read but the objects and the cluster-info given here.
func (w *World) StandIn(ctx context.Context, info map[string]string, objects ...change.Object) error {
	for _, o := range objects {
		if err := w.believed.Do(ctx, change.ApplyObject{Object: o}); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.info = info
	return nil
}

// stoodIn is what the make-believe cluster tells of itself; nil where there is none.
func (w *World) stoodIn() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.info
}

// ClusterInfo is what the cluster tells everybody of itself.
func (w *World) ClusterInfo(ctx context.Context, server string, ca []byte) (map[string]string, error) {
	if info := w.stoodIn(); info != nil {
		return info, nil
	}
	return w.World.ClusterInfo(ctx, server, ca)
}
