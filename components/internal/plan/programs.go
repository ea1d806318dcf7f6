package plan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/debian"
	"kubeadm/components/internal/golang"
	"kubeadm/components/internal/pins"
)

// programGroup is a group of Go programs that are compiled together.
type programGroup struct {
	name    string
	module  string       // the module whose version is the group's; empty for our own programs
	build   golang.Build // Dir is relative to components/
	sources []string     // patterns of the sources under components/
	debian  []string     // packages needed to compile
}

// bootstrapName is the part and the program that registers simulated kubelets.
const bootstrapName = "kubelet-bootstrap"

// cgoPackages are the Debian packages that cgo and runc's seccomp filter need.
func cgoPackages() []string { return []string{"gcc", "libc6-dev", "libseccomp-dev", "pkg-config"} }

func programGroups() []programGroup {
	const small = "-s -w"
	return []programGroup{
		toolGroup("containerd", "github.com/containerd/containerd/v2", golang.Build{Tags: "urfave_cli_no_docs",
			LDFlags: small + " -X github.com/containerd/containerd/v2/version.Version=VERSION"}),
		{
			name: "runc", module: "github.com/opencontainers/runc", sources: []string{"tools/runc/go.*"}, debian: cgoPackages(),
			build: golang.Build{Dir: "tools/runc", Packages: []string{"tool"}, Tags: "seccomp,netgo,osusergo", CGO: true,
				LDFlags: small + " -linkmode external -extldflags -static"},
		},
		toolGroup("coredns", "github.com/coredns/coredns", golang.Build{Tags: "grpcnotrace", LDFlags: small}),
		toolGroup("cni", "github.com/containernetworking/plugins", golang.Build{
			LDFlags: small + " -X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=VERSION"}),
		ownGroup("pause"),
		ownGroup("agnhost"),
	}
}

// toolGroup is a group that is pinned by a module of its own under tools/.
func toolGroup(name, module string, b golang.Build) programGroup {
	b.Dir, b.Packages = "tools/"+name, []string{"tool"}
	return programGroup{name: name, module: module, build: b, sources: []string{b.Dir + "/go.*"}}
}

// ownGroup is a group with one program of this module.
func ownGroup(name string) programGroup {
	return programGroup{name: name, sources: []string{"go.mod", name + "/*.go"},
		build: golang.Build{Dir: ".", Packages: []string{"./" + name}, LDFlags: "-s -w"}}
}

func (p *Plan) programParts(ctx context.Context) ([]cache.Part, error) {
	if p.published != nil {
		return p.publishedParts(ctx)
	}
	kubernetes, err := p.kubernetesPart()
	if err != nil {
		return nil, err
	}
	bootstrap, err := p.releasePart(bootstrapName, bootstrapName)
	if err != nil {
		return nil, err
	}
	parts := []cache.Part{kubernetes, bootstrap}
	for _, pr := range programGroups() {
		part, err := p.programPart(ctx, pr)
		if err != nil {
			return nil, fmt.Errorf("planning %s: %w", pr.name, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (p *Plan) programPart(ctx context.Context, pr programGroup) (cache.Part, error) {
	part := cache.Part{Name: pr.name}
	if pr.module != "" {
		v, err := pins.Versions(filepath.Join(p.root, pr.build.Dir, "go.mod"), pr.module)
		if err != nil {
			return part, err
		}
		part.Version = v[0]
		pr.build.LDFlags = strings.ReplaceAll(pr.build.LDFlags, "VERSION", v[0])
	}
	sources, err := cache.Sources(p.root, pr.sources...)
	if err != nil {
		return part, err
	}
	inputs := append([]string{p.compiler, sources}, pr.build.Inputs()...)
	if len(pr.debian) > 0 {
		versions, err := debian.Versions(ctx, pr.debian...)
		if err != nil {
			return part, err
		}
		inputs = append(inputs, fmt.Sprint(versions))
	}
	part.Key = cache.NewKey(inputs...)
	pr.build.Dir = filepath.Join(p.root, pr.build.Dir)
	part.Build = func(ctx context.Context, dir string) error {
		if err := p.install(ctx, pr.debian); err != nil {
			return err
		}
		return pr.build.Run(ctx, dir)
	}
	return part, nil
}

// install installs missing Debian packages, and logs it, since it changes the machine.
func (p *Plan) install(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	have, err := debian.Installed(ctx, names...)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(have, func(h debian.Package) bool { return h.Name == name })
	})
	if len(missing) == 0 {
		return nil
	}
	p.store.Say("installing Debian packages: %s", strings.Join(missing, " "))
	if err := debian.Update(ctx); err != nil {
		return err
	}
	return debian.Install(ctx, missing...)
}

// kubernetesPart is hyperkube and upstream's kubeadm, the tool that the module file names.
func (p *Plan) kubernetesPart() (cache.Part, error) {
	part, err := p.releasePart("kubernetes", "hyperkube", "tool")
	compile := part.Build
	part.Build = func(ctx context.Context, dir string) error {
		if err := compile(ctx, dir); err != nil {
			return err
		}
		return os.Rename(filepath.Join(dir, "kubeadm"), filepath.Join(dir, "kubeadm-upstream"))
	}
	return part, err
}

// releasePart is a program of ours that uses Kubernetes' packages, and further programs of the
// same module. They are compiled as a release is: with the same tags, and the version in the two
// packages that report it.
func (p *Plan) releasePart(name, program string, further ...string) (cache.Part, error) {
	part := cache.Part{Name: name, Version: p.release.Version}
	pinned := strings.TrimSuffix(p.release.Modfile, ".mod") + ".*"
	sources, err := cache.Sources(p.root, "kubernetes/"+pinned, "kubernetes/"+program+"/*.go")
	if err != nil {
		return part, err
	}
	b := golang.Build{Dir: filepath.Join(p.root, "kubernetes"), Modfile: p.release.Modfile,
		Packages: append([]string{"./" + program}, further...), Tags: "selinux,notest,grpcnotrace"}
	inputs := append([]string{p.compiler, sources, VersionFlags(p.release.Version, time.Time{})}, b.Inputs()...)
	part.Key = cache.NewKey(inputs...)
	part.Build = func(ctx context.Context, dir string) error {
		m, err := golang.Lookup(ctx, "k8s.io/kubernetes", p.release.Version)
		if err != nil {
			return err
		}
		b.LDFlags = "-s -w" + VersionFlags(p.release.Version, m.Time)
		return b.Run(ctx, dir)
	}
	return part, nil
}

// VersionFlags are the linker flags that set the version that programs report. The commit is
// empty: a module proxy does not know it.
func VersionFlags(version string, published time.Time) string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
	var flags strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range [][2]string{{"gitVersion", version}, {"gitMajor", major}, {"gitMinor", minor}, {"gitCommit", ""},
			{"gitTreeState", "clean"}, {"buildDate", published.UTC().Format(time.RFC3339)}} {
			fmt.Fprintf(&flags, " -X %s.%s=%s", pkg, v[0], v[1])
		}
	}
	return flags.String()
}
