package preview

import (
	"context"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// keep leaves a copy of the file for the user to look at: certificates as the tree
// they are, all else side by side, as kubeadm's dry runs always did.
func (w *World) keep(ctx context.Context, c change.WriteFile) error {
	w.forgetRemoval(c.Path)
	if w.dir == "" {
		return nil
	}
	to := path.Join(w.dir, path.Base(c.Path))
	if rest, ok := strings.CutPrefix(c.Path, w.paths.Certificates+"/"); ok {
		to = path.Join(w.dir, rest)
	}
	c.Path = to
	return w.World.Do(ctx, c)
}

// believe makes believe what a started kubelet does by itself: it trades the bootstrap
// credential for one of its own and keeps its rotating certificate. What is there already stays as it is.
func (w *World) believe(ctx context.Context, c change.SetService) error {
	if c.Name != "kubelet" || !c.Active {
		return nil
	}
	if w.asksTooEarly(ctx) {
		return nil
	}
	made := []change.WriteFile{{Path: w.paths.RotatedCert, Mode: 0o600, Secret: true}}
	if bootstrap, err := w.ReadFile(ctx, w.paths.BootstrapConfig); err == nil {
		made = append(made, change.WriteFile{Path: w.paths.KubeletKubeconfig, Data: bootstrap, Mode: 0o600, Secret: true})
	}
	for _, m := range made {
		if _, err := w.Stat(ctx, m.Path); err == nil {
			continue
		}
		if err := w.over.Do(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// believeNode makes believe that the kubelet has registered its Node by the time that
// something was waited for. A real Node comes before it.
func (w *World) believeNode(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.paths.Node, Labels: map[string]string{corev1.LabelHostname: w.paths.Node}}}
	node.SetGroupVersionKind(state.NodeKind)
	return w.believed.Do(ctx, change.ApplyObject{Object: node})
}

// asksTooEarly tells whether the kubelet would ask the API server beside it for a certificate while that one still
// is not there or lacks its etcd, as on a machine that is to become one more control plane.
func (w *World) asksTooEarly(ctx context.Context) bool {
	exists := func(file string) bool { _, err := w.Stat(ctx, file); return err == nil }
	return w.paths.OwnServer != "" && exists(w.paths.BootstrapConfig) && (!exists(w.paths.OwnServer) || !exists(w.paths.OwnEtcd))
}
