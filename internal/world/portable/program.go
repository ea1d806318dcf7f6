package portable

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

// QueryTimeout is how long a program may take that only reports something, or sets a state at once.
const QueryTimeout = 10 * time.Second

// Program finds an executable in PATH.
func (m Machine) Program(_ context.Context, name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s was not found in PATH: %w", name, fs.ErrNotExist)
	}
	return path, err
}

// KubeletVersion returns the version that `kubelet --version` prints, such as "v1.37.1".
func (m Machine) KubeletVersion(ctx context.Context) (string, error) {
	if _, err := m.Program(ctx, "kubelet"); err != nil {
		return "", problem.New(err,
			"install the kubelet in the Kubernetes version of the cluster")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, QueryTimeout,
		fmt.Errorf("it took longer than %s", QueryTimeout))
	defer cancel()
	out, err := Run(ctx, "kubelet", "--version")
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`^Kubernetes (v[0-9]+\.[0-9]+\.[0-9]+\S*)$`).FindStringSubmatch(
		strings.TrimSpace(out))
	if found == nil {
		return "", fmt.Errorf(
			"kubelet --version prints %.80q instead of a version like \"Kubernetes v1.37.1\"", out)
	}
	return found[1], nil
}

// Run runs a program and returns its standard output. The error of a program that fails
// includes the end of its output.
func Run(ctx context.Context, name string, args ...string) (string, error) {
	return RunWithInput(ctx, "", name, args...)
}

// RunWithInput is Run with a standard input.
func RunWithInput(ctx context.Context, input, name string,
	args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second // limits the wait for a child process that keeps the pipes open
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	line := strings.Join(append([]string{name}, args...), " ")
	text := cmp.Or(strings.TrimSpace(stderr.String()), strings.TrimSpace(stdout.String()))
	if text == "" {
		return "", fmt.Errorf("running %q: %w", line, err)
	}
	return "", fmt.Errorf("running %q: %w: %s", line, err, text[max(0, len(text)-300):])
}
