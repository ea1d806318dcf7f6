package staticpod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// WhyEtcdStays says why an upgrade does not replace the etcd member of this machine: the user does not
// want it, or the member is newer than the one of the upgrade. It is empty if the member is replaced.
func WhyEtcdStays(ctx context.Context, e *engine.Env, n *node.Node, isWanted bool) (string, error) {
	if !isWanted {
		return "--etcd-upgrade=false is set", nil
	}
	images, err := manifest.Images(n)
	if err != nil {
		return "", err
	}
	pod, err := Read(ctx, e, n, manifest.Etcd)
	if err != nil {
		return "", err
	}
	c, err := manifest.ComponentContainer(pod, manifest.Etcd)
	if err != nil {
		return "", nil // the manifest was edited; the one of the upgrade replaces it
	}
	running, wanted := taggedVersion(c.Image), images.EtcdVersion()
	if running == nil || !wanted.LessThan(running) {
		return "", nil
	}
	if tag := n.Cluster.Etcd.ImageTag; tag != "" {
		return fmt.Sprintf("v%s runs, which is newer than etcd.local.imageTag %s of the ClusterConfiguration, "+
			"and etcd cannot be downgraded; remove imageTag from ConfigMap kube-system/%s", running, tag,
			manifest.KubeadmConfigMap), nil
	}
	return fmt.Sprintf("v%s runs, which is newer than v%s of Kubernetes %s", running, wanted,
		n.Cluster.Version), nil
}

// IsEtcdNewer reports whether the etcd member of this machine has, or may have, a newer etcd than another
// manifest of it: then it may have raised the storage version of the data.
func IsEtcdNewer(ctx context.Context, e *engine.Env, n *node.Node, other []byte) (bool, error) {
	present, err := Read(ctx, e, n, manifest.Etcd)
	if err != nil {
		return false, err
	}
	pod, err := parsePod(other)
	if err != nil {
		return false, err
	}
	if slices.Equal(listImages(present), listImages(pod)) {
		return false, nil
	}
	var versions [2]*version.Version
	for i, p := range []*corev1.Pod{present, pod} {
		c, err := manifest.ComponentContainer(p, manifest.Etcd)
		if err != nil {
			return true, nil
		}
		versions[i] = taggedVersion(c.Image)
	}
	return versions[0] == nil || versions[1] == nil || versions[1].LessThan(versions[0]), nil
}

// taggedVersion is the version by which an image of etcd is tagged, without the number of the image's
// build; nil if the tag is none.
func taggedVersion(image string) *version.Version {
	tag, err := release.ImageTag(image)
	if err != nil {
		return nil
	}
	return release.EtcdVersion(tag)
}

// EtcdVersion is the version of the etcd of a static Pod by the tag of its image; nil if the tag is none.
func EtcdVersion(pod *corev1.Pod) *version.Version {
	c, err := manifest.ComponentContainer(pod, manifest.Etcd)
	if err != nil {
		return nil
	}
	return taggedVersion(c.Image)
}
