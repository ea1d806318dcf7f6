package linux

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"kubeadm/internal/problem"
)

// Program finds an executable in PATH.
func (m Machine) Program(_ context.Context, name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s was not found in PATH: %w", name, fs.ErrNotExist)
	}
	return path, err
}

// KubeletVersion is what `kubelet --version` says, such as "v1.37.1".
func (m Machine) KubeletVersion(ctx context.Context) (string, error) {
	if _, err := m.Program(ctx, "kubelet"); err != nil {
		return "", problem.New("", err, "install the kubelet, of the version that the cluster is to run")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askLimit, fmt.Errorf("it took longer than %s", askLimit))
	defer cancel()
	out, err := output(ctx, "kubelet", "--version")
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`^Kubernetes (v[0-9]+\.[0-9]+\.[0-9]+\S*)$`).FindStringSubmatch(strings.TrimSpace(out))
	if found == nil {
		return "", fmt.Errorf("kubelet --version says %.80q instead of a version like \"Kubernetes v1.37.1\"", out)
	}
	return found[1], nil
}

// output runs a program to its end and returns what it wrote to its standard output; the
// error of one that fails holds the end of what it said.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = 5 * time.Second // a child that keeps the pipes open must not hold us, but a busy machine may take a while to read them
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	line := strings.Join(append([]string{name}, args...), " ")
	said := cmp.Or(strings.TrimSpace(complaint.String()), strings.TrimSpace(out.String()))
	if said == "" {
		return "", fmt.Errorf("running %q: %w", line, err)
	}
	return "", fmt.Errorf("running %q: %w: %s", line, err, said[max(0, len(said)-300):])
}
