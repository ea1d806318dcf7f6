package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// runHost runs a program on this machine. The error holds its standard error.
func runHost(ctx context.Context, args ...string) (string, error) {
	return runCaptured(exec.CommandContext(ctx, args[0], args[1:]...), "")
}

// runKilledWithParent runs a long program that is killed, with all its children, when this process
// ends in any way, so that nothing writes to a half-built cache entry any more. The program has a
// mount namespace of its own.
func runKilledWithParent(ctx context.Context, env []string, args ...string) error {
	// The kernel ties the death signal to the thread that forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unshare := []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"}
	cmd := exec.CommandContext(ctx, "unshare", append(unshare, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_, err := runCaptured(cmd, "")
	return err
}

func runCaptured(cmd *exec.Cmd, stdin string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	if err := cmd.Run(); err != nil {
		said := lastLines(stderr.String()+stdout.String(), 15)
		return stdout.String(),
			fmt.Errorf("running %s: %w: %s", strings.Join(cmd.Args, " "), err, said)
	}
	return stdout.String(), nil
}

func lastLines(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// pollLimit is how long to wait for other programs. They need seconds, but the machine may be slow
// and busy.
const pollLimit = 10 * time.Minute

// pollUntil calls check until it returns nil. After the limit, or when the context is done, it
// returns check's last error with the name of what it waited for.
func pollUntil(ctx context.Context, name string, limit time.Duration,
	check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	var last error
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// A check that was cancelled says less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s, given up after %s: %w", name,
				time.Since(start).Round(time.Second), last)
		case <-time.After(pause):
		}
	}
}

// hostPackages are the programs that this machine needs to create nodes, and their Debian
// packages.
var hostPackages = []struct{ program, name string }{
	{"debootstrap", "debootstrap"},
	{"systemd-nspawn", "systemd-container"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
}

// InstallTools installs missing programs that this machine needs to create nodes, by apt, and logs
// it.
func InstallTools(ctx context.Context, log func(string, ...any)) error {
	if os.Geteuid() != 0 {
		return errors.New("creating nodes needs root, for namespaces, mounts and cgroups; run this with sudo")
	}
	var missing []string
	for _, p := range hostPackages {
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine has no apt-get; install the programs of these Debian packages: %s", list)
	}
	log("installing by apt: %s", list)
	apt := []string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o",
		"DPkg::Lock::Timeout=120"}
	install := append(append(apt[:len(apt):len(apt)], "install", "-y", "--no-install-recommends"),
		missing...)
	if _, err := runHost(ctx, install...); err == nil {
		return nil
	}
	// Package lists may be missing or old.
	if _, err := runHost(ctx, append(apt[:len(apt):len(apt)], "update")...); err != nil {
		return err
	}
	_, err := runHost(ctx, install...)
	return err
}
