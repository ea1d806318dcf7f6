package nodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cacheRoot is the directory for what clusters share: $KUBEADM_CACHE/nodes, or kubeadm/nodes in
// the user's cache directory.
func cacheRoot() (string, error) {
	if dir := os.Getenv("KUBEADM_CACHE"); dir != "" {
		return filepath.Abs(filepath.Join(dir, "nodes"))
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache directory (KUBEADM_CACHE names one): %w", err)
	}
	return filepath.Join(dir, "kubeadm", "nodes"), nil
}

// buildCached returns the directory name below the cache, and calls build if it does not exist. A
// directory that exists is complete: build fills a temporary one, which is renamed at the end. Of
// several processes one builds, the others wait.
func buildCached(ctx context.Context, name string, build func(dir string) error) (string, error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	final := filepath.Join(root, name)
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, final+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	// Of builds that were killed:
	left, err := filepath.Glob(final + ".unfinished-*")
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
	}
	dir, err := os.MkdirTemp(root, name+".unfinished-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	if err := build(dir); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("building %s: %w", final, err)
	}
	// After a power cut the directory must not exist without its files.
	unix.Sync()
	return final, os.Rename(dir, final)
}

// lockFile waits until this process holds the lock. The file is not removed.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = pollUntil(ctx, "the lock "+path, time.Hour, func(context.Context) error {
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// cacheKey is a short digest of the inputs of a cached directory.
func cacheKey(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}
