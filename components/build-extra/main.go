// Command build-extra builds what single tests and benchmarks need besides a bundle, and prints its
// directory. Run it from the directory components/, with the name of what to build:
//
//   - e2e-kubeadm is upstream's test suite for clusters that kubeadm created, e2e_kubeadm.test, of the
//     newest pinned Kubernetes
//   - etcd is etcdctl and etcdutl, each a program of its own as etcd releases them
//   - conformance is Kubernetes' conformance suite of the newest pinned release: e2e.test, ginkgo, which runs it, and
//     conformance.tar, the images of its Pods
//   - kube-bench is kube-bench with its profiles of the CIS Kubernetes Benchmark, in the directory cfg, and jq, which they run
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/conformance"
	"kubeadm/components/internal/golang"
	"kubeadm/components/internal/pins"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := build(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "build-extra:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

func build(ctx context.Context, args []string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if len(args) != 1 {
		return "", errors.New("name what to build: e2e-kubeadm, etcd, kube-bench or conformance")
	}
	dir, err := cache.DefaultDir()
	if err != nil {
		return "", err
	}
	store := &cache.Store{Dir: dir, Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	releases, err := pins.Releases(filepath.Join(root, "kubernetes"))
	if err != nil {
		return "", err
	}
	release, err := pins.Choose(releases, "")
	if err != nil {
		return "", err
	}
	b, part := golang.Build{LDFlags: "-s -w"}, cache.Part{Name: args[0]}
	part.Build = func(ctx context.Context, dir string) error { return b.Run(ctx, dir) }
	var sources []string
	switch args[0] {
	case "conformance":
		return conformance.Build(ctx, root, release, store)
	case "e2e-kubeadm":
		part.Version = release.Version
		b.Dir, b.Modfile, b.IsTest = filepath.Join(root, "kubernetes"), release.Modfile, true
		b.Packages, b.Tags = []string{"k8s.io/kubernetes/test/e2e_kubeadm"}, "selinux,notest,grpcnotrace"
		sources = []string{"kubernetes/v*.mod", "kubernetes/v*.sum"}
	case "etcd":
		b.Dir, b.Packages = filepath.Join(root, "tools/etcd"), []string{"tool"}
		sources = []string{"tools/etcd/go.*"}
	case "kube-bench":
		b.Dir, b.Packages = filepath.Join(root, "tools/kube-bench"), []string{"tool"}
		part.Build = func(ctx context.Context, dir string) error { return buildKubeBench(ctx, b, dir) }
		sources = []string{"tools/kube-bench/go.*", "build-extra/kubebench.go"}
	default:
		return "", fmt.Errorf("there is nothing named %q: e2e-kubeadm, etcd, kube-bench or conformance", args[0])
	}
	compiler, err := golang.Version(ctx)
	if err != nil {
		return "", err
	}
	digest, err := cache.Sources(root, sources...)
	if err != nil {
		return "", err
	}
	part.Key = cache.NewKey(append(b.Inputs(), compiler, digest)...)
	return store.Path(part), store.Build(ctx, part)
}
