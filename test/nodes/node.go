package nodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Node is a sandboxed host. Its life cycle:
//
//	Add ── running ──Kill──▶ off ──Boot──▶ running
//	          └───────Reboot (orderly)────────┘
//
// The disk and the addresses persist; links, routes, rules, processes and /run do not, as on any
// host.
type Node struct {
	cluster   *Cluster
	name      string
	addresses []string
	dir       string
}

// Name is the node's host name.
func (n *Node) Name() string { return n.name }

// Address is the node's first address on eth0; it is IPv4 if the cluster has IPv4.
func (n *Node) Address() string { return n.addresses[0] }

// Addresses are the node's addresses on eth0: one of each IP family of the cluster.
func (n *Node) Addresses() []string { return slices.Clone(n.addresses) }

// Cluster is the cluster that the node belongs to.
func (n *Node) Cluster() *Cluster { return n.cluster }

// createAndBoot creates a node that has just been registered and boots it.
func (n *Node) createAndBoot(ctx context.Context) error {
	start := time.Now()
	if err := n.createDisk(ctx); err != nil {
		return fmt.Errorf("creating node %s: %w", n.name, err)
	}
	if err := n.Boot(ctx); err != nil {
		return err
	}
	n.cluster.log("%s: booted in %.1f s, address %s", n.name, time.Since(start).Seconds(),
		strings.Join(n.addresses, " and "))
	return nil
}

// createDisk creates the node's writable layer and containerd directory.
func (n *Node) createDisk(ctx context.Context) error {
	for _, dir := range []string{"upper/etc", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			return err
		}
	}
	var id [16]byte
	rand.Read(id[:])
	// Without a machine ID systemd assumes a first boot and applies presets to all units.
	files := map[string]string{"hostname": n.name, "machine-id": hex.EncodeToString(id[:])}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(n.dir, "upper/etc", name), []byte(text+"\n"),
			0o644); err != nil {
			return err
		}
	}
	return cloneStore(ctx, n.cluster.record.Store, filepath.Join(n.dir, "containerd"))
}

// Boot starts a node that is off and returns when systemd has finished and containerd is ready.
func (n *Node) Boot(ctx context.Context) error {
	pid, err := findInit(n.cluster.name, n.name)
	if err != nil || pid != 0 {
		return errors.Join(err, fmt.Errorf("booting %s: it is running already", n.name))
	}
	if err := n.connectNetwork(ctx); err != nil {
		return fmt.Errorf("booting %s: %w", n.name, err)
	}
	ended, err := n.launch()
	if err != nil {
		return fmt.Errorf("booting %s: %w", n.name, err)
	}
	if err := n.awaitBoot(ctx, ended); err != nil {
		console, unread := os.ReadFile(n.consoleFile())
		if unread != nil {
			console = []byte(unread.Error())
		}
		return fmt.Errorf("booting %s: %w\nconsole:\n%s", n.name, err,
			lastLines(string(console), 20))
	}
	return nil
}

// launch starts systemd-nspawn, which outlives this process. The channel is closed when it exits.
func (n *Node) launch() (ended <-chan struct{}, err error) {
	dirs, err := createGroups(n.cluster.name, n.name)
	if err != nil {
		return nil, err
	}
	script, err := embeddedFiles.ReadFile("launch.sh")
	if err != nil {
		return nil, err
	}
	console, err := os.Create(n.consoleFile())
	if err != nil {
		return nil, err
	}
	defer console.Close()
	// A node outlives this process, and must not inherit open files, such as locks.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("closing files for the node: %w", err)
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", string(script))
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "NODE=" + n.dir, "MACHINE=" + n.cluster.name + "-" + n.name,
		"HOSTS=" + n.cluster.hostsFile(), "LOWER=" + strings.Join(n.cluster.record.Layers, ":"),
		"CGROUPS=" + strings.Join(dirs, "\n"),
	}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		// Nodes are killed: the error says nothing.
		_ = cmd.Wait()
		close(done)
	}()
	return done, nil
}

func (n *Node) awaitBoot(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ended:
			cancel(errors.New("systemd-nspawn exited"))
		case <-ctx.Done():
		}
	}()
	err := pollUntil(ctx, "systemd on "+n.name, pollLimit, func(ctx context.Context) error {
		// "degraded" is enough: the next step checks containerd.
		result, err := n.Run(ctx, "systemctl", "is-system-running", "--wait")
		if state := strings.TrimSpace(result.Stdout); state != "running" && state != "degraded" {
			return fmt.Errorf("it is %q: %w", state, err)
		}
		return nil
	})
	if err == nil {
		err = n.awaitContainerd(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// awaitContainerd waits until containerd is ready; systemd may have to start it more than once.
func (n *Node) awaitContainerd(ctx context.Context) error {
	err := pollUntil(ctx, "containerd on "+n.name, pollLimit, func(ctx context.Context) error {
		_, err := n.Run(ctx, "ctr", "version")
		return err
	})
	if err != nil {
		log, _ := n.Run(ctx, "journalctl", "--no-pager", "--lines=30", "--unit=containerd",
			"--unit=sandbox")
		return fmt.Errorf("%w\n%s", err, log.Stdout)
	}
	return nil
}

func (n *Node) consoleFile() string { return filepath.Join(n.dir, "console.log") }

// PID is this machine's PID of the node's init process.
func (n *Node) PID() (int, error) {
	pid, err := findInit(n.cluster.name, n.name)
	if err == nil && pid == 0 {
		err = fmt.Errorf("node %s is not running", n.name)
	}
	return pid, err
}

// Kill powers the node off: all its processes are killed. Killing a node that is off changes
// nothing.
func (n *Node) Kill(ctx context.Context) error {
	pid, err := findInit(n.cluster.name, n.name)
	if err != nil {
		return err
	}
	if pid != 0 {
		// The kernel kills all other processes of the PID namespace.
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing %s: %w", n.name, err)
		}
	}
	if err := removeGroups(ctx, n.cluster.name+"/"+n.name); err != nil {
		return fmt.Errorf("killing %s: %w", n.name, err)
	}
	return n.removeNetwork(ctx)
}

// Reboot shuts the node down, kills it after half a minute, and boots it.
func (n *Node) Reboot(ctx context.Context) error {
	if _, err := n.Run(ctx, "systemctl", "--no-block", "poweroff"); err != nil {
		return fmt.Errorf("rebooting %s: %w", n.name, err)
	}
	// A shutdown that takes too long is followed by Kill.
	_ = pollUntil(ctx, "the shutdown of "+n.name, 30*time.Second, func(context.Context) error {
		pid, err := findInit(n.cluster.name, n.name)
		if err == nil && pid != 0 {
			err = fmt.Errorf("process %d is running", pid)
		}
		return err
	})
	if err := n.Kill(ctx); err != nil {
		return err
	}
	return n.Boot(ctx)
}
