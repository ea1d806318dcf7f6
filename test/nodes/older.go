package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// ReleaseOf returns the Kubernetes version of a bundle.
func ReleaseOf(bundle string) (string, error) {
	text, err := os.ReadFile(filepath.Join(bundle, "bundle.json"))
	if err != nil {
		return "", err
	}
	var b struct{ Kubernetes string }
	if err := json.Unmarshal(text, &b); err != nil || b.Kubernetes == "" {
		return "", fmt.Errorf("%s: no Kubernetes version in bundle.json: %w", bundle, err)
	}
	return b.Kubernetes, nil
}

// ReleasePrograms is the directory on a node with the kubelet, kubectl and upstream's kubeadm of a
// release in Options.Older.
func ReleasePrograms(version string) string { return "/opt/kubernetes/" + version + "/bin" }

// addRelease adds an older release to an image: its programs in a layer of their own, and its
// container images.
func addRelease(ctx context.Context, newer image, older string,
	log func(string, ...any)) (image, error) {
	version, err := ReleaseOf(older)
	if err != nil {
		return image{}, err
	}
	programs, err := listBundleDir(filepath.Join(older, "bin"))
	if err != nil {
		return image{}, err
	}
	archives, err := listBundleDir(filepath.Join(older, "images"))
	if err != nil {
		return image{}, err
	}
	layer, err := buildCached(ctx, "older-"+cacheKey(append(programs, "3")...),
		func(dir string) error {
			to := filepath.Join(dir, ReleasePrograms(version))
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
	name := "images-" + cacheKey(append(archives, filepath.Base(newer.containerd))...)
	store, err := buildCached(ctx, name, func(dir string) error {
		if err := cloneStore(ctx, newer.containerd, dir); err != nil {
			return err
		}
		return importImages(ctx, dir, older, newer.layers, log)
	})
	return image{layers: append([]string{layer}, newer.layers...), containerd: store}, err
}

// UseRelease replaces the node's kubelet and kubectl by those of a release in Options.Older, as
// packages of that release would, and restarts the kubelet.
func (n *Node) UseRelease(ctx context.Context, version string) error {
	from := ReleasePrograms(version)
	_, err := n.Run(ctx, "sh", "-ec", "ln -sf "+from+"/kubelet "+from+"/kubectl /usr/bin/ && "+
		"systemctl restart kubelet")
	return err
}
