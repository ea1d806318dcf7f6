package rotateca

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// rootKubeconfig is where kubectl of root looks for a copy of admin.conf.
const rootKubeconfig = "/root/.kube/config"

// warnOfHostUse names what uses an administrator's kubeconfig on this machine besides kubeadm: static
// Pods with the file, as of kube-vip, which go on with the old content until they are restarted, and
// the copy of root.
func (m machine) warnOfHostUse(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) || s.IsLast() {
		return nil
	}
	dir := m.node.Paths.Manifests()
	files, err := m.e.World.ReadDir(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		component := strings.TrimSuffix(path.Base(f.Path), ".yaml")
		if !f.Mode.IsRegular() || slices.Contains(staticpod.Components(m.node), component) {
			continue
		}
		data, err := m.e.World.ReadFile(ctx, f.Path)
		if err != nil {
			m.e.Warn("%v; if it is a static Pod that uses admin.conf, restart it", untrusted.Error(err))
			continue
		}
		if used := m.adminFileOf(data); used != "" {
			m.e.Warn("the static Pod in %s uses %s, which has changed: restart it, for example by moving the manifest out of %s until the Pod has stopped",
				untrusted.Quote(f.Path), used, dir)
		}
	}
	return m.warnOfCopy(ctx, s)
}

// adminFileOf returns the administrator's kubeconfig that the volumes of a Pod's manifest contain.
func (m machine) adminFileOf(data []byte) string {
	var pod corev1.Pod
	if yaml.Unmarshal(data, &pod) != nil {
		return ""
	}
	for _, name := range []string{"admin.conf", "super-admin.conf"} {
		file := m.node.Paths.Kubeconfig(name)
		for _, v := range pod.Spec.Volumes {
			if v.HostPath == nil {
				continue
			}
			mounted := path.Clean(v.HostPath.Path)
			if mounted == file || strings.HasPrefix(file, strings.TrimSuffix(mounted, "/")+"/") {
				return file
			}
		}
	}
	return ""
}

// warnOfCopy warns if the kubeconfig of root is one of this cluster from before the stage.
func (m machine) warnOfCopy(ctx context.Context, s rotation.Stage) error {
	data, err := state.ReadOptional(ctx, m.e.World, rootKubeconfig)
	if err != nil || data == nil {
		return nil // not a file of kubeadm
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil
	}
	isOld, err := config.ReplaceCA(m.bothCAs(), m.trusted(s, rotation.ClusterAuthority))
	if err != nil {
		return nil
	}
	if cert, err := config.ClientCertificate(); err == nil {
		isOld = isOld || isSignedBy(cert, []byte(m.other(s)[rotation.ClusterAuthority]))
	}
	if isOld {
		m.e.Warn("%s is from before this stage: %s", rootKubeconfig, untrusted.CommandHint(
			"copy admin.conf again", "cp", m.node.Paths.Kubeconfig("admin.conf"), rootKubeconfig))
	}
	return nil
}
