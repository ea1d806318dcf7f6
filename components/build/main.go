// Command build makes everything that a sandboxed Kubernetes node runs and prints the directory that holds it.
// What was built before is taken from the cache. Run it from the folder components/.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/pins"
	"kubeadm/components/internal/plan"
)

func main() {
	release := flag.String("kubernetes", "", "pinned `release` to build, such as v1.37 (default: the newest)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "build: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	dir, err := build(ctx, *release)
	if ctx.Err() != nil {
		err = errors.New("interrupted; what is finished is kept, and the same command goes on from there")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

func build(ctx context.Context, name string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	releases, err := pins.Releases(filepath.Join(root, "kubernetes"))
	if err != nil {
		return "", err
	}
	if len(releases) == 0 {
		return "", fmt.Errorf("no pinned release in %s; run this from the folder components/", filepath.Join(root, "kubernetes"))
	}
	release, err := pins.Choose(releases, name)
	if err != nil {
		return "", err
	}
	dir, err := cache.DefaultDir()
	if err != nil {
		return "", err
	}
	p, err := plan.New(ctx, root, release, &cache.Store{Dir: dir, Say: say})
	if err != nil {
		return "", err
	}
	return p.Build(ctx)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
