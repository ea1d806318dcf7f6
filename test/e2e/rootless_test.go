//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestRootlessControlPlane creates two control planes whose components run as users of their own,
// and checks the users of processes and the owners of files.
func TestRootlessControlPlane(t *testing.T) {
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createNodes(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	before := takeFingerprint(t, s.controlPlanes[1])
	if err := s.initFirst(t.Context(),
		nodes.Config{Cluster: "featureGates:\n  RootlessControlPlane: true"}); err != nil {
		t.Fatal(err)
	}
	runCommand(t, s.controlPlanes[1], controlPlaneJoinCommand(kubeadm, s)...)
	checkVotingMembers(t, s.controlPlanes...)
	for _, n := range s.controlPlanes {
		t.Run(n.Name(), func(t *testing.T) {
			testUsers(t, n)
			testOwners(t, n)
		})
	}
	again := runCommand(t, s.cp, kubeadm, "init", "--config", initConfigFile, "--upload-certs",
		"-v=1")
	if strings.Contains(again, "] done: ") {
		t.Errorf("init, run again after it finished, made changes:\n%s", again)
	}
	t.Run("upgrade", func(t *testing.T) {
		inFullRun(t, "a minute")
		// Patches make the upgrade replace the Pods and renew their keys.
		runCommand(t, s.cp, "mkdir", "/root/patches")
		for _, component := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
			writeFile(t, s.cp, "/root/patches/"+component+"0+merge.yaml",
				"metadata: {annotations: {upgraded: \"true\"}}\n")
		}
		runCommand(t, s.cp, upgradeCommand(upgradeTarget, "--patches=/root/patches",
			ignoreNotReady)...)
		testUsers(t, s.cp)
		testOwners(t, s.cp)
	})
	runCommand(t, s.controlPlanes[1], kubeadm, "reset", "--force")
	awaitRestored(t, s.controlPlanes[1], before)
}

// testUsers waits until each component runs, and checks its user, groups and capabilities.
func testUsers(t *testing.T, n *nodes.Node) {
	const bindLowPorts = "0000000000000400"
	readers := runShell(t, n, "getent group kubeadm-sa-key-readers | cut -d: -f3")
	for component, want := range map[string]struct{ user, groups, bound string }{
		"etcd":                    {"kubeadm-etcd", "", strings.Repeat("0", 16)},
		"kube-apiserver":          {"kubeadm-kas", readers, bindLowPorts},
		"kube-controller-manager": {"kubeadm-kcm", readers, strings.Repeat("0", 16)},
		"kube-scheduler":          {"kubeadm-ks", "", strings.Repeat("0", 16)},
	} {
		user, status := awaitProcessOf(t, n, component)
		if user != want.user+" "+want.user {
			t.Errorf("%s runs as %q, want %s", component, user, want.user)
		}
		if got := status["Groups"]; want.groups != "" &&
			!slices.Contains(strings.Fields(got), want.groups) {
			t.Errorf("%s is in the groups %q, want %q", component, got, want.groups)
		}
		if got := status["CapBnd"]; got != want.bound {
			t.Errorf("the capability bounding set of %s is %s, want %s", component, got, want.bound)
		}
	}
}

// awaitProcessOf waits until a component runs as one process, and returns its user and group and
// the fields of /proc/PID/status.
func awaitProcessOf(t *testing.T, n *nodes.Node,
	component string) (user string, status map[string]string) {
	t.Helper()
	// In one script: a component that is restarted is another process.
	script := `pid=$(ps -eo pid=,args= | awk '$2 == "` + component + `" {print $1}')
		ps -o user:20=,group:20= -p "$pid" && cat "/proc/$pid/status"`
	status = make(map[string]string)
	await(t, component+" to run on "+n.Name(), waitLimit, func() error {
		result, err := n.Run(t.Context(), "sh", "-ec", script)
		if err != nil {
			return err
		}
		first, rest, _ := strings.Cut(result.Stdout, "\n")
		user = strings.Join(strings.Fields(first), " ")
		for line := range strings.Lines(rest) {
			name, value, _ := strings.Cut(line, ":")
			status[name] = strings.TrimSpace(value)
		}
		return nil
	})
	return user, status
}

// testOwners checks the owners and modes of files with restricted access.
func testOwners(t *testing.T, n *nodes.Node) {
	for file, want := range map[string]string{
		"/etc/kubernetes/pki/sa.key":                       "root:kubeadm-sa-key-readers 640",
		"/etc/kubernetes/pki/sa.pub":                       "kubeadm-kas:kubeadm-kas 600",
		"/etc/kubernetes/pki/apiserver.key":                "kubeadm-kas:kubeadm-kas 600",
		"/etc/kubernetes/pki/apiserver-kubelet-client.key": "kubeadm-kas:kubeadm-kas 600",
		"/etc/kubernetes/pki/front-proxy-client.key":       "kubeadm-kas:kubeadm-kas 600",
		"/etc/kubernetes/pki/apiserver-etcd-client.key":    "kubeadm-kas:kubeadm-kas 600",
		"/etc/kubernetes/pki/ca.key":                       "kubeadm-kcm:kubeadm-kcm 600",
		"/etc/kubernetes/controller-manager.conf":          "kubeadm-kcm:kubeadm-kcm 600",
		"/etc/kubernetes/scheduler.conf":                   "kubeadm-ks:kubeadm-ks 600",
		"/etc/kubernetes/pki/etcd/server.key":              "kubeadm-etcd:kubeadm-etcd 600",
		"/etc/kubernetes/pki/etcd/peer.key":                "kubeadm-etcd:kubeadm-etcd 600",
		"/var/lib/etcd":                                    "kubeadm-etcd:kubeadm-etcd 700",
		"/var/lib/etcd/member":                             "kubeadm-etcd:kubeadm-etcd 700",
		"/etc/kubernetes/admin.conf":                       "root:root 600",
		"/etc/kubernetes/pki/etcd/ca.key":                  "root:root 600",
		"/etc/kubernetes/pki/front-proxy-ca.key":           "root:root 600",
	} {
		if got := runCommand(t, n, "stat", "-c", "%U:%G %a", file); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	if members := runShell(t, n,
		"getent group kubeadm-sa-key-readers | cut -d: -f4"); members != "kubeadm-kas,kubeadm-kcm" {
		t.Errorf("the group that may read sa.key has the members %q", members)
	}
	if shells := runShell(t, n,
		"getent passwd kubeadm-etcd kubeadm-kas kubeadm-kcm kubeadm-ks | cut -d: -f7 | sort -u"); shells != "/bin/false" {
		t.Errorf("users of the control plane have the shells %q", shells)
	}
}
