package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const debianSuite = "bookworm"

// debianPackages lists what a node has beyond Debian's minimal system: systemd, what Kubernetes
// requires on a node, and tools for debugging.
var debianPackages = []string{
	"systemd", "systemd-sysv", "dbus", "iproute2", "iptables", "nftables", "conntrack", "ethtool",
	"socat", "kmod",
	"mount", "procps", "ca-certificates", "hostname", "libseccomp2", "curl",
}

// buildBaseSystem returns the directory of a plain Debian, the lowest layer of every node's root.
// It is built once.
func buildBaseSystem(ctx context.Context, log func(string, ...any)) (string, error) {
	// The number is the version of this function.
	name := "debian-" + cacheKey("1", debianSuite, strings.Join(debianPackages, ","))
	return buildCached(ctx, name, func(dir string) error {
		start := time.Now()
		log("base system: Debian %s by debootstrap, once", debianSuite)
		mirror := findAptMirror(ctx)
		args := []string{"debootstrap", "--variant=minbase",
			"--include=" + strings.Join(debianPackages, ","), debianSuite, dir}
		if mirror != "" {
			args = append(args, mirror)
		}
		if err := runKilledWithParent(ctx, nil, args...); err != nil {
			return err
		}
		// Remove what debootstrap copied from this machine, and package lists.
		for _, name := range []string{"etc/hostname", "etc/resolv.conf", "etc/machine-id",
			"var/cache/apt", "var/lib/apt/lists"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("trimming the base system: %w", err)
			}
		}
		log("base system: done in %s", time.Since(start).Round(time.Second))
		return nil
	})
}

// findAptMirror returns the URL from which this machine's apt gets the suite. If it is empty,
// debootstrap uses its own default.
func findAptMirror(ctx context.Context) string {
	out, err := runHost(ctx, "apt-get", "indextargets", "--format",
		"$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == debianSuite && f[1] == "main" {
			return f[2]
		}
	}
	return ""
}
