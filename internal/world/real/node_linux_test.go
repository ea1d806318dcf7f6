package real_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	file := filepath.Join(units, name+".service")
	link := filepath.Join("multi-user.target.wants", name+".service")
	wanted := filepath.Join(units, link)
	writeUnit(t, file, "[Service]\n"+service+"\n[Install]\nWantedBy=multi-user.target\n")
	if err := os.MkdirAll(filepath.Dir(wanted), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, wanted); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("systemctl", "stop", name).Run() // it may have been stopped by the test
		for _, f := range []string{file, wanted, filepath.Join("/etc/systemd/system", link)} {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err) // a test may have changed the links
			}
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
	exit := got.LastExit
	got.LastExit = state.Exit{}
	if want := (state.Service{Exists: true, Enabled: true, Active: true}); err != nil ||
		got != want || exit.Code != 1 {
		t.Errorf("got %+v, last exit %+v and %v, want %+v", got, exit, err, want)
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

// Removing an image removes all its tags: the node has no pause image afterwards.
func TestRemovedImagesOnNode(t *testing.T) {
	requireTestNode(t)
	const tag = "registry.invalid/contract:1"
	runCommand(t, "sh", "-ec", "ctr --namespace k8s.io images tag $(ctr --namespace k8s.io images ls -q | grep /pause: | head -1) "+tag)
	const socket = "unix:///var/run/containerd/containerd.sock"
	for range 100 { // containerd's CRI plugin learns of the tag by an event
		if found, err := real.New().Image(t.Context(), socket, tag); err == nil && found {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	worldtest.RemovedImages(t, real.New(), worldtest.RuntimeConfig{Socket: socket, Present: tag})
}

func TestPodNetworkOnNode(t *testing.T) {
	requireTestNode(t)
	runCommand(t, "sh", "-ec", `ip link add contract0 type bridge; ip link add contract1 type bridge
for p in iptables-nft iptables-legacy ip6tables-nft ip6tables-legacy; do
  $p -t nat -N CONTRACT; $p -t nat -N KUBE-FORWARD; $p -t nat -A OUTPUT -j CONTRACT
  $p -t nat -A OUTPUT -m comment --comment "a \"quoted\" -j word" -j KUBE-FORWARD
  $p -t nat -A KUBE-FORWARD -j RETURN; $p -t mangle -N KUBE-FORWARD
done
nft add table ip6 kube-proxy; nft add table inet CONTRACT`)
	t.Cleanup(func() {
		runCommand(t, "sh", "-ec", `ip link delete contract1; nft delete table inet CONTRACT
for p in iptables-nft iptables-legacy ip6tables-nft ip6tables-legacy; do
  $p -t nat -F; $p -t nat -X CONTRACT
done`)
	})
	worldtest.PodNetwork(t, real.New(), worldtest.PodNetworkConfig{
		Links: []string{"contract0", "contract1"}, Missing: "ipset",
		Programs: []string{"iptables-nft", "iptables-legacy", "ip6tables-nft",
			"ip6tables-legacy", "nft"}})
	// Only tables that Kubernetes has used and that are empty are removed with it.
	if tables := runCommand(t, "nft", "list", "tables"); strings.Contains(tables, "mangle") ||
		!strings.Contains(tables, "table ip nat") {
		t.Errorf("tables: %q", tables)
	}
}

// Another program adds a rule after the last listing and before the removal of the empty table.
func TestRuleAddedDuringRemovalOnNode(t *testing.T) {
	requireTestNode(t)
	bin := t.TempDir()
	wrapper := `#!/bin/sh -e
/usr/sbin/iptables-nft-save
echo >>"$0.calls"
if test "$(wc -l <"$0.calls")" = 2; then
  /usr/sbin/iptables-nft -t mangle -A PREROUTING -p tcp --dport 9 -j ACCEPT
  /usr/sbin/nft add set ip raw CONTRACT "{ type ipv4_addr; }"
fi
`
	if err := os.WriteFile(filepath.Join(bin, "iptables-nft-save"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"iptables-nft-restore", "ip"} { // nft is not needed
		if err := os.Symlink("/usr/sbin/"+program, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	const fill = `for t in mangle raw security; do
  iptables-nft -t $t -N KUBE-FORWARD; iptables-nft -t $t -A OUTPUT -j KUBE-FORWARD; done`
	runCommand(t, "sh", "-ec", fill)
	t.Cleanup(func() { runCommand(t, "sh", "-ec", "nft delete table ip mangle; nft delete table ip raw") })
	path := os.Getenv("PATH")
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	err := real.New().Do(t.Context(), change.RemovePacketRules{Program: "iptables-nft"})
	t.Setenv("PATH", path)
	if err != nil {
		t.Fatal(err)
	}
	rules := runCommand(t, "iptables-nft-save")
	tables := runCommand(t, "nft", "list", "tables")
	if !strings.Contains(rules, "--dport 9") || !strings.Contains(tables, "table ip raw") ||
		strings.Contains(tables, "table ip security") || strings.Contains(rules, "KUBE-") {
		t.Errorf("tables:\n%s\nrules:\n%s", tables, rules)
	}
}

func TestControlGroupsOnNode(t *testing.T) {
	requireTestNode(t)
	parent := "/sys/fs/cgroup"
	if _, err := os.Stat(parent + "/cgroup.procs"); err != nil { // cgroup v1
		parent += "/memory"
	}
	parent += "/contract"
	runCommand(t, "mkdir", "-p", parent+"/removed/below/deep", parent+"/kept")
	t.Cleanup(func() { runCommand(t, "rmdir", parent+"/kept", parent) })
	worldtest.ControlGroups(t, real.New(), parent)
}

func TestNetworkNamespaceOnNode(t *testing.T) {
	requireTestNode(t)
	runCommand(t, "sh", "-ec", `ip netns add cni-contract; ip netns add cni-contract2
ip link add contract2 type veth peer name contract3 netns cni-contract`)
	t.Cleanup(func() { runCommand(t, "ip", "netns", "delete", "cni-contract2") })
	links, err := real.New().Links(t.Context())
	if i := slices.IndexFunc(links, func(l state.Link) bool { return l.Name == "contract2" }); err != nil ||
		i < 0 || links[i].Namespace != "cni-contract" {
		t.Errorf("got %v and %v", links, err)
	}
	const file = "/run/netns/cni-contract"
	worldtest.NamespaceMount(t, real.New(), file)
	if err := real.New().Do(t.Context(), change.Remove{Path: file}); err != nil {
		t.Error(err)
	}
	gone := change.RemoveInterface{Name: "contract2"}
	if err := real.New().Do(t.Context(), gone); err != nil { // the kernel may be faster
		t.Error(err)
	}
}

func TestSysctlsOnNode(t *testing.T) {
	requireTestNode(t)
	worldtest.Sysctls(t, real.New(), "net.ipv4.ip_forward")
}

func TestHostOnNode(t *testing.T) {
	requireTestNode(t)
	worldtest.Host(t, real.New())
	worldtest.Programs(t, real.New(), "systemctl",
		strings.TrimPrefix(runCommand(t, "kubelet", "--version"), "Kubernetes "))
}
