// Command build-windows builds what tests run under Wine and prints its directory: kubeadm-upstream.exe,
// upstream's kubeadm, and kubelet.exe, a service that stands for a kubelet. Run it from the directory
// components/.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/golang"
	"kubeadm/components/internal/pins"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := build(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "build-windows:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

func build(ctx context.Context) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	releases, err := pins.Releases(filepath.Join(root, "kubernetes"))
	if err != nil {
		return "", err
	}
	release, err := pins.Choose(releases, "")
	if err != nil {
		return "", err
	}
	dir, err := cache.DefaultDir()
	if err != nil {
		return "", err
	}
	compiler, err := golang.Version(ctx)
	if err != nil {
		return "", err
	}
	sources, err := cache.Sources(root, "kubernetes/v*.mod", "kubernetes/v*.sum", "kubernetes/kubelet-windows/*.go")
	if err != nil {
		return "", err
	}
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %s.gitVersion=%s", pkg, release.Version)
	}
	b := golang.Build{Dir: filepath.Join(root, "kubernetes"), Modfile: release.Modfile, GOOS: "windows", LDFlags: flags,
		Packages: []string{"./kubelet-windows", "k8s.io/kubernetes/cmd/kubeadm"}, Tags: "selinux,notest,grpcnotrace"}
	store := &cache.Store{Dir: dir, Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	part := cache.Part{Name: "windows", Version: release.Version,
		Key: cache.NewKey(append(b.Inputs(), compiler, sources)...),
		Build: func(ctx context.Context, to string) error {
			if err := b.Run(ctx, to); err != nil {
				return err
			}
			for from, name := range map[string]string{"kubelet-windows.exe": "kubelet.exe", "kubeadm.exe": "kubeadm-upstream.exe"} {
				if err := os.Rename(filepath.Join(to, from), filepath.Join(to, name)); err != nil {
					return err
				}
			}
			return nil
		}}
	return store.Path(part), store.Build(ctx, part)
}
