package worldtest_test

import (
	"io/fs"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/worldtest"
)

func TestFakeFiles(t *testing.T) { worldtest.Files(t, fake.New(), "/contract") }

func TestFakeRenames(t *testing.T) { worldtest.Renames(t, fake.New(), "/contract") }

func TestFakeAccounts(t *testing.T) { worldtest.Accounts(t, fake.New(), "/contract") }

func TestFakeOwners(t *testing.T) {
	worldtest.Owners(t, fake.New(), "/contract")
	worldtest.DirectoryOwners(t, fake.New(), "/contract")
}

func TestFakeLinks(t *testing.T) {
	newWorld := func() (*fake.World, func(to, at string)) {
		w := fake.New()
		w.Files["/proc"] = memory.File{Mode: fs.ModeDir | 0o755}
		return w, func(to, at string) {
			if err := w.PutFile(at,
				memory.File{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w, link := newWorld()
	worldtest.Links(t, w, "/contract", worldtest.LinkConfig{Make: link, SystemDir: "/proc"})
	w, link = newWorld()
	worldtest.LinkedDirectoryOwners(t, w, "/contract", link)
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

func TestFakeKernel(t *testing.T) {
	w := fake.New()
	addSwap(w)
	testKernel(t, w)
}

func addSwap(w *fake.World) {
	swaps := w.Files[state.SwapsFile]
	swaps.Data = append(swaps.Data, "/swap\\040file file 1024 0 -2\n"...)
	w.Files[state.SwapsFile] = swaps
}

func TestFakeDisks(t *testing.T) {
	w := fake.New()
	w.Files["/empty"] = memory.File{Mode: fs.ModeDir | 0o755}
	worldtest.Disks(t, w, "/empty")
}

func TestFakeControlGroups(t *testing.T) {
	w := fake.New()
	addControlGroups(w)
	worldtest.ControlGroups(t, w, "/sys/fs/cgroup")
}

func addControlGroups(w *fake.World) {
	for _, dir := range []string{"removed", "removed/below", "removed/below/deep", "kept"} {
		w.Files["/sys/fs/cgroup/"+dir] = memory.File{Mode: fs.ModeDir | 0o755}
	}
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

// newPodNetwork gives a simulated machine what the suite removes and keeps.
func newPodNetwork() *fake.World {
	w := fake.New()
	w.LinkList = []state.Link{{Name: "cni0"}, {Name: "eth0"}}
	const rules = `*nat
:OUTPUT ACCEPT [0:0]
:CONTRACT - [0:0]
:KUBE-FORWARD - [0:0]
-A OUTPUT -j KUBE-FORWARD
-A OUTPUT -j CONTRACT
-A KUBE-FORWARD -j RETURN
COMMIT
`
	w.Rules = map[string]string{"iptables-nft": rules, "iptables-legacy": rules,
		"nft": "table inet CONTRACT\ntable ip kube-proxy\n"}
	w.VirtualServerList = []state.VirtualServer{{Protocol: "TCP", IP: "10.96.0.1", Port: 443},
		{Protocol: "TCP", IP: "192.0.2.1", Port: 443}}
	w.MountList = []string{"/", "/run/netns/cni-1", "/run/netns/cni-12"}
	return w
}

var fakePodNetwork = worldtest.PodNetworkConfig{Links: []string{"cni0", "eth0"},
	Programs: []string{"iptables-nft", "iptables-legacy", "nft"}, Missing: "ipset"}

func TestFakePodNetwork(t *testing.T) {
	worldtest.PodNetwork(t, newPodNetwork(), fakePodNetwork)
	worldtest.NamespaceMount(t, newPodNetwork(), "/run/netns/cni-1")
}

func TestDryRunOfPodNetwork(t *testing.T) {
	below := newPodNetwork()
	before := below.Snapshot()
	w := dryrun.New(below, "", dryrun.Paths{})
	worldtest.PodNetwork(t, w, fakePodNetwork)
	worldtest.NamespaceMount(t, w, "/run/netns/cni-1")
	if below.Snapshot() != before {
		t.Error("the preview changed the world")
	}
}

func TestFakeRemovedImages(t *testing.T) {
	below := fake.New()
	below.ImageList["registry.example/pause:1"] = true
	given := worldtest.RuntimeConfig{Socket: below.Sockets[0], Present: "registry.example/pause:1"}
	worldtest.RemovedImages(t, dryrun.New(below, "", dryrun.Paths{}), given)
	worldtest.RemovedImages(t, below, given)
}
