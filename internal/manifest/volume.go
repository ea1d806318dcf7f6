package manifest

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
)

const systemCerts = "/etc/ssl/certs"

// dirVolume mounts a directory of the host at the same path.
func dirVolume(name, dir string, readOnly bool) node.Volume {
	return node.Volume{Name: name, HostPath: dir, MountPath: dir, ReadOnly: readOnly,
		PathType: corev1.HostPathDirectoryOrCreate}
}

// kubeconfigVolume mounts the kubeconfig of a component.
func kubeconfigVolume(file string) node.Volume {
	return node.Volume{Name: "kubeconfig", HostPath: file, MountPath: file, ReadOnly: true,
		PathType: corev1.HostPathFileOrCreate}
}

// certificateVolumes are the directories with certificates that the API server and the controller
// manager read.
func certificateVolumes(n *node.Node, h Host) []node.Volume {
	volumes := []node.Volume{
		dirVolume("k8s-certs", n.Paths.Certificates, true),
		dirVolume("ca-certs", systemCerts, true),
	}
	for _, d := range caDirs() {
		if slices.Contains(h.CADirs, d.path) {
			volumes = append(volumes, dirVolume(d.volume, d.path, true))
		}
	}
	return volumes
}

// mergeVolumes sorts volumes by name; of equal names the last one wins.
func mergeVolumes(lists ...[]node.Volume) []node.Volume {
	var merged []node.Volume
	for _, v := range slices.Backward(slices.Concat(lists...)) {
		if !slices.ContainsFunc(merged, func(m node.Volume) bool { return m.Name == v.Name }) {
			merged = append(merged, v)
		}
	}
	return sortVolumes(merged)
}

func sortVolumes(volumes []node.Volume) []node.Volume {
	return slices.SortedFunc(slices.Values(volumes),
		func(a, b node.Volume) int { return strings.Compare(a.Name, b.Name) })
}

// externalEtcdDirs are the directories of the client certificates for an external etcd, without
// those inside another of them or inside another volume.
func externalEtcdDirs(n *node.Node) []string {
	e := n.Cluster.Etcd.External
	if e == nil {
		return nil
	}
	shown := append(CADirs(), systemCerts, n.Paths.Certificates)
	var dirs []string
	for _, file := range []string{e.CAFile, e.CertFile, e.KeyFile} {
		if dir := path.Dir(file); file != "" && !hasAnyPrefix(dir, shown) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	var outer []string
	for _, dir := range dirs { // sorted: a directory comes before those below it
		if !hasAnyPrefix(dir, outer) {
			outer = append(outer, dir)
		}
	}
	return outer
}

// hasAnyPrefix compares text rather than path elements, so that volume names are those of
// upstream's kubeadm.
func hasAnyPrefix(dir string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(dir, p) })
}
