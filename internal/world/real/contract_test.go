package real_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"kubeadm/internal/world"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest"
)

var _ world.World = (*real.World)(nil)

func TestFiles(t *testing.T) {
	worldtest.Files(t, real.New(), folder(t))
}

func TestWaits(t *testing.T) { worldtest.Waits(t, real.New()) }

func TestClock(t *testing.T) { worldtest.Clock(t, real.New()) }

func TestDoors(t *testing.T) { worldtest.Doors(t, real.New()) }

func TestHost(t *testing.T) { worldtest.Host(t, real.New()) }

func TestPrograms(t *testing.T) {
	bin := folder(t)
	script := "#!/bin/sh\n[ \"$*\" = --version ] && echo Kubernetes v1.37.1\n"
	if err := os.WriteFile(filepath.Join(bin, "kubelet"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	worldtest.Programs(t, real.New(), "cp", "v1.37.1")
	t.Setenv("PATH", "/nonexistent")
	worldtest.NoKubelet(t, real.New())
}

func TestNetwork(t *testing.T) {
	taken := listen(t)
	defer taken.Close()
	free := listen(t)
	free.Close()
	worldtest.Network(t, real.New(), worldtest.Ports{Name: "localhost", Taken: taken.Addr().String(), Free: free.Addr().String()})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// folder is an empty folder, spelled without symbolic links.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
