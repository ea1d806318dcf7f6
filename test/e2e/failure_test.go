//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// failureCase is a cause for which a command must fail, and what its error must say.
type failureCase struct {
	name       string
	cause, fix string   // scripts; the second one removes the cause
	config     string   // in place of the valid one
	command    []string // in place of the usual one
	want       []string // all in the error
}

// check creates the cause, checks that the command fails with one error that names it, fixes the
// cause, and checks that the machine is unchanged.
func (f failureCase) check(t *testing.T, n *nodes.Node, configFile string, command []string) {
	before := takeFingerprint(t, n)
	if f.command != nil {
		command = f.command
	}
	valid, err := n.ReadFile(configFile)
	if err != nil {
		t.Fatal(err)
	}
	if f.config != "" {
		writeFile(t, n, configFile, f.config)
	}
	runShell(t, n, f.cause)
	result := checkFails(t, n, f.want, command...)
	runShell(t, n, f.fix)
	writeFile(t, n, configFile, string(valid))
	checkUnchanged(t, n, before)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 4), "\n"))
}

func writeFile(t *testing.T, n *nodes.Node, name, text string) {
	t.Helper()
	if err := n.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkFails runs a command that must fail with exit code 1 and one error that contains all the
// words.
func checkFails(t *testing.T, n *nodes.Node, words []string, command ...string) nodes.Result {
	t.Helper()
	result, err := n.Run(t.Context(), command...)
	var exit *nodes.ExitError
	if !errors.As(err, &exit) || result.Code != 1 {
		t.Fatalf("want exit code 1, got %d: %v\n%s", result.Code, err, result.Stdout)
	}
	checkError(t, result, words)
	return result
}

// checkError checks that a command printed one error, which contains all the words.
func checkError(t *testing.T, result nodes.Result, words []string) {
	t.Helper()
	if count := strings.Count("\n"+result.Stderr, "\nerror: "); count != 1 {
		t.Errorf("%d errors are shown instead of one:\n%s", count, result.Stderr)
	}
	for _, word := range words {
		if !strings.Contains(result.Stderr, word) {
			t.Errorf("the error does not say %q:\n%s", word, result.Stderr)
		}
	}
	for _, trace := range []string{"goroutine ", "panic:", "\terrors.go"} {
		if strings.Contains(result.Stderr, trace) {
			t.Errorf("the error shows a stack trace:\n%s", result.Stderr)
		}
	}
}

// occupyPortScript is a script that starts a service which listens at a port, and waits until it
// does.
func occupyPortScript(port string) string {
	return "systemd-run --quiet --unit=squatter socat TCP-LISTEN:" + port +
		",reuseaddr,fork PIPE; " +
		"timeout 300 sh -c \"until ss --no-header --listening --tcp --numeric 'sport = :" + port +
		"' | grep .; do sleep 0.05; done\""
}

const initConfigFile = "/etc/kubeadm.yaml"

// TestInitNamesTheCauseOfFailure breaks one machine in many ways, one after the other, and runs
// the same init each time. That init succeeds in the end shows that each cause was fixed.
func TestInitNamesTheCauseOfFailure(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	good := nodes.InitConfig(nodes.Config{Address: n.Address()})
	writeFile(t, n, initConfigFile, good)
	command := []string{kubeadm, "init", "--config", initConfigFile}
	for _, f := range []failureCase{
		{name: "no root", command: append([]string{"setpriv", "--reuid=65534", "--regid=65534",
			"--clear-groups"}, command...),
			want: []string{"root"}},
		{name: "missing kubelet", cause: "mv /usr/bin/kubelet /root/",
			fix:  "mv /root/kubelet /usr/bin/",
			want: []string{"kubelet", "PATH"}},
		{name: "container runtime stopped", cause: "systemctl stop containerd",
			fix:  "systemctl start containerd",
			want: []string{"container runtime", "containerd.sock", "systemctl"}},
		{name: "port in use", cause: occupyPortScript("6443"),
			fix: "systemctl stop squatter", want: []string{"6443", "socat"}},
		// containerd's CRI plugin lists images when it starts, and updates the list with a delay.
		{name: "missing image",
			cause: "ctr -n k8s.io images tag registry.k8s.io/coredns/coredns:v1.14.6 kept; ctr -n k8s.io images rm --sync registry.k8s.io/coredns/coredns:v1.14.6; systemctl restart containerd",
			fix:   "ctr -n k8s.io images tag kept registry.k8s.io/coredns/coredns:v1.14.6; ctr -n k8s.io images rm kept; systemctl restart containerd", want: []string{"registry.k8s.io/coredns/coredns:v1.14.6"}},
		{name: "unparsable configuration", config: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: [",
			want: []string{initConfigFile, "line 2"}},
		{name: "unknown field", command: append(command, "--strict"),
			config: strings.Replace(good, "kubernetesVersion:", "kubernetesVerison:", 1),
			want:   []string{initConfigFile, "kubernetesVerison"}},
		{name: "impossible address", config: strings.Replace(good, n.Address(), "10.77.0.1234", 1),
			want: []string{"10.77.0.1234", "advertiseAddress"}},
		{name: "address of another machine",
			config: strings.Replace(good, n.Address(), "192.0.2.7", 1),
			want:   []string{"192.0.2.7", "advertise-address"}},
		{name: "missing configuration",
			command: []string{kubeadm, "init", "--config", "/no/such.yaml"},
			want:    []string{"/no/such.yaml"}},
		{name: "unknown flag", command: append(command, "--dry-runn"),
			want: []string{"--dry-runn", "--help"}},
	} {
		t.Run(f.name, func(t *testing.T) { f.check(t, n, initConfigFile, command) })
	}
	runCommand(t, n, command...)
	checkControlPlaneNode(t, n)
}

// TestInitOnFullDisk gives /etc/kubernetes, and then etcd, too little disk space.
func TestInitOnFullDisk(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	// Without this the kubelet's crash loop back-off begins with ten seconds.
	const shortBackoff = "crashLoopBackOff:\n  maxContainerRestartPeriod: 2s"
	writeFile(t, n, initConfigFile,
		nodes.InitConfig(nodes.Config{Address: n.Address(), Kubelet: shortBackoff}))
	command := []string{kubeadm, "init", "--config", initConfigFile}
	runShell(t, n, `mount -t tmpfs -o size=64k tmpfs /etc/kubernetes
		mkdir -p -m 700 /var/lib/etcd; mount -t tmpfs -o size=1m,mode=700 tmpfs /var/lib/etcd`)
	checkFails(t, n, []string{"no space left on device", "/etc/kubernetes/"}, command...)
	if halves := runShell(t, n,
		"find /etc/kubernetes -size 0 -type f -not -path '*/kubeadm-journal/*'; find /etc/kubernetes -name '.*' -type f"); halves != "" {
		t.Errorf("half-written files:\n%s", halves)
	}
	runShell(t, n, "mount -o remount,size=10m /etc/kubernetes")
	result := checkFails(t, n, []string{"etcd"}, command...)
	t.Log(strings.Join(lastLines(result.Stderr, 5), "\n"))
	runShell(t, n, "mount -o remount,size=500m /var/lib/etcd")
	runCommand(t, n, command...)
	checkControlPlaneNode(t, n)
}

// TestInitResumesAfterInterrupt sends SIGINT while init waits and while it writes.
func TestInitResumesAfterInterrupt(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, newCluster(t), "cp1")
	command := initCommand(t, n)
	for _, phase := range []string{"certs", "wait-control-plane"} {
		result, found := runInterrupted(t, n, unix.SIGINT, atPhase(phase), command...)
		if !found || result.Code != 1 {
			t.Fatalf("want exit code 1 after an interrupt in %s, got %d:\n%s%s", phase, result.Code,
				result.Stdout, result.Stderr)
		}
		checkError(t, result, []string{"interrupted", "re-run the command"})
		t.Log(strings.Join(lastLines(result.Stderr, 4), "\n"))
	}
	resumeInit(t, s, n, listFiles(t, n))
}

// TestUnknownAPIServerFlagIsNamed passes the API server an unknown flag, and ignores the preflight
// check that reports it.
func TestUnknownAPIServerFlagIsNamed(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	// A command that waits for this long has not noticed the crash.
	config := nodes.Config{Address: n.Address(),
		Init: "timeouts: {controlPlaneComponentHealthCheck: 20m}"}
	bad := config
	bad.Cluster = "apiServer:\n  extraArgs:\n  - name: no-such-flag\n    value: x"
	writeFile(t, n, initConfigFile, nodes.InitConfig(bad))
	command := []string{kubeadm, "init", "--config", initConfigFile}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	result, err := n.Run(ctx, command...)
	if result.Code != 1 {
		t.Fatalf("want exit code 1 from the preflight checks, got %d: %v", result.Code, err)
	}
	checkError(t, result, []string{"ERROR ComponentArgs", "kube-apiserver", "no-such-flag"})
	result, err = n.Run(ctx,
		append(slices.Clone(command), "--ignore-preflight-errors=ComponentArgs")...)
	if result.Code != 1 {
		t.Fatalf("want exit code 1, got %d: %v", result.Code, err)
	}
	checkError(t, result, []string{"kube-apiserver", "no-such-flag"})
	t.Logf("named after %s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 5), "\n"))
	writeFile(t, n, initConfigFile, nodes.InitConfig(config))
	runCommand(t, n, command...)
	checkControlPlaneNode(t, n)
}

// TestUnreachableEtcdIsNamed points the API server at an etcd endpoint where nothing listens. It
// exits every twenty seconds and serves nothing in between.
func TestUnreachableEtcdIsNamed(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	// Without this the kubelet's crash loop back-off begins with ten seconds.
	config := nodes.Config{
		Address: n.Address(), Init: "timeouts: {controlPlaneComponentHealthCheck: 20m}",
		Cluster: "apiServer:\n  extraArgs:\n  - name: etcd-servers\n    value: https://127.0.0.1:3379",
		Kubelet: "crashLoopBackOff:\n  maxContainerRestartPeriod: 2s",
	}
	writeFile(t, n, initConfigFile, nodes.InitConfig(config))
	result := checkFails(t, n,
		[]string{"container kube-apiserver exited", "etcd grpc connection not ready", "3 times",
			"127.0.0.1:3379"},
		kubeadm, "init", "--config", initConfigFile)
	if result.Duration > 5*time.Minute {
		t.Errorf("init waited for %s", result.Duration)
	}
	named := 0
	for line := range strings.Lines(result.Stdout) {
		if strings.Contains(line, "still waiting for kube-apiserver") &&
			strings.Contains(line, "etcd grpc connection not ready") {
			named++
		}
	}
	if named == 0 {
		t.Errorf("while it waits, init does not name the cause:\n%s", result.Stdout)
	}
	t.Logf("named after %s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 7), "\n"))
}

const joinConfigFile = "/etc/join.yaml"

// joinConfig is a configuration for joining the shared cluster.
func joinConfig(server, token, pin string) string {
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: %q
    token: %s
    caCertHashes: [%q]
nodeRegistration:
  ignorePreflightErrors: [%s]
`, server, token, pin, nodes.IgnoredPreflight)
}

// TestJoinNamesTheCauseOfFailure does for join what TestInitNamesTheCauseOfFailure does for init.
// The node has a host name in capitals, which becomes a Node name in lower case.
func TestJoinNamesTheCauseOfFailure(t *testing.T) {
	s := sharedCluster(t)
	server, token, pin := s.workerJoin[2], flagValue(t, s.workerJoin, "--token"),
		flagValue(t, s.workerJoin, "--discovery-token-ca-cert-hash")
	id, secret, _ := strings.Cut(token, ".")
	wrongPin := "sha256:" + strings.Repeat("0", 64)
	n := addNode(t, s.Cluster, "Capital-Worker")
	t.Cleanup(func() { removeNode(t, s, n) })
	writeFile(t, n, joinConfigFile, joinConfig(server, token, pin))
	command := []string{kubeadm, "join", "--config", joinConfigFile}
	// Nothing listens there; the default timeout is five minutes.
	unreachable := func(server string) string {
		return joinConfig(server, token, pin) + "timeouts: {discovery: 3s}\n"
	}
	for _, f := range []failureCase{
		{name: "unknown token", // TestUnusableTokens waits as long as kubeadm does by default
			config: joinConfig(server, "zzzzzz."+secret, pin) + "timeouts: {discovery: 3s}\n",
			want:   []string{"zzzzzz", "token"}},
		{name: "wrong secret of the token",
			config: joinConfig(server, id+"."+strings.Repeat("z", 16), pin), want: []string{id}},
		{name: "wrong pin", config: joinConfig(server, token, wrongPin),
			want: []string{"--discovery-token-ca-cert-hash", pin}},
		{name: "malformed token", config: joinConfig(server, "nonsense", pin),
			want: []string{"token", joinConfigFile}},
		{name: "unreachable API server", config: unreachable("10.77.0.99:6443"),
			want: []string{"10.77.0.99:6443"}},
		{name: "nothing listens at the port", config: unreachable(s.worker.Address() + ":6443"),
			want: []string{s.worker.Address() + ":6443"}},
		{name: "port in use", cause: "systemctl stop kubelet; " + occupyPortScript("10250"),
			fix:  "systemctl stop squatter; systemctl start kubelet",
			want: []string{"10250", "socat"}},
		{name: "container runtime stopped", cause: "systemctl stop containerd",
			fix:  "systemctl start containerd",
			want: []string{"container runtime", "containerd.sock"}},
	} {
		t.Run(f.name, func(t *testing.T) { f.check(t, n, joinConfigFile, command) })
	}
	runCommand(t, n, command...)
	awaitJoined(t, s, n)
	if again := runCommand(t, n, append(command, "-v=1")...); strings.Contains(again, "] done: ") {
		t.Errorf("join made changes on a node that had joined:\n%s", again)
	}
}
