package real_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest"
)

// requireTestNode skips a test unless it runs on a machine for tests, with systemd and containerd,
// that it may change.
func requireTestNode(t *testing.T) {
	t.Helper()
	if os.Getenv("KUBEADM_TEST_NODE") != "1" {
		t.Skip("it alters the machine: KUBEADM_TEST_NODE=1 says that it may")
	}
}

func runCommand(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

const units = "/run/systemd/system"

// addUnit writes an enabled unit without a reload of systemd.
func addUnit(t *testing.T, name, service string) {
	t.Helper()
	file, wanted := filepath.Join(units, name+".service"),
		filepath.Join(units, "multi-user.target.wants", name+".service")
	writeUnit(t, file, "[Service]\n"+service+"\n[Install]\nWantedBy=multi-user.target\n")
	if err := os.MkdirAll(filepath.Dir(wanted), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, wanted); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("systemctl", "stop", name).Run() // it may have been stopped by the test
		if err := errors.Join(os.Remove(file), os.Remove(wanted)); err != nil {
			t.Error(err)
		}
		runCommand(t, "systemctl", "daemon-reload")
	})
}

func writeUnit(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func startUnit(t *testing.T, unit string) error {
	t.Helper()
	return real.New().Do(t.Context(), change.SetService{Name: unit, Active: true})
}

func TestServicesOnNode(t *testing.T) {
	requireTestNode(t)
	addUnit(t, "kubeadm-contract", "ExecStart=/bin/sleep infinity")
	worldtest.Services(t, real.New(),
		worldtest.ServiceConfig{Unit: "kubeadm-contract",
			File: filepath.Join(newTempDir(t), "config")})
}

func TestServiceBetweenRestartsIsNotActive(t *testing.T) {
	requireTestNode(t)
	addUnit(t, "kubeadm-loop", "ExecStart=/bin/false\nRestart=always\nRestartSec=300")
	if err := startUnit(t, "kubeadm-loop"); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); runCommand(t, "systemctl", "show", "-P", "SubState",
		"kubeadm-loop") != "auto-restart"; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("systemd reports a failed service as running")
		}
	}
	got, err := real.New().Service(t.Context(), "kubeadm-loop")
	if want := (state.Service{Exists: true, Enabled: true, Active: true}); err != nil ||
		got != want {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}

func TestStartReloadsUnitFiles(t *testing.T) {
	requireTestNode(t)
	// which has started when its program runs
	addUnit(t, "kubeadm-changed", "Type=exec\nExecStart=/bin/sleep 1001")
	runs := func(want string) {
		t.Helper()
		if err := startUnit(t, "kubeadm-changed"); err != nil {
			t.Fatal(err)
		}
		pid := runCommand(t, "systemctl", "show", "-P", "MainPID", "kubeadm-changed")
		line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if got := strings.Trim(strings.ReplaceAll(string(line), "\x00", " "), " "); err != nil ||
			got != want {
			t.Errorf("it runs %q, want %q: %v", got, want, err)
		}
	}
	runs("/bin/sleep 1001")
	dropIn := filepath.Join(units, "kubeadm-changed.service.d")
	t.Cleanup(func() {
		if err := os.RemoveAll(dropIn); err != nil {
			t.Error(err)
		}
	})
	writeUnit(t, filepath.Join(dropIn, "10-kubeadm.conf"),
		"[Service]\nExecStart=\nExecStart=/bin/sleep 1002\n")
	runs("/bin/sleep 1002")
}

func TestServiceThatCannotStartHasHints(t *testing.T) {
	requireTestNode(t)
	addUnit(t, "kubeadm-broken", "Type=oneshot\nExecStart=/bin/false")
	for unit, says := range map[string]string{"kubeadm-broken": `"failed"`,
		"kubeadm-no-such-unit": "not found"} {
		err := startUnit(t, unit)
		if err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(strings.Join(problem.Hints(err), "\n"), "systemctl status "+unit) {
			t.Errorf("%s: got %v with hints %q", unit, err, problem.Hints(err))
		}
	}
}

func TestMountsOnNode(t *testing.T) {
	requireTestNode(t)
	dir := filepath.Join(newTempDir(t), "kubelet")
	for _, name := range []string{"pods/a/volume", "pods/b/volume"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		runCommand(t, "mount", "-t", "tmpfs", "tmpfs", at)
	}
	worldtest.Mounts(t, real.New(), dir)
}

func TestImagesOnNode(t *testing.T) {
	requireTestNode(t)
	var pause string
	for name := range strings.FieldsSeq(runCommand(t, "ctr", "--namespace", "k8s.io", "images",
		"ls", "-q")) {
		if strings.Contains(name, "/pause:") {
			pause = name
		}
	}
	worldtest.Images(t, real.New(), worldtest.RuntimeConfig{
		Socket: "unix:///var/run/containerd/containerd.sock", Present: pause,
		Absent: "registry.invalid/none:1"})
}

func TestHostOnNode(t *testing.T) {
	requireTestNode(t)
	worldtest.Host(t, real.New())
	worldtest.Programs(t, real.New(), "systemctl",
		strings.TrimPrefix(runCommand(t, "kubelet", "--version"), "Kubernetes "))
}
