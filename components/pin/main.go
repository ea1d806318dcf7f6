// Command pin writes the module file of a Kubernetes release, kubernetes/vMAJOR.MINOR.mod with its
// checksums, which build needs. Run it from the directory components/.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"kubeadm/components/internal/golang"
)

func main() {
	if len(os.Args) != 2 || !semver.IsValid(os.Args[1]) || semver.Canonical(os.Args[1]) != os.Args[1] {
		fmt.Fprintln(os.Stderr, "usage: go run ./pin vMAJOR.MINOR.PATCH")
		os.Exit(2)
	}
	file, err := writeModuleFile(context.Background(), "kubernetes", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "pin:", err)
		os.Exit(1)
	}
	fmt.Println(file)
}

func writeModuleFile(ctx context.Context, dir, version string) (string, error) {
	const module = "k8s.io/kubernetes"
	m, err := golang.Lookup(ctx, module, version)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(m.GoMod)
	if err != nil {
		return "", err
	}
	upstream, err := modfile.Parse(m.GoMod, data, nil)
	if err != nil {
		return "", err
	}
	text, err := moduleFile(upstream, version)
	if err != nil {
		return "", fmt.Errorf("pinning %s %s: %w", module, version, err)
	}
	name := semver.MajorMinor(version) + ".mod"
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return "", err
	}
	return file, golang.Tidy(ctx, dir, name)
}

// moduleFile translates upstream's go.mod for a module outside of its repository: staging
// directories become releases v0.MINOR.PATCH. Indirect requirements are left to go mod tidy.
func moduleFile(upstream *modfile.File, version string) (string, error) {
	const client, server, ctl = "go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdctl/v3"
	at := slices.IndexFunc(upstream.Require, func(r *modfile.Require) bool { return r.Mod.Path == client })
	if at < 0 {
		return "", fmt.Errorf("it does not require %s, which determines the version of etcd", client)
	}
	etcd := upstream.Require[at].Mod.Version
	var b strings.Builder
	fmt.Fprintf(&b, "module kubeadm/components/kubernetes\n\ngo %s\n\n", upstream.Go.Version)
	for _, g := range upstream.Godebug {
		fmt.Fprintf(&b, "godebug %s=%s\n\n", g.Key, g.Value)
	}
	fmt.Fprintf(&b, "tool %s/cmd/kubeadm\n\n", upstream.Module.Mod.Path)
	fmt.Fprintf(&b, "require (\n\t%s %s\n\t%s %s\n\t%s %s\n)\n\n", upstream.Module.Mod.Path, version, server, etcd, ctl, etcd)
	library := "v0" + strings.TrimPrefix(version, semver.Major(version))
	b.WriteString("replace (\n")
	for _, r := range upstream.Replace {
		if !strings.HasPrefix(r.New.Path, "./staging/") {
			return "", fmt.Errorf("it replaces %s by %s, which is not supported", r.Old.Path, r.New.Path)
		}
		fmt.Fprintf(&b, "\t%s => %s %s\n", r.Old.Path, r.Old.Path, library)
	}
	b.WriteString(")\n")
	return b.String(), nil
}
