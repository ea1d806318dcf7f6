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
	for _, dir := range CADirs() {
		if slices.Contains(h.CADirs, dir) {
			name := strings.ReplaceAll(strings.TrimPrefix(dir, "/"), "/", "-")
			volumes = append(volumes, dirVolume(name, dir, true))
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
	slices.SortFunc(merged, func(a, b node.Volume) int { return strings.Compare(a.Name, b.Name) })
	return merged
}

// externalEtcdDirs are the directories of the client certificates for an external etcd, without
// those inside another of them or inside another volume.
func externalEtcdDirs(n *node.Node) []string {
	e := n.Cluster.Etcd.External
	if e == nil {
		return nil
	}
	var dirs []string
	for _, file := range []string{e.CAFile, e.CertFile, e.KeyFile} {
		if file != "" {
			dirs = append(dirs, path.Dir(file))
		}
	}
	slices.Sort(dirs) // a directory comes before those below it
	mounted := append(CADirs(), systemCerts, n.Paths.Certificates)
	others := len(mounted)
	for _, dir := range dirs {
		// Text is compared rather than path elements, so that volume names are those of upstream's
		// kubeadm.
		if !slices.ContainsFunc(mounted, func(m string) bool { return strings.HasPrefix(dir, m) }) {
			mounted = append(mounted, dir)
		}
	}
	return mounted[others:]
}
