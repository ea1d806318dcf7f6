package manifest

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
)

const systemCerts = "/etc/ssl/certs"

// sameDir shows a folder of the host under its own path.
func sameDir(name, dir string, readOnly bool) node.Volume {
	return node.Volume{Name: name, HostPath: dir, MountPath: dir, ReadOnly: readOnly, PathType: corev1.HostPathDirectoryOrCreate}
}

// kubeconfig shows a component its credentials.
func kubeconfig(file string) node.Volume {
	return node.Volume{Name: "kubeconfig", HostPath: file, MountPath: file, ReadOnly: true, PathType: corev1.HostPathFileOrCreate}
}

// certificateVolumes are the folders with certificates that the API server and the controller manager read.
func certificateVolumes(n *node.Node, h Host) []node.Volume {
	volumes := []node.Volume{
		sameDir("k8s-certs", n.Paths.Certificates, true),
		sameDir("ca-certs", systemCerts, true),
	}
	for _, d := range caDirs() {
		if slices.Contains(h.CADirs, d.path) {
			volumes = append(volumes, sameDir(d.volume, d.path, true))
		}
	}
	return volumes
}

// mergeVolumes sorts volumes by name; of equal names the last one counts.
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
	return slices.SortedFunc(slices.Values(volumes), func(a, b node.Volume) int { return strings.Compare(a.Name, b.Name) })
}

// externalEtcdDirs are the folders of the credentials for an external etcd that no
// other volume shows, without those inside another.
func externalEtcdDirs(n *node.Node) []string {
	e := n.Cluster.Etcd.External
	if e == nil {
		return nil
	}
	shown := append(CADirs(), systemCerts, n.Paths.Certificates)
	var dirs []string
	for _, file := range []string{e.CAFile, e.CertFile, e.KeyFile} {
		if dir := path.Dir(file); file != "" && !startsWithAny(dir, shown) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	var outer []string
	for _, dir := range dirs { // sorted: an outer folder comes before what is in it
		if !startsWithAny(dir, outer) {
			outer = append(outer, dir)
		}
	}
	return outer
}

// startsWithAny compares text, not path elements, so that volume names stay those of other tools.
func startsWithAny(dir string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(dir, p) })
}

func podVolumes(volumes []node.Volume) (list []corev1.Volume) {
	for _, v := range sortVolumes(volumes) {
		list = append(list, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: v.HostPath, Type: &v.PathType},
		}})
	}
	return list
}

func podMounts(volumes []node.Volume) (list []corev1.VolumeMount) {
	for _, v := range volumes {
		list = append(list, corev1.VolumeMount{Name: v.Name, MountPath: v.MountPath, ReadOnly: v.ReadOnly})
	}
	return list
}
