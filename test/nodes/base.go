package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const suite = "bookworm"

// debian lists what a node has beyond Debian's smallest system: systemd, what Kubernetes' documentation wants on a node,
// and what is needed to look around.
var debian = []string{
	"systemd", "systemd-sysv", "dbus", "iproute2", "iptables", "nftables", "conntrack", "ethtool", "socat", "kmod",
	"mount", "procps", "ca-certificates", "hostname", "libseccomp2", "curl",
}

// baseSystem returns the directory of a plain Debian, the lowest layer of every node's root. It is made once.
func baseSystem(ctx context.Context, log func(string, ...any)) (string, error) {
	// The number is the version of this recipe.
	name := "debian-" + key("1", suite, strings.Join(debian, ","))
	return cached(ctx, name, func(dir string) error {
		start := time.Now()
		log("base system: Debian %s by debootstrap, once", suite)
		mirror := mirror(ctx)
		args := []string{"debootstrap", "--variant=minbase", "--include=" + strings.Join(debian, ","), suite, dir}
		if mirror != "" {
			args = append(args, mirror)
		}
		if err := mortal(ctx, nil, args...); err != nil {
			return err
		}
		if err := trim(dir); err != nil {
			return err
		}
		log("base system: done in %s", time.Since(start).Round(time.Second))
		return nil
	})
}

// mirror is where this machine's apt gets the suite from, empty if it does not: debootstrap then uses its own default.
func mirror(ctx context.Context) string {
	out, err := host(ctx, "apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == suite && f[1] == "main" {
			return f[2]
		}
	}
	return ""
}

// trim removes what debootstrap took over from this machine and what no node needs again.
func trim(dir string) error {
	for _, name := range []string{"etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/cache/apt", "var/lib/apt/lists"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("trimming the base system: %w", err)
		}
	}
	return nil
}
