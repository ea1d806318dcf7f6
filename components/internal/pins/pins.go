// Package pins reads the pinned versions from the module files, the only place that names them.
package pins

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Kubernetes is one pinned release.
type Kubernetes struct {
	Version string // "v1.37.1"
	Etcd    string // "v3.7.0"
	Modfile string // "v1.37.mod", beside the go.mod that marks the module's root
}

// Releases are the pinned releases of Kubernetes in dir, the newest first.
func Releases(dir string) ([]Kubernetes, error) {
	files, err := filepath.Glob(filepath.Join(dir, "v*.mod"))
	if err != nil {
		return nil, err
	}
	var all []Kubernetes
	for _, file := range files {
		v, err := Versions(file, "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3")
		if err != nil {
			return nil, err
		}
		all = append(all, Kubernetes{Version: v[0], Etcd: v[1], Modfile: filepath.Base(file)})
	}
	slices.SortFunc(all, func(a, b Kubernetes) int { return semver.Compare(b.Version, a.Version) })
	return all, nil
}

// Choose finds a release by its version or its minor ("v1.37", "1.37.1"); an empty name is the newest.
func Choose(all []Kubernetes, name string) (Kubernetes, error) {
	want := "v" + strings.TrimPrefix(name, "v")
	var have []string
	for _, k := range all {
		if name == "" || want == k.Version || want == semver.MajorMinor(k.Version) {
			return k, nil
		}
		have = append(have, k.Version)
	}
	return Kubernetes{}, fmt.Errorf("kubernetes %s is not pinned; pinned are: %s", want, strings.Join(have, ", "))
}

// Versions are the versions that a module file requires of the modules, in their order.
func Versions(file string, modules ...string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := modfile.ParseLax(file, data, nil)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	versions := make([]string, len(modules))
	for i, module := range modules {
		at := slices.IndexFunc(f.Require, func(r *modfile.Require) bool { return r.Mod.Path == module })
		if at < 0 {
			return nil, fmt.Errorf("reading %s: it does not require %s", file, module)
		}
		versions[i] = f.Require[at].Mod.Version
	}
	return versions, nil
}
