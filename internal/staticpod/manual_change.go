package staticpod

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// FindManualChange returns the manifest that kubeadm would write for the present version and the one
// on disk; both are nil if they describe the same Pod, or if the one on disk is the wanted one
// already.
func FindManualChange(ctx context.Context, e *engine.Env, present, wanted *node.Node,
	component string) (made, found []byte, err error) {
	file := wanted.Paths.Manifest(component)
	found, err = state.ReadOptional(ctx, e.World, file)
	if err != nil || found == nil { // another check reports a missing file
		return nil, nil, err
	}
	if component == manifest.Etcd {
		if present, err = WithEtcdImage(ctx, e, present); err != nil {
			return nil, nil, err
		}
	}
	for _, n := range []*node.Node{wanted, present} {
		m, err := RenderPresent(ctx, e, n, component)
		if err != nil {
			return nil, nil, err
		}
		made = m.Data
		same, err := EqualButForProxy(found, made)
		if err != nil {
			return nil, nil, problem.During("reading "+file, err,
				"correct the file, or restore it from a backup")
		}
		if same {
			return nil, nil, nil
		}
	}
	return made, found, nil
}

// WithEtcdImage is the node with the etcd image of the manifest on disk. Which etcd belongs to a
// Kubernetes version depends on the kubeadm that wrote the manifest. An imageTag of the configuration counts.
func WithEtcdImage(ctx context.Context, e *engine.Env, n *node.Node) (*node.Node, error) {
	pod, err := Read(ctx, e, n, manifest.Etcd)
	if err != nil || n.Cluster.Etcd.ImageTag != "" {
		return n, err
	}
	c, err := manifest.ComponentContainer(pod, manifest.Etcd)
	if err != nil {
		return n, nil
	}
	with := *n
	if tag, err := release.ImageTag(c.Image); err == nil {
		with.Cluster.Etcd.ImageTag = tag
	}
	return &with, nil
}
