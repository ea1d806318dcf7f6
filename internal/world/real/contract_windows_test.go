package real_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest"
)

var _ world.World = (*real.World)(nil)

// TestMain is also a service of Windows that does nothing until it is stopped.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, asService) {
		_ = svc.Run("", idleService{})
		return
	}
	os.Exit(m.Run())
}

// asService is the argument with which the Service Control Manager starts this test.
const asService = "as-a-service"

type idleService struct{}

func (idleService) Execute(_ []string, requests <-chan svc.ChangeRequest,
	report chan<- svc.Status) (bool, uint32) {
	report <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop}
	for r := range requests {
		if r.Cmd == svc.Interrogate {
			report <- r.CurrentStatus
		} else if r.Cmd == svc.Stop {
			break
		}
	}
	report <- svc.Status{State: svc.StopPending}
	return false, 0
}

// newTempDir returns the path of an empty directory, as this program writes it.
func newTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubeadm-")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.ToSlash(dir)
	t.Cleanup(func() { // t.TempDir removes with a call that Wine does not have
		if err := real.New().Do(context.Background(), change.Remove{Path: dir}); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFiles(t *testing.T) {
	worldtest.FilesWithModes(t, real.New(), newTempDir(t), shownMode)
}

// shownMode is the mode that Windows knows of what was created with another one.
func shownMode(mode fs.FileMode) fs.FileMode {
	switch isDir, isPublic := mode.IsDir(), mode&0o004 != 0; {
	case isDir && isPublic:
		return fs.ModeDir | 0o755
	case isDir:
		return fs.ModeDir | 0o700
	case isPublic:
		return 0o644
	}
	return 0o600
}

func TestLinks(t *testing.T) {
	dir := newTempDir(t)
	err := os.Symlink(dir, dir+"/link")
	if err == nil {
		_, err = os.Lstat(dir + "/link") // Wine creates none, and says that it has
	}
	if err != nil {
		t.Skipf("Wine has no symbolic links, and only Administrators may create them: %v", err)
	}
	system, err := os.MkdirTemp(filepath.Join(os.Getenv("SystemRoot"), "Temp"), "kubeadm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(system) })
	worldtest.Links(t, real.New(), newTempDir(t), worldtest.LinkConfig{SystemDir: system,
		Shown: shownMode, Make: func(to, at string) {
			if err := os.Symlink(filepath.FromSlash(to), at); err != nil {
				t.Fatal(err)
			}
		}})
}

func TestServices(t *testing.T) {
	m, err := mgr.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Disconnect() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const name = "kubeadm-contract"
	if left, err := m.OpenService(name); err == nil { // of a test that was killed
		_ = errors.Join(left.Delete(), left.Close())
	}
	s, err := m.CreateService(name, self, mgr.Config{StartType: mgr.StartAutomatic},
		asService)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Delete(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	worldtest.Services(t, real.New(),
		worldtest.ServiceConfig{Unit: name, File: newTempDir(t) + "/config"})
}

func TestWaits(t *testing.T) { worldtest.Await(t, real.New()) }

func TestDisks(t *testing.T) { worldtest.Disks(t, real.New(), newTempDir(t)) }

func TestClock(t *testing.T) { worldtest.Clock(t, real.New()) }

func TestDoors(t *testing.T) { worldtest.UnknownChanges(t, real.New()) }

func TestHost(t *testing.T) { worldtest.Host(t, real.New()) }

func TestNoKubelet(t *testing.T) {
	t.Setenv("PATH", newTempDir(t))
	worldtest.NoKubelet(t, real.New())
}

func TestNetwork(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	taken, free := listen(), listen()
	defer taken.Close()
	free.Close()
	worldtest.Network(t, real.New(), worldtest.NetworkConfig{Name: "localhost",
		Taken: taken.Addr().String(), Free: free.Addr().String()})
}

// A control plane's changes have no part on Windows.
func TestChangesOfLinuxAreRefused(t *testing.T) {
	for _, c := range []change.Change{change.SetSysctl{Name: "net.ipv4.ip_forward", Value: "1"},
		change.SetSwap{}, change.SetModule{}, change.SetOwner{}, change.SetAccounts{}} {
		if err := real.New().Do(t.Context(), c); err == nil {
			t.Errorf("%s was done", c)
		}
	}
}

func TestStartOfAMissingService(t *testing.T) {
	begun := time.Now()
	err := real.New().Do(t.Context(), change.SetService{Name: "kubeadm-no-such-service", Active: true})
	if err == nil || time.Since(begun) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}
