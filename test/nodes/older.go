package nodes

import (
	"context"
	"path/filepath"
	"strings"
)

// OlderPrograms is the directory on a node with the kubelet, kubectl and upstream's kubeadm of
// Options.Older.
const OlderPrograms = "/opt/older/bin"

// addOlderRelease adds an older release to an image: its programs in a layer of their own, and its
// container images.
func addOlderRelease(ctx context.Context, newest image, older string,
	log func(string, ...any)) (image, error) {
	programs, err := listBundleDir(filepath.Join(older, "bin"))
	if err != nil {
		return image{}, err
	}
	archives, err := listBundleDir(filepath.Join(older, "images"))
	if err != nil {
		return image{}, err
	}
	layer, err := buildCached(ctx, "older-"+cacheKey(append(programs, "2")...),
		func(dir string) error {
			to := filepath.Join(dir, OlderPrograms)
			for _, name := range []string{"kubelet", "kubectl", "kubeadm-upstream"} {
				if err := copyFile(filepath.Join(older, "bin", name),
					filepath.Join(to, name)); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return image{}, err
	}
	name := "images-" + cacheKey(append(archives, filepath.Base(newest.containerd))...)
	store, err := buildCached(ctx, name, func(dir string) error {
		if err := cloneStore(ctx, newest.containerd, dir); err != nil {
			return err
		}
		return importImages(ctx, dir, older, newest.layers, log)
	})
	return image{layers: append([]string{layer}, newest.layers...), containerd: store}, err
}

// UseOlder replaces the node's kubelet and kubectl by those of Options.Older, as packages of that
// release would, and restarts the kubelet.
func (n *Node) UseOlder(ctx context.Context) error {
	var script strings.Builder
	script.WriteString("set -e\n")
	for _, name := range []string{"kubelet", "kubectl"} {
		script.WriteString("ln -sf " + OlderPrograms + "/" + name + " /usr/bin/" + name + "\n")
	}
	script.WriteString("systemctl restart kubelet\n")
	_, err := n.Run(ctx, "sh", "-c", script.String())
	return err
}
