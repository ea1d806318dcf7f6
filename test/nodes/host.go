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

// runHost runs a program of this machine to its end. The error holds what it wrote to stderr.
func runHost(ctx context.Context, args ...string) (string, error) {
	return runHostWithInput(ctx, "", args...)
}

func runHostWithInput(ctx context.Context, stdin string, args ...string) (string, error) {
	return runCaptured(exec.CommandContext(ctx, args[0], args[1:]...), stdin)
}

// runKilledWithParent runs a long program that dies, with all it started, when this process does, however that ends: a half-built
// cache entry then has no writer any more. The program sees the host's mounts but its own mounts stay with it.
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
		return stdout.String(), fmt.Errorf("running %s: %w: %s", strings.Join(cmd.Args, " "), err, said)
	}
	return stdout.String(), nil
}

func lastLines(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// pollLimit is how long somebody else is waited for who needs seconds: this machine may be slow, and busy for a while. Only what
// never comes takes so long.
const pollLimit = 10 * time.Minute

// pollUntil calls check until it returns nil. After the time given, or when the context ends, it returns check's last error
// under the name of what was waited for.
func pollUntil(ctx context.Context, name string, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	var last error
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// A check that was cut short says less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s, given up after %s: %w", name, time.Since(start).Round(time.Second), last)
		case <-time.After(pause):
		}
	}
}

// hostPackages are the Debian packages that hold the programs nodes are made with.
var hostPackages = []struct{ program, name string }{
	{"debootstrap", "debootstrap"},
	{"systemd-nspawn", "systemd-container"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
}

// InstallTools installs the programs that nodes are made with where they are missing, by apt and without a question, and says so.
func InstallTools(ctx context.Context, log func(string, ...any)) error {
	if os.Geteuid() != 0 {
		return errors.New("nodes need root: namespaces, mounts and cgroups are made; run this with sudo")
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
		return fmt.Errorf("this machine has no apt-get: install by hand what these Debian packages hold: %s", list)
	}
	log("installing by apt: %s", list)
	apt := []string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"}
	install := append(append(apt[:len(apt):len(apt)], "install", "-y", "--no-install-recommends"), missing...)
	if _, err := runHost(ctx, install...); err == nil {
		return nil
	}
	// Package lists may be absent or old.
	if _, err := runHost(ctx, append(apt[:len(apt):len(apt)], "update")...); err != nil {
		return err
	}
	_, err := runHost(ctx, install...)
	return err
}
