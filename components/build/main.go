// Command build builds everything that a sandboxed Kubernetes node runs and prints the directory
// of the bundle. Parts that were built before come from the cache. Run it from the directory
// components/.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/download"
	"kubeadm/components/internal/pins"
	"kubeadm/components/internal/plan"
)

func main() {
	release := flag.String("kubernetes", "", "pinned `release` to build, such as v1.37 (default: the newest)")
	fetch := flag.Bool("download", false, "download published programs instead of compiling them")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "build: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	dir, err := buildBundle(ctx, *release, *fetch)
	if ctx.Err() != nil {
		err = errors.New("interrupted; finished parts are kept, and the same command resumes")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

func buildBundle(ctx context.Context, name string, fetch bool) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	releases, err := pins.Releases(filepath.Join(root, "kubernetes"))
	if err != nil {
		return "", err
	}
	if len(releases) == 0 {
		return "", fmt.Errorf("no pinned release in %s; run this from the directory components/", filepath.Join(root, "kubernetes"))
	}
	release, err := pins.Choose(releases, name)
	if err != nil {
		return "", err
	}
	dir, err := cache.DefaultDir()
	if err != nil {
		return "", err
	}
	var published *plan.Published
	if fetch {
		published = &plan.Published{
			Client:     download.NewClient(http.DefaultTransport),
			Kubernetes: baseURL("COMPONENTS_KUBERNETES_URL", plan.DefaultKubernetesURL),
			GitHub:     baseURL("COMPONENTS_GITHUB_URL", plan.DefaultGitHubURL),
		}
	}
	p, err := plan.New(ctx, root, release, &cache.Store{Dir: dir, Say: printProgress}, published)
	if err != nil {
		return "", err
	}
	return p.Build(ctx)
}

// baseURL returns the mirror that an environment variable names, or the default.
func baseURL(variable, defaultURL string) string {
	return strings.TrimRight(cmp.Or(os.Getenv(variable), defaultURL), "/")
}

func printProgress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
