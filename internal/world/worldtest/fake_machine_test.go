package worldtest_test

import (
	"io/fs"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/worldtest"
)

func TestFakeFiles(t *testing.T) { worldtest.Files(t, fake.New(), "/contract") }

func TestFakeAccounts(t *testing.T) { worldtest.Accounts(t, fake.New(), "/contract") }

func TestFakeOwners(t *testing.T) {
	worldtest.Owners(t, fake.New(), "/contract")
	worldtest.DirectoryOwners(t, fake.New(), "/contract")
}

func TestFakeLinks(t *testing.T) {
	for _, suite := range []func(*testing.T, world.World, string, func(to, at string)){worldtest.Links, worldtest.LinkedDirectoryOwners} {
		w := fake.New()
		w.Files["/proc"] = memory.File{Mode: fs.ModeDir | 0o755}
		suite(t, w, "/contract", func(to, at string) {
			if err := w.PutFile(at,
				memory.File{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestFakeWaits(t *testing.T) { worldtest.Await(t, fake.New()) }

func TestFakeClock(t *testing.T) { worldtest.Clock(t, fake.New()) }

func TestFakeDoors(t *testing.T) { worldtest.UnknownChanges(t, fake.New()) }

func TestFakeHost(t *testing.T) { worldtest.Host(t, fake.New()) }

func TestFakePrograms(t *testing.T) {
	w := fake.New()
	worldtest.Programs(t, w, "cp", "v1.37.1")
	w.Kubelet = ""
	worldtest.NoKubelet(t, w)
}

func TestFakeServices(t *testing.T) {
	w := fake.New()
	w.Services["contract"] = state.Service{Exists: true, Enabled: true}
	worldtest.Services(t, w, worldtest.ServiceConfig{Unit: "contract", File: "/etc/contract"})
}

func TestFakeMounts(t *testing.T) {
	w := fake.New()
	w.MountList = []string{"/", "/var/lib/kubelet", "/var/lib/kubelet/pods/a",
		"/var/lib/kubelet/pods/a/b", "/var/lib/kubelet2/c"}
	worldtest.Mounts(t, w, "/var/lib/kubelet")
}

func TestFakeNetwork(t *testing.T) {
	w := fake.New()
	w.PortsInUse["127.0.0.1:10250"] = "kubelet (pid 1)"
	worldtest.Network(t, w,
		worldtest.NetworkConfig{Name: "cp1", Taken: "127.0.0.1:10250", Free: "127.0.0.1:6443"})
}

func TestFakeImages(t *testing.T) {
	w := fake.New()
	w.ImageList["registry.example/pause:1"] = true
	w.Pods = []state.Sandbox{{ID: "1", Name: "etcd-cp1", Namespace: "kube-system"}}
	worldtest.Images(t, w,
		worldtest.RuntimeConfig{Socket: w.Sockets[0], Present: "registry.example/pause:1",
			Absent: "registry.example/none:1"})
}
