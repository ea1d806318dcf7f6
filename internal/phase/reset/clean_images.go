package reset

import (
	"context"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/untrusted"
)

// removeImages removes the images of the control plane and its add-ons: kube-apiserver,
// kube-controller-manager, kube-scheduler and kube-proxy of any registry, and etcd, CoreDNS and
// pause of the same registries and of registry.k8s.io. Images of workloads stay, and so does an
// etcd image of another repository.
func removeImages(ctx context.Context, e *engine.Env) {
	refs, err := e.World.ImageRefs(ctx, e.Local.CRISocket)
	if err != nil {
		e.Warn("%v; images are not removed", err)
		return
	}
	images := findClusterImages(refs)
	if len(images) == 0 {
		return
	}
	e.Say("removing the images %v", images)
	for _, ref := range images {
		warnOnError(e, e.Do(ctx, change.RemoveImage{Socket: e.Local.CRISocket, Ref: ref}),
			untrusted.CommandHint("remove it manually", "crictl rmi", ref))
	}
}

// findClusterImages returns the images that only the names of the others tell to be the cluster's
// before those others, so that a re-run after a kill finds the same.
func findClusterImages(refs []string) []string {
	repositories := []string{"registry.k8s.io"}
	var named, rest []string
	for _, ref := range refs {
		repository, name := splitImage(ref)
		switch name {
		case "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy":
			repositories = append(repositories, repository)
			named = append(named, ref)
		}
	}
	for _, ref := range refs {
		repository, name := splitImage(ref)
		if name == "coredns" {
			repository = strings.TrimSuffix(repository, "/coredns")
		}
		if slices.Contains([]string{"etcd", "coredns", "pause"}, name) &&
			slices.Contains(repositories, repository) {
			rest = append(rest, ref)
		}
	}
	return append(rest, named...)
}

// splitImage returns the repository of an image, without its last element, and that element.
func splitImage(ref string) (repository, name string) {
	ref, _, _ = strings.Cut(ref, "@")
	name, _, _ = strings.Cut(path.Base(ref), ":")
	return path.Dir(ref), name
}
