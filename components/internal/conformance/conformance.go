// Package conformance builds Kubernetes' conformance suite: its programs, and the images of its Pods. Bundles do not depend
// on it.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/debian"
	"kubeadm/components/internal/golang"
	"kubeadm/components/internal/pins"
	"kubeadm/components/internal/plan"
)

// moduleDir is the directory below components/ with the module of Kubernetes' test suite.
const moduleDir = "tools/conformance"

// suite holds the parts of the suite for one release of Kubernetes.
type suite struct {
	root    string // the directory components/
	store   *cache.Store
	release pins.Kubernetes

	programs, userland, busybox, archive, all cache.Part
}

// Build builds the suite from the sources under root, the directory components/, unless the store has it. It returns the
// directory with the programs e2e.test, and ginkgo, which runs it in parallel, and conformance.tar, the images of its
// Pods for the nodes.
func Build(ctx context.Context, root string, release pins.Kubernetes, store *cache.Store) (string, error) {
	s := &suite{root: root, store: store, release: release}
	if err := errors.Join(s.planPrograms(ctx), s.planUserland(ctx)); err != nil {
		return "", err
	}
	if err := s.planArchive(); err != nil {
		return "", err
	}
	for _, part := range []cache.Part{s.programs, s.userland, s.busybox, s.archive, s.all} {
		if err := store.Build(ctx, part); err != nil {
			return "", err
		}
	}
	return store.Path(s.all), nil
}

// planPrograms plans the suite, ginkgo, which runs it in parallel, and the programs in the images of its Pods.
func (s *suite) planPrograms(ctx context.Context) error {
	module := filepath.Join(s.root, moduleDir)
	versions, err := pins.Versions(filepath.Join(module, "go.mod"), "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	version := versions[0]
	if version != s.release.Version {
		return fmt.Errorf("%s/go.mod pins Kubernetes %s; the newest bundle has %s", moduleDir, version, s.release.Version)
	}
	compiler, err := golang.Version(ctx)
	if err != nil {
		return err
	}
	sources, err := cache.Sources(s.root, moduleDir+"/go.*")
	if err != nil {
		return err
	}
	tests := golang.Build{Dir: module, Packages: []string{"k8s.io/kubernetes/test/e2e"}, IsTest: true}
	tools := golang.Build{Dir: module, Packages: []string{"tool"}, LDFlags: "-s -w"}
	s.programs = cache.Part{Name: "conformance-programs", Version: version}
	s.programs.Key = cache.NewKey(append(append(tests.Inputs(), tools.Inputs()...), compiler, sources)...)
	s.programs.Build = func(ctx context.Context, dir string) error {
		m, err := golang.Lookup(ctx, "k8s.io/kubernetes", version)
		if err != nil {
			return err
		}
		tests.LDFlags = "-s -w" + plan.VersionFlags(version, m.Time)
		if err := tests.Run(ctx, dir); err != nil {
			return err
		}
		return tools.Run(ctx, dir)
	}
	return nil
}

// planUserland plans the trees of Debian programs in the images.
func (s *suite) planUserland(ctx context.Context) error {
	var failed error
	tree := func(name string, finish func(ctx context.Context, dir string) error, packages ...string) cache.Part {
		part, err := s.debianTree(ctx, name, finish, packages...)
		failed = errors.Join(failed, err)
		return part
	}
	s.busybox = tree("conformance-busybox", addBusybox, "busybox-static", "bash", "base-files")
	s.userland = tree("conformance-userland", finishUserland, "base-files", "bash", "bind9-dnsutils", "ca-certificates",
		"coreutils", "curl", "dash", "findutils", "grep", "hostname", "iperf", "iproute2", "libc-bin", "netcat-openbsd", "nginx-light",
		"procps", "sed", "socat", "util-linux", "wget")
	return failed
}

// debianTree is a part with the packages, everything that they depend on, and what finish adds.
func (s *suite) debianTree(ctx context.Context, name string, finish func(ctx context.Context, dir string) error,
	packages ...string) (cache.Part, error) {
	sources, err := cache.Sources(s.root, "internal/debian/*.go", "internal/conformance/conformance.go")
	if err != nil {
		return cache.Part{}, err
	}
	all, err := debian.Closure(ctx, packages...)
	if err != nil { // a machine that has never fetched package lists
		s.store.Say("fetching Debian's package lists")
		if err := debian.Update(ctx); err != nil {
			return cache.Part{}, err
		}
		if all, err = debian.Closure(ctx, packages...); err != nil {
			return cache.Part{}, err
		}
	}
	part := cache.Part{Name: name, Key: cache.NewKey(sources, fmt.Sprint(all))}
	part.Build = func(ctx context.Context, dir string) error {
		if err := debian.Unpack(ctx, dir, all); err != nil {
			return err
		}
		return errors.Join(addAccounts(dir), finish(ctx, dir))
	}
	return part, nil
}

// planArchive plans the archive of images, and the directory of the whole suite.
func (s *suite) planArchive() error {
	sources, err := cache.Sources(s.root, "go.mod", "go.sum", "internal/image/*.go", "internal/conformance/*.go")
	if err != nil {
		return err
	}
	s.archive = cache.Part{Name: "images-conformance", Build: s.writeArchive,
		Key: cache.NewKey(sources, string(s.programs.Key), string(s.userland.Key), string(s.busybox.Key))}
	s.all = cache.Part{Name: "conformance", Version: s.release.Version, Build: s.link,
		Key: cache.NewKey(string(s.programs.Key), string(s.archive.Key))}
	return nil
}

// addAccounts writes the accounts that tests expect, and one that belongs to a second group.
func addAccounts(dir string) error {
	const passwd = "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n" +
		"nobody:x:65534:65534::/:/bin/sh\n"
	const group = "root:x:0:\nwww-data:x:33:\nuser-defined-in-image:x:1000:\n" +
		"group-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n"
	err := writeTree(dir, map[string]string{"etc/passwd": passwd, "etc/group": group, "root/": "", "tmp/": "", "run/": "",
		"var/log/": "", "uploads/": ""})
	if err != nil {
		return err
	}
	return os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky)
}

// busyboxShell is /bin/sh of the image. One test wants the words of busybox' shell, which drops environment variables whose
// names have a dash or a dot, as others set them: for those it is bash.
const busyboxShell = `#!/usr/bin/bash
while IFS='=' read -r -d '' name _; do
	[[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || exec -a "$0" /usr/bin/bash "$@"
done </proc/self/environ
exec -a "$0" /usr/bin/busybox "$@"
`

// addBusybox links the names of busybox' programs to it, but that of the shell.
func addBusybox(ctx context.Context, dir string) error {
	program := filepath.Join(dir, "usr/bin/busybox")
	out, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return fmt.Errorf("listing the programs of busybox: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "usr/bin/sh"), []byte(busyboxShell), 0o755); err != nil {
		return err
	}
	for _, name := range strings.Fields(string(out)) {
		if err := os.Symlink("busybox", filepath.Join(dir, "usr/bin", name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// finishUserland adds what Debian's nginx needs besides its program, and the links that Debian's package scripts and one
// test need.
func finishUserland(_ context.Context, dir string) error {
	const config = "worker_processes 1;\npid /run/nginx.pid;\nevents {}\nhttp {\n  access_log /dev/stdout;\n" +
		"  server { listen 80; listen [::]:80; root /srv; }\n}\n"
	err := writeTree(dir, map[string]string{"etc/nginx/nginx.conf": config, "srv/index.html": "Welcome to nginx!\n",
		"var/lib/nginx/": "", "var/log/nginx/": "", "usr/local/bin/": ""})
	if err != nil {
		return err
	}
	for name, to := range map[string]string{"usr/bin/nc": "nc.openbsd", "usr/bin/awk": "mawk", "usr/bin/which": "which.debianutils",
		"usr/local/bin/iperf": "/usr/bin/iperf"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// writeTree writes files, and makes the directories among them, whose names end in a slash.
func writeTree(dir string, files map[string]string) error {
	for name, text := range files {
		to := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// link links the suite, ginkgo and the images into one directory.
func (s *suite) link(_ context.Context, dir string) error {
	for file, part := range map[string]cache.Part{"e2e.test": s.programs, "ginkgo": s.programs, archiveName: s.archive} {
		if err := os.Link(filepath.Join(s.store.Path(part), file), filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	return nil
}
