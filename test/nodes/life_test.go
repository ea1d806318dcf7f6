package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testBundle returns the directory of the components bundle. Tests of real nodes need one, and
// root.
func testBundle(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEADM_BUNDLE")
	if dir == "" || os.Geteuid() != 0 {
		t.Skip("real nodes need root and KUBEADM_BUNDLE, the directory of a components bundle")
	}
	return dir
}

func newCluster(t *testing.T) *Cluster {
	t.Helper()
	c, err := NewCluster(t.Context(),
		Options{Bundle: testBundle(t), Log: t.Logf, Keep: KeepFailed(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func runCommand(t *testing.T, n *Node, args ...string) string {
	t.Helper()
	result, err := n.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(result.Stdout)
}

func TestNodeLifeCycle(t *testing.T) {
	c := newCluster(t)
	members, err := c.AddAll(t.Context(), "cp1", "Worker-B")
	if err != nil {
		t.Fatal(err)
	}
	a, b := members[0], members[1]
	t.Run("commands", func(t *testing.T) { testCommands(t, a, b) })
	t.Run("kill a process", func(t *testing.T) { testKillProcess(t, a) })
	t.Run("memory", func(t *testing.T) { testPeakMemory(t, a) })
	t.Run("files", func(t *testing.T) { testFiles(t, a) })
	t.Run("network", func(t *testing.T) { testNetwork(t, c, a, b) })
	t.Run("load balancer", func(t *testing.T) { testBalancer(t, c, a, b) })
	t.Run("fingerprint", func(t *testing.T) { testFingerprint(t, a) })
	t.Run("power cut", func(t *testing.T) { testPowerCut(t, a) })
	t.Run("reboot", func(t *testing.T) { testReboot(t, b) })
	t.Run("another machine", func(t *testing.T) { testDestroyAndAdd(t, c, b) })
	left, err := Leftovers(c.Name())
	if err != nil || len(left) < 10 {
		t.Errorf("of a running cluster only this is listed: %q, %v", left, err)
	}
}

func testCommands(t *testing.T, a, b *Node) {
	if got := runCommand(t, a, "hostname"); got != "cp1" {
		t.Errorf("host name %q", got)
	}
	if got := runCommand(t, b, "cat", "/proc/1/comm"); got != "systemd" {
		t.Errorf("first process %q", got)
	}
	for _, image := range []string{"pause", "kube-apiserver", "coredns"} {
		if images := runCommand(t, b, "ctr", "-n", "k8s.io", "images", "list",
			"-q"); !strings.Contains(images, image) {
			t.Errorf("no image %s among:\n%s", image, images)
		}
	}
	cmd := a.Command("sh", "-c", `cat; echo "$GREETING" >&2; exit 3`)
	cmd.Stdin, cmd.Env = strings.NewReader("in"), []string{"GREETING=hello"}
	result, err := cmd.Run(t.Context())
	var exit *ExitError
	if !errors.As(err, &exit) || result.Code != 3 || result.Stdout != "in" ||
		result.Stderr != "hello\n" {
		t.Errorf("got %+v, %v", result, err)
	}
}

func testKillProcess(t *testing.T, n *Node) {
	p, err := n.Start(t.Context(), "sleep", "4711")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if result, err := p.Wait(); err == nil || result.Code != -1 && result.Code != 137 {
		t.Errorf("a killed process returned %+v, %v", result, err)
	}
	if _, err := n.Run(t.Context(), "pgrep", "-f", "sleep 4711"); err == nil {
		t.Error("the process lives on")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := n.Run(ctx, "sleep", "4712"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that took too long returned %v", err)
	}
	if _, err := n.Run(t.Context(), "pgrep", "-f", "sleep 4712"); err == nil {
		t.Error("the process outlives its context")
	}
}

// testPeakMemory runs a small program that starts a big one.
func testPeakMemory(t *testing.T, n *Node) {
	const big = 64 << 20
	cmd := n.Command("sh", "-c",
		fmt.Sprintf("dd if=/dev/zero of=/dev/null bs=%d count=1 && echo done && read line", big))
	in, toProgram := io.Pipe()
	fromProgram, out := io.Pipe()
	cmd.Stdin, cmd.Stdout = in, out
	p, err := cmd.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(fromProgram, make([]byte, len("done\n"))); err != nil {
		t.Fatal(err)
	}
	peak, err := p.PeakMemory()
	if err != nil || peak == 0 || peak >= big/2 {
		t.Errorf("the memory of the small program is %d, %v", peak, err)
	}
	if _, err := io.WriteString(toProgram, "next\n"); err != nil {
		t.Fatal(err)
	}
	toProgram.Close()
	if result, err := p.Wait(); err != nil || result.Memory < big {
		t.Errorf("the memory of both is %d, %v", result.Memory, err)
	}
	if peak, err := p.PeakMemory(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the memory of a program that has exited is %d, %v", peak, err)
	}
}

func testFiles(t *testing.T, n *Node) {
	if err := n.WriteFile("/etc/new/dir/file", []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	if got := runCommand(t, n, "stat", "-c", "%a %s", "/etc/new/dir/file"); got != "640 4" {
		t.Errorf("mode and size %q", got)
	}
	if got, err := n.ReadFile("/etc/new/dir/file"); err != nil || string(got) != "text" {
		t.Errorf("read %q, %v", got, err)
	}
	runCommand(t, n, "ln", "-s", "/proc/1/environ", "/etc/new/link")
	if _, err := n.ReadFile("/etc/new/link"); err == nil {
		t.Error("a link led out of the node")
	}
	runCommand(t, n, "rm", "-r", "/etc/new")
}

func testNetwork(t *testing.T, c *Cluster, a, b *Node) {
	server, err := b.Start(t.Context(), "socat", "TCP-LISTEN:8080,fork,reuseaddr", "SYSTEM:echo hi")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Kill()
	ask := func() error {
		_, err := a.Run(t.Context(), "socat", "-T2", "-", "TCP:Worker-B:8080,connect-timeout=1")
		return err
	}
	if err := pollUntil(t.Context(), "the server", pollLimit,
		func(context.Context) error { return ask() }); err != nil {
		t.Fatal(err)
	}
	conn, err := c.Dial(t.Context(), "tcp", b.Address()+":8080")
	if err != nil {
		t.Fatal(err)
	}
	if said, _ := io.ReadAll(conn); string(said) != "hi\n" {
		t.Errorf("from outside: %q", said)
	}
	if err := b.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ask() == nil {
		t.Error("a node without network answered")
	}
	if err := b.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pollUntil(t.Context(), "the server", pollLimit,
		func(context.Context) error { return ask() }); err != nil {
		t.Error(err)
	}
	const refused = 7
	if result, err := a.Run(t.Context(), "curl", "--max-time", "30",
		"http://192.0.2.1/"); result.Code != refused {
		t.Errorf("an address outside of the cluster is not refused: %v", err)
	}
}

func testFingerprint(t *testing.T, n *Node) {
	take := func() Fingerprint {
		f, err := n.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	before := take()
	// systemd restarts it repeatedly, since it exits without a configuration: its state at the
	// moment must not matter.
	runCommand(t, n, "systemctl", "restart", "kubelet")
	if diff := before.Diff(take()); len(diff) > 0 {
		t.Errorf("nothing was done, but: %q", diff)
	}
	runCommand(t, n, "systemctl", "stop", "kubelet")
	if diff := before.Diff(take()); !slices.Equal(diff, []string{"- units: kubelet.service"}) {
		t.Errorf("the kubelet was stopped, but: %q", diff)
	}
	runCommand(t, n, "systemctl", "start", "kubelet")
	runCommand(t, n, "sh", "-ec",
		`echo x >/etc/kubernetes/new; echo >>/etc/crictl.yaml; rm /etc/default/kubelet; ip link add br7 type bridge
		mkdir /mnt/m; mount -t tmpfs tmpfs /mnt/m; nft add table ip test; ip route add 192.0.2.0/24 via 10.77.0.1; systemctl disable -q kubelet`)
	diff := before.Diff(take())
	for _, want := range []string{
		"+ files: /etc/kubernetes/new ", "+ files: /etc/crictl.yaml ",
		"+ files: /etc/default/kubelet removed", "+ links: br7",
		"+ mounts: /mnt/m tmpfs", "+ rules: table ip test", "+ routes: 192.0.2.0/24",
		"- units: kubelet.service",
	} {
		if !slices.ContainsFunc(diff, func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("%q is not in:\n%s", want, strings.Join(diff, "\n"))
		}
	}
	runCommand(t, n, "sh", "-ec",
		`rm /etc/kubernetes/new; sed -i '$d' /etc/crictl.yaml; echo KUBELET_EXTRA_ARGS= >/etc/default/kubelet; ip link delete br7
		umount /mnt/m; rmdir /mnt/m; nft delete table ip test; ip route delete 192.0.2.0/24; systemctl enable -q kubelet`)
	if diff := before.Diff(take()); len(diff) > 0 {
		t.Errorf("all was undone, but:\n%s", strings.Join(diff, "\n"))
	}
}

func testPowerCut(t *testing.T, n *Node) {
	runCommand(t, n, "sh", "-ec", "echo kept >/root/kept; echo lost >/run/lost; sync")
	if err := n.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Run(t.Context(), "true"); err == nil {
		t.Error("a command ran on a node that is off")
	}
	if err := n.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := runCommand(t, n, "sh", "-c",
		"cat /root/kept; ls /run/lost 2>/dev/null || true"); got != "kept" {
		t.Errorf("after the boot there is %q", got)
	}
}

func testReboot(t *testing.T, n *Node) {
	before := runCommand(t, n, "cat", "/proc/sys/kernel/random/boot_id")
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := runCommand(t, n, "cat", "/proc/sys/kernel/random/boot_id"); after == before {
		t.Error("the node did not boot")
	}
}

// testDestroyAndAdd replaces a node by a new one of the same name and address.
func testDestroyAndAdd(t *testing.T, c *Cluster, n *Node) {
	runCommand(t, n, "touch", "/root/mark")
	if err := c.DestroyNode(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	again, err := c.AddAt(t.Context(), n.Name(), n.Address())
	if err != nil {
		t.Fatal(err)
	}
	if got := runCommand(t, again, "sh", "-c",
		"ls /root; ip -brief address show eth0"); strings.Contains(got, "mark") ||
		!strings.Contains(got, n.Address()) {
		t.Errorf("the new machine has:\n%s", got)
	}
	if third, err := c.Add(t.Context(), "third"); err != nil || third.Address() != "10.77.0.13" {
		t.Errorf("another node has the address %s: %v", third.Address(), err)
	}
}

// TestNewClusterRemovesAbandonedClusters runs a process that creates a node and kills itself.
func TestNewClusterRemovesAbandonedClusters(t *testing.T) {
	const name = "test-swept"
	if os.Getenv("KUBEADM_TEST_DIE") != "" {
		c, err := NewCluster(t.Context(), Options{Name: name, Bundle: testBundle(t)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Add(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		left, err := Leftovers(name)
		fmt.Printf("to be swept: %d, %v\n", len(left), err)
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	testBundle(t)
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "KUBEADM_TEST_DIE=yes")
	out, err := child.CombinedOutput()
	if err == nil || child.ProcessState.ExitCode() != -1 {
		t.Fatalf("the run was not killed: %v\n%s", err, out)
	}
	// Not checked here: another process may have removed the cluster already.
	if said := string(out); !strings.Contains(said, "to be swept: ") ||
		strings.Contains(said, "to be swept: 0") {
		t.Fatalf("the killed process left nothing to remove:\n%s", said)
	}
	newCluster(t)
	if left, err := Leftovers(name); err != nil || len(left) > 0 {
		t.Errorf("left after the next start: %q, %v", left, err)
	}
}

func TestClusterNameIsUnique(t *testing.T) {
	c := newCluster(t)
	if other, err := NewCluster(t.Context(),
		Options{Name: c.Name(), Bundle: testBundle(t)}); err == nil {
		t.Error("a second cluster has the same name")
		other.Close()
	}
	if err := Remove(t.Context(), c.Name()); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("removing a cluster in use: %v", err)
	}
	if left, err := Leftovers(c.Name()); err != nil || len(left) == 0 {
		t.Errorf("the cluster did not survive: %v", err)
	}
}
