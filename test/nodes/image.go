package nodes

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed rootfs launch.sh import.sh
var embeddedFiles embed.FS

// The programs of a bundle that a node has in /usr/bin; the optional ones may be missing.
var (
	requiredPrograms = []string{"kubelet", "kubectl", "containerd", "containerd-shim-runc-v2",
		"ctr", "runc"}
	optionalPrograms = []string{"crictl", "etcd", "etcdctl", "kubeadm-upstream"}
)

// Units that start at boot, and units that a node does not need.
var (
	enabledUnits = []string{"containerd.service", "kubelet.service", "sandbox.service"}
	maskedUnits  = []string{
		"getty@tty1.service", "getty-static.service", "console-getty.service",
		"systemd-logind.service",
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
		"e2scrub_reap.service",
		"fstrim.timer", "systemd-firstboot.service", "systemd-tmpfiles-clean.timer",
	}
)

// image is what every node starts from: read-only layers of the root, topmost first, and a
// containerd directory with the bundle's images, which each node copies.
type image struct {
	layers     []string
	containerd string
}

// buildNodeImage builds the image for a bundle, or takes it from the cache.
func buildNodeImage(ctx context.Context, bundle string, log func(string, ...any)) (image, error) {
	layerName, storeName, err := imageCacheNames(bundle)
	if err != nil {
		return image{}, err
	}
	base, err := buildBaseSystem(ctx, log)
	if err != nil {
		return image{}, err
	}
	layer, err := buildCached(ctx, layerName,
		func(dir string) error { return buildLayer(dir, bundle) })
	if err != nil {
		return image{}, err
	}
	layers := []string{layer, base}
	store, err := buildCached(ctx, storeName,
		func(dir string) error { return importImages(ctx, dir, bundle, layers, log) })
	return image{layers: layers, containerd: store}, err
}

// imageCacheNames returns the cache names for a bundle: digests of the bundle's contents and of
// the files embedded here. Programs and archives count by name, size and time, since reading
// hundreds of megabytes would take longer than starting a node.
func imageCacheNames(bundle string) (layer, store string, err error) {
	parts := []string{"2", strings.Join(enabledUnits, ","), strings.Join(maskedUnits, ",")}
	err = fs.WalkDir(embeddedFiles, "rootfs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := embeddedFiles.ReadFile(path)
		parts = append(parts, path, string(data))
		return err
	})
	if err != nil {
		return "", "", err
	}
	for _, dir := range []string{"bin", "cni"} {
		listed, err := listBundleDir(filepath.Join(bundle, dir))
		if err != nil {
			return "", "", err
		}
		parts = append(parts, listed...)
	}
	script, err := embeddedFiles.ReadFile("import.sh")
	if err != nil {
		return "", "", err
	}
	archives, err := listBundleDir(filepath.Join(bundle, "images"))
	return "node-" + cacheKey(parts...), "images-" + cacheKey(append(archives, string(script))...),
		err
}

func listBundleDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the components bundle: %w", err)
	}
	lines := []string{filepath.Base(dir)}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the components bundle: %w", err)
		}
		lines = append(lines,
			fmt.Sprint(e.Name(), " ", info.Size(), " ", info.ModTime().UnixNano()))
	}
	return lines, nil
}

func buildLayer(dir, bundle string) error {
	files, err := fs.Sub(embeddedFiles, "rootfs")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	if err := installPrograms(filepath.Join(dir, "usr/bin"),
		filepath.Join(bundle, "bin")); err != nil {
		return err
	}
	for _, name := range []string{
		"etc/kubernetes/manifests", "etc/cni/net.d", "var/log/journal", "var/lib/containerd",
		"opt/cni/bin", "etc/systemd/system/multi-user.target.wants",
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	system := filepath.Join(dir, "etc/systemd/system")
	plugins, wants := filepath.Join(dir, "opt/cni/bin"),
		filepath.Join(system, "multi-user.target.wants")
	entries, err := os.ReadDir(filepath.Join(bundle, "cni"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := linkOrCopy(filepath.Join(bundle, "cni", e.Name()),
			filepath.Join(plugins, e.Name())); err != nil {
			return err
		}
	}
	for _, unit := range enabledUnits {
		if err := os.Symlink("/etc/systemd/system/"+unit, filepath.Join(wants, unit)); err != nil {
			return err
		}
	}
	for _, unit := range maskedUnits {
		if err := os.Symlink("/dev/null", filepath.Join(system, unit)); err != nil {
			return err
		}
	}
	return nil
}

func installPrograms(to, from string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range requiredPrograms {
		if err := linkOrCopy(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	for _, name := range optionalPrograms {
		err := linkOrCopy(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// linkOrCopy installs a program: a hard link where the file system allows it, so that a program
// with several names is in memory once, else a copy.
func linkOrCopy(from, to string) error {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil || !errors.Is(err, unix.EXDEV) {
		return err
	}
	return copyFile(from, to)
}

// copyFile copies a program, replacing the target.
func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	_, err := runHost(context.Background(), "install", "-m", "0755", "--", from, to)
	return err
}

func importImages(ctx context.Context, dir, bundle string, layers []string,
	log func(string, ...any)) error {
	start := time.Now()
	log("images: loading the bundle's archives into containerd, once")
	work := dir + ".root"
	defer os.RemoveAll(work)
	env := []string{
		"LOWER=" + strings.Join(layers, ":"), "WORK=" + work, "STORE=" + dir,
		"ARCHIVES=" + filepath.Join(bundle, "images"),
	}
	script, err := embeddedFiles.ReadFile("import.sh")
	if err != nil {
		return err
	}
	if err := runKilledWithParent(ctx, env, "sh", "-c", string(script)); err != nil {
		return err
	}
	log("images: done in %.1f s", time.Since(start).Seconds())
	return nil
}

// cloneStore creates a node's containerd directory quickly and with little disk space: blobs and
// unpacked layers never change and become hard links; databases change and are copied.
func cloneStore(ctx context.Context, from, to string) error {
	if _, err := runHost(ctx, "cp", "--archive", "--link", "--no-target-directory", from,
		to); err != nil {
		// The cache is on another file system.
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		_, err := runHost(ctx, "cp", "--archive", "--no-target-directory", from, to)
		return err
	}
	databases, err := filepath.Glob(filepath.Join(from, "*", "*.db"))
	for _, path := range databases {
		if err == nil {
			_, err = runHost(ctx, "cp", "--archive", "--remove-destination", path,
				to+strings.TrimPrefix(path, from))
		}
	}
	return err
}
