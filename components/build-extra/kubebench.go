package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"kubeadm/components/internal/golang"
)

// buildKubeBench builds kube-bench, which checks nodes by the profiles in its directory cfg, and gojq under the name of
// jq, which the commands of the profiles run.
func buildKubeBench(ctx context.Context, b golang.Build, dir string) error {
	if err := b.Run(ctx, dir); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "gojq"), filepath.Join(dir, "jq")); err != nil {
		return err
	}
	sources, err := golang.Dir(ctx, b.Dir, "github.com/aquasecurity/kube-bench")
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(dir, "cfg"), os.DirFS(filepath.Join(sources, "cfg"))); err != nil {
		return fmt.Errorf("copying the profiles of kube-bench: %w", err)
	}
	return nil
}
