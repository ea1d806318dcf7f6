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

// failure is a cause for which a command must fail, and what the user must then be able to read.
type failure struct {
	name        string
	cause, mend string   // scripts; the second one takes the cause away
	config      string   // in place of the good one
	command     []string // in place of the usual one
	want        []string // all in what the command says
}

// fails brings about the cause, checks that the command ends with one error that names it, mends the cause, and checks
// that the machine is as it was.
func (f failure) fails(t *testing.T, n *nodes.Node, configFile string, command []string) {
	before := fingerprint(t, n)
	if f.command != nil {
		command = f.command
	}
	good, err := n.ReadFile(configFile)
	if err != nil {
		t.Fatal(err)
	}
	if f.config != "" {
		write(t, n, configFile, f.config)
	}
	shell(t, n, f.cause)
	result := refused(t, n, f.want, command...)
	shell(t, n, f.mend)
	write(t, n, configFile, string(good))
	unchanged(t, n, before)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 4), "\n"))
}

func write(t *testing.T, n *nodes.Node, name, text string) {
	t.Helper()
	if err := n.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// refused runs a command that must fail with exit code 1 and one error that has all the words.
func refused(t *testing.T, n *nodes.Node, words []string, command ...string) nodes.Result {
	t.Helper()
	result, err := n.Run(t.Context(), command...)
	var exit *nodes.ExitError
	if !errors.As(err, &exit) || result.Code != 1 {
		t.Fatalf("want exit code 1, got %d: %v\n%s", result.Code, err, result.Stdout)
	}
	explained(t, result, words)
	return result
}

func explained(t *testing.T, result nodes.Result, words []string) {
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
			t.Errorf("the user is shown a stack trace:\n%s", result.Stderr)
		}
	}
}

// squatter is a script that lets somebody else listen at a port, and ends when he does.
func squatter(port string) string {
	return "systemd-run --quiet --unit=squatter socat TCP-LISTEN:" + port + ",reuseaddr,fork PIPE; " +
		"timeout 300 sh -c \"until ss --no-header --listening --tcp --numeric 'sport = :" + port + "' | grep .; do sleep 0.05; done\""
}

const goodFile = "/etc/kubeadm.yaml"

// TestS072_InitNamesWhatIsWrong makes one machine wrong in many ways, one after the other, and asks for the same init each
// time. That it ends well when all is mended shows that each mended cause was really gone.
func TestS072_InitNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	n := add(t, newCluster(t), "cp1")
	good := nodes.InitConfig(nodes.Config{Address: n.Address()})
	write(t, n, goodFile, good)
	command := []string{ours, "init", "--config", goodFile}
	for _, f := range []failure{
		{name: "no root", command: append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, command...),
			want: []string{"root"}},
		{name: "missing kubelet", cause: "mv /usr/bin/kubelet /root/", mend: "mv /root/kubelet /usr/bin/",
			want: []string{"kubelet", "PATH"}},
		{name: "container runtime stopped", cause: "systemctl stop containerd", mend: "systemctl start containerd",
			want: []string{"container runtime", "containerd.sock", "systemctl"}},
		{name: "port in use", cause: squatter("6443"),
			mend: "systemctl stop squatter", want: []string{"6443", "socat"}},
		// Its list of images containerd makes when it starts, and keeps up to date a moment later.
		{name: "missing image", cause: "ctr -n k8s.io images tag registry.k8s.io/coredns/coredns:v1.14.6 kept; ctr -n k8s.io images rm --sync registry.k8s.io/coredns/coredns:v1.14.6; systemctl restart containerd",
			mend: "ctr -n k8s.io images tag kept registry.k8s.io/coredns/coredns:v1.14.6; ctr -n k8s.io images rm kept; systemctl restart containerd", want: []string{"registry.k8s.io/coredns/coredns:v1.14.6"}},
		{name: "unparsable configuration", config: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: [", want: []string{goodFile, "line 2"}},
		{name: "unknown field", command: append(command, "--strict"), config: strings.Replace(good, "kubernetesVersion:", "kubernetesVerison:", 1), want: []string{goodFile, "kubernetesVerison"}},
		{name: "impossible address", config: strings.Replace(good, n.Address(), "10.77.0.1234", 1), want: []string{"10.77.0.1234", "advertiseAddress"}},
		{name: "address of another machine", config: strings.Replace(good, n.Address(), "192.0.2.7", 1), want: []string{"192.0.2.7", "advertise-address"}},
		{name: "missing configuration", command: []string{ours, "init", "--config", "/no/such.yaml"}, want: []string{"/no/such.yaml"}},
		{name: "unknown flag", command: append(command, "--dry-runn"), want: []string{"--dry-runn", "--help"}},
	} {
		t.Run(f.name, func(t *testing.T) { f.fails(t, n, goodFile, command) })
	}
	run(t, n, command...)
	marked(t, n)
}

// TestS170_InitSurvivesAFullDisk gives /etc/kubernetes, and then etcd, too little room.
func TestS170_InitSurvivesAFullDisk(t *testing.T) {
	t.Parallel()
	n := add(t, newCluster(t), "cp1")
	// Else the kubelet pauses for ten seconds, twenty and so on before it starts etcd again.
	const hasty = "crashLoopBackOff:\n  maxContainerRestartPeriod: 2s"
	write(t, n, goodFile, nodes.InitConfig(nodes.Config{Address: n.Address(), Kubelet: hasty}))
	command := []string{ours, "init", "--config", goodFile}
	shell(t, n, `mount -t tmpfs -o size=64k tmpfs /etc/kubernetes
		mkdir -p -m 700 /var/lib/etcd; mount -t tmpfs -o size=1m,mode=700 tmpfs /var/lib/etcd`)
	refused(t, n, []string{"no space left on device", "/etc/kubernetes/"}, command...)
	if halves := shell(t, n, "find /etc/kubernetes -size 0 -type f -not -path '*/kubeadm-journal/*'; find /etc/kubernetes -name '.*' -type f"); halves != "" {
		t.Errorf("half-written files:\n%s", halves)
	}
	shell(t, n, "mount -o remount,size=10m /etc/kubernetes")
	result := refused(t, n, []string{"etcd"}, command...)
	t.Log(strings.Join(tail(result.Stderr, 5), "\n"))
	shell(t, n, "mount -o remount,size=500m /var/lib/etcd")
	run(t, n, command...)
	marked(t, n)
}

// TestS164_InterruptedInitGoesOn presses Ctrl-C while init waits and while it writes.
func TestS164_InterruptedInitGoesOn(t *testing.T) {
	t.Parallel()
	s := home(t)
	n := add(t, newCluster(t), "cp1")
	command := initCommand(t, n)
	for _, phase := range []string{"certs", "wait-control-plane"} {
		result, found := interrupted(t, n, unix.SIGINT, inPhase(phase), command...)
		if !found || result.Code != 1 {
			t.Fatalf("want exit code 1 after an interrupt in %s, got %d:\n%s%s", phase, result.Code, result.Stdout, result.Stderr)
		}
		explained(t, result, []string{"interrupted", "same command"})
		t.Log(strings.Join(tail(result.Stderr, 4), "\n"))
	}
	goesOn(t, s, n, filesOf(t, n))
}

// TestS167_ABadFlagOfTheAPIServerIsNamed gives the API server a flag it has not, against the advice of the preflight checks.
func TestS167_ABadFlagOfTheAPIServerIsNamed(t *testing.T) {
	t.Parallel()
	n := add(t, newCluster(t), "cp1")
	// A command that waits for so long has not understood.
	config := nodes.Config{Address: n.Address(), Init: "timeouts: {controlPlaneComponentHealthCheck: 20m}"}
	bad := config
	bad.Cluster = "apiServer:\n  extraArgs:\n  - name: no-such-flag\n    value: x"
	write(t, n, goodFile, nodes.InitConfig(bad))
	command := []string{ours, "init", "--config", goodFile}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	result, err := n.Run(ctx, command...)
	if result.Code != 1 {
		t.Fatalf("want exit code 1 from the preflight checks, got %d: %v", result.Code, err)
	}
	explained(t, result, []string{"ERROR ComponentArgs", "kube-apiserver", "no-such-flag"})
	result, err = n.Run(ctx, append(slices.Clone(command), "--ignore-preflight-errors=ComponentArgs")...)
	if result.Code != 1 {
		t.Fatalf("want exit code 1, got %d: %v", result.Code, err)
	}
	explained(t, result, []string{"kube-apiserver", "no-such-flag"})
	t.Logf("named after %s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 5), "\n"))
	write(t, n, goodFile, nodes.InitConfig(config))
	run(t, n, command...)
	marked(t, n)
}

// TestEtcdThatDoesNotExistIsNamed gives the API server an etcd that does not exist, beside the one that runs. It ends every
// twenty seconds, and in between it does not answer.
func TestEtcdThatDoesNotExistIsNamed(t *testing.T) {
	t.Parallel()
	n := add(t, newCluster(t), "cp1")
	// Else the kubelet pauses for ten seconds, twenty and so on before it starts the API server again.
	config := nodes.Config{
		Address: n.Address(), Init: "timeouts: {controlPlaneComponentHealthCheck: 20m}",
		Cluster: "apiServer:\n  extraArgs:\n  - name: etcd-servers\n    value: https://127.0.0.1:3379",
		Kubelet: "crashLoopBackOff:\n  maxContainerRestartPeriod: 2s",
	}
	write(t, n, goodFile, nodes.InitConfig(config))
	result := refused(t, n, []string{"container kube-apiserver exited", "etcd grpc connection not ready", "3 times", "127.0.0.1:3379"},
		ours, "init", "--config", goodFile)
	if result.Duration > 5*time.Minute {
		t.Errorf("it was waited for %s", result.Duration)
	}
	told := 0
	for line := range strings.Lines(result.Stdout) {
		if strings.Contains(line, "still waiting for kube-apiserver") && strings.Contains(line, "etcd grpc connection not ready") {
			told++
		}
	}
	if told == 0 {
		t.Errorf("while it waits, the cause is not told:\n%s", result.Stdout)
	}
	t.Logf("named after %s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 7), "\n"))
}

const joinFile = "/etc/join.yaml"

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

// TestS072_JoinNamesWhatIsWrong does for join what TestS072_InitNamesWhatIsWrong does for init. The node has a name in capitals,
// which the cluster writes small (S071).
func TestS072_JoinNamesWhatIsWrong(t *testing.T) {
	s := home(t)
	server, token, pin := s.command[2], flagOf(t, s.command, "--token"), flagOf(t, s.command, "--discovery-token-ca-cert-hash")
	id, secret, _ := strings.Cut(token, ".")
	wrongPin := "sha256:" + strings.Repeat("0", 64)
	n := add(t, s.Cluster, "Capital-Worker")
	t.Cleanup(func() { expel(t, s, n) })
	write(t, n, joinFile, joinConfig(server, token, pin))
	command := []string{ours, "join", "--config", joinFile}
	// Nobody is there, and five minutes later nobody will be.
	nobody := func(server string) string { return joinConfig(server, token, pin) + "timeouts: {discovery: 3s}\n" }
	for _, f := range []failure{
		{name: "unknown token", config: joinConfig(server, "zzzzzz."+secret, pin), want: []string{"zzzzzz", "token"}},
		{name: "wrong secret of the token", config: joinConfig(server, id+"."+strings.Repeat("z", 16), pin), want: []string{id}},
		{name: "wrong pin", config: joinConfig(server, token, wrongPin), want: []string{"--discovery-token-ca-cert-hash", pin}},
		{name: "malformed token", config: joinConfig(server, "nonsense", pin), want: []string{"token", joinFile}},
		{name: "unreachable API server", config: nobody("10.77.0.99:6443"), want: []string{"10.77.0.99:6443"}},
		{name: "nobody at the port", config: nobody(s.worker.Address() + ":6443"), want: []string{s.worker.Address() + ":6443"}},
		{name: "port in use", cause: "systemctl stop kubelet; " + squatter("10250"),
			mend: "systemctl stop squatter; systemctl start kubelet", want: []string{"10250", "socat"}},
		{name: "container runtime stopped", cause: "systemctl stop containerd", mend: "systemctl start containerd",
			want: []string{"container runtime", "containerd.sock"}},
	} {
		t.Run(f.name, func(t *testing.T) { f.fails(t, n, joinFile, command) })
	}
	run(t, n, command...)
	awaitMember(t, s, n)
	if again := run(t, n, append(command, "-v=1")...); strings.Contains(again, "] done: ") {
		t.Errorf("a node that has joined was joined again:\n%s", again)
	}
}
