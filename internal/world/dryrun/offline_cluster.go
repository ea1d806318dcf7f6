package dryrun

import (
	"context"
	"net/http"
	"strings"

	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// SimulateCluster lets a simulated cluster answer in place of one that cannot be reached: from
// then on nothing of any cluster is read but the objects and the cluster-info given here.
func (w *World) SimulateCluster(info map[string]string, objects ...state.Object) error {
	for _, o := range objects {
		if err := w.simulated.PutObject(o); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clusterInfo = info
	return nil
}

// SimulateMachine puts files in place of those that this machine lacks, and members in place of those
// of its etcd.
func (w *World) SimulateMachine(ctx context.Context, files map[string][]byte,
	members []state.Member) error {
	for name, data := range files {
		exists, err := state.Exists(ctx, w, name)
		if err == nil && !exists {
			err = w.overlay.PutFile(name, memory.File{Data: data, Mode: 0o600})
		}
		if err != nil {
			return err
		}
	}
	w.overlay.MemberList = members
	w.mark(membersRead)
	return nil
}

// SimulateDiscoveryFile puts the discovery file of the simulated cluster in place of the one with
// that path or URL.
func (w *World) SimulateDiscoveryFile(name string, text []byte) error {
	if !strings.Contains(name, "://") {
		return w.overlay.PutFile(name, memory.File{Data: text, Mode: 0o600})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.discoveryFiles = map[string][]byte{name: text}
	return nil
}

// Fetch gets the discovery file of a simulated cluster, or else asks the real server.
func (w *World) Fetch(ctx context.Context, req state.Request) (state.Response, error) {
	w.mu.Lock()
	text, ok := w.discoveryFiles[req.URL]
	w.mu.Unlock()
	if ok {
		return state.Response{Status: http.StatusOK, Body: text}, nil
	}
	return w.World.Fetch(ctx, req)
}

// simulatedInfo is the cluster-info of the simulated cluster; nil if there is none.
func (w *World) simulatedInfo() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clusterInfo
}

// ClusterInfo returns the data of ConfigMap cluster-info.
func (w *World) ClusterInfo(ctx context.Context, server string,
	ca []byte) (map[string]string, error) {
	if info := w.simulatedInfo(); info != nil {
		return info, nil
	}
	return w.World.ClusterInfo(ctx, server, ca)
}
