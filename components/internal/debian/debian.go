// Package debian asks the machine's own apt and dpkg for packages: which versions there are, to install them, and
// to unpack them elsewhere.
package debian

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Package is a package at a version.
type Package struct{ Name, Version string }

// String is the form that apt takes, name=version.
func (p Package) String() string { return p.Name + "=" + p.Version }

// Installed are those of the packages that are installed here, in the given order.
func Installed(ctx context.Context, names ...string) ([]Package, error) {
	args := append([]string{"-W", "-f=${db:Status-Status} ${Package} ${Version}\n"}, names...)
	out, err := run(ctx, "", "dpkg-query", args...)
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: some name is not known
		return nil, err
	}
	var found []Package
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "installed" {
			found = append(found, Package{f[1], f[2]})
		}
	}
	slices.SortFunc(found, func(a, b Package) int {
		return cmp.Compare(slices.Index(names, a.Name), slices.Index(names, b.Name))
	})
	return found, nil
}

// Versions are the versions of the packages that are installed here, or would be. A package that apt does not know is
// an error.
func Versions(ctx context.Context, names ...string) ([]Package, error) {
	// Asking dpkg alone is ten times as quick, and enough on any machine that has built before.
	all, err := Installed(ctx, names...)
	if err != nil || len(all) == len(names) {
		return all, err
	}
	out, err := run(ctx, "", "apt-cache", append([]string{"policy"}, names...)...)
	if err != nil {
		return nil, err
	}
	return parsePolicy(out, names)
}

// parsePolicy reads paragraphs "NAME:\n  Installed: VERSION\n  Candidate: VERSION", where "(none)" is no version.
func parsePolicy(text string, names []string) ([]Package, error) {
	var all []Package
	for _, name := range names {
		paragraph := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `:\n  Installed: (\S+)\n  Candidate: (\S+)`)
		m := paragraph.FindStringSubmatch(text)
		if m == nil || m[1] == "(none)" && m[2] == "(none)" {
			return nil, fmt.Errorf("apt knows no package %s; is Debian's main archive among its sources?", name)
		}
		version := m[1]
		if version == "(none)" {
			version = m[2]
		}
		all = append(all, Package{name, version})
	}
	return all, nil
}

// Closure is the packages and everything they depend on, as apt would install them on an empty system.
func Closure(ctx context.Context, names ...string) ([]Package, error) {
	args := []string{"-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
		"-o", "Debug::NoLocking=1", "--print-uris", "-qq", "-y", "--no-install-recommends", "install"}
	out, err := run(ctx, "", "apt-get", append(args, names...)...)
	if err != nil {
		return nil, err
	}
	all, err := parseURIs(out)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("asking apt for %s: no package in its answer %q", strings.Join(names, " "), out)
	}
	return all, err
}

// parseURIs reads lines 'ADDRESS' NAME_VERSION_ARCH.deb SIZE HASH, where the version is written as in an address.
func parseURIs(text string) ([]Package, error) {
	var all []Package
	for _, m := range regexp.MustCompile(`(?m)^'[^']+' ([^_]+)_([^_]+)_[^_]+\.deb `).FindAllStringSubmatch(text, -1) {
		version, err := url.PathUnescape(m[2])
		if err != nil {
			return nil, fmt.Errorf("reading the version of %s: %w", m[1], err)
		}
		all = append(all, Package{m[1], version})
	}
	return all, nil
}

// Update fetches the lists of what packages there are, and waits up to five minutes for another apt to end. It needs root.
func Update(ctx context.Context) error {
	const patience, pause = 5 * time.Minute, time.Second
	for start := time.Now(); ; {
		_, err := run(ctx, "", "apt-get", "-qq", "update")
		// apt has an option to wait for dpkg's lock, but none for the lock on its lists.
		if err == nil || !strings.Contains(err.Error(), "Could not get lock") || time.Since(start) > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Install installs the packages without asking anything. It needs root.
func Install(ctx context.Context, names ...string) error {
	args := []string{"-qq", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "install"}
	_, err := run(ctx, "", "apt-get", append(args, names...)...)
	return err
}

// Unpack fetches the packages and unpacks their programs and libraries, without documentation and translations,
// into dir. None of their scripts runs.
func Unpack(ctx context.Context, dir string, packages []Package) error {
	debs, err := os.MkdirTemp("", "debs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(debs)
	args := []string{"-qq", "-o", "APT::Sandbox::User=root", "download"}
	for _, p := range packages {
		args = append(args, p.String())
	}
	if _, err := run(ctx, debs, "apt-get", args...); err != nil {
		return err
	}
	if err := mergedRoot(dir); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range files {
		if err := unpack(ctx, deb, dir); err != nil {
			return fmt.Errorf("unpacking %s: %w", filepath.Base(deb), err)
		}
	}
	return nil
}

// mergedRoot makes /bin, /lib and the like links into /usr, which Debian's packages take for granted.
func mergedRoot(dir string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(dir, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func unpack(ctx context.Context, deb, dir string) error {
	data, err := run(ctx, "", "dpkg-deb", "--fsys-tarfile", deb)
	if err != nil {
		return err
	}
	cmd := command(ctx, "", "tar", "-x", "-C", dir, "--keep-directory-symlink", "--no-same-owner",
		"--exclude=./usr/share/*", "--exclude=./var/*", "--exclude=*/gconv/*")
	cmd.Stdin = strings.NewReader(data)
	return wait(cmd)
}

func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := command(ctx, dir, name, args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := wait(cmd)
	return out.String(), err
}

func wait(cmd *exec.Cmd) error {
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: the build needs a Debian machine", err)
	}
	if err != nil {
		return fmt.Errorf("running %s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(complaints.Bytes()))
	}
	return nil
}
