//go:build e2e

package e2e

import (
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestReconfigureTakesBackBrokenComponents breaks one component after the other by a change that the checks let pass.
// Each time the command names the component and the cause, and the node, the addons and the stored configuration are as
// before. The change that was made before these can still be undone.
func TestReconfigureTakesBackBrokenComponents(t *testing.T) {
	inFullRun(t, "eight minutes")
	parallel(t)
	s := newUndoneCluster(t, 1)
	runReconfigure(t, s.cp, "apply", "--set-arg=kube-apiserver:event-ttl=2h")
	editCorefile(t, s.cp, "s/ready/&\\n    no-such-plugin/")
	brokenCorefile := readFile(t, s.cp, editedCorefile)
	editCorefile(t, s.cp, `s/^ *pods insecure$/&\n       endpoint https:\/\/192.0.2.99:6443/`)
	writeFile(t, s.cp, "/root/Corefile.unready", readFile(t, s.cp, editedCorefile))
	writeFile(t, s.cp, editedCorefile, brokenCorefile)
	for _, c := range []struct {
		component string
		words     []string // of the error
		change    []string
		edit      string // a script of sed
	}{
		{component: "kube-apiserver", words: []string{"kube-apiserver", "max-requests-inflight"},
			change: []string{"--set-arg=kube-apiserver:max-requests-inflight=-1"}},
		{component: "kube-apiserver with an argument that it does not have", words: []string{"kube-apiserver", "no-such-flag"},
			change: []string{"--set-arg=kube-apiserver:no-such-flag=1", "--ignore-preflight-errors=ComponentArgs"}},
		{component: "kube-controller-manager", words: []string{"kube-controller-manager", "192.0.2.99"},
			change: []string{"--set-arg=kube-controller-manager:bind-address=192.0.2.99"}},
		{component: "kube-scheduler", words: []string{"kube-scheduler", "192.0.2.99"},
			change: []string{"--set-arg=kube-scheduler:bind-address=192.0.2.99"}},
		{component: "etcd", words: []string{"etcd", "election-timeout"},
			change: []string{"--set-arg=etcd:heartbeat-interval=5000"}},
		{component: "kubelet", words: []string{"kubelet", "quantities must match"},
			edit: "s/memory.available: .*/memory.available: much/"},
		{component: "kube-proxy", words: []string{"kube-proxy", "exits with code"},
			edit: `/^  tcpEstablishedTimeout:/d; s/^conntrack:$/&\n  tcpEstablishedTimeout: -1s/`},
		{component: "CoreDNS", words: []string{"coredns", "v0.0.1"}, change: []string{"--ignore-preflight-errors=ImagePull"},
			edit: "s/^dns: .*/dns: {imageTag: v0.0.1}/"},
		{component: "CoreDNS with a plugin that it does not have", words: []string{"coredns", "no-such-plugin"},
			change: []string{"--corefile=" + editedCorefile, "--coredns-replicas=3"}},
		{component: "CoreDNS that does not become ready", words: []string{"coredns", "not ready"},
			change: []string{"--corefile=/root/Corefile.unready"}},
	} {
		t.Run(c.component, func(t *testing.T) {
			command := reconfigureCommand("apply", c.change...)
			if c.edit != "" {
				writeFile(t, s.cp, "/root/edit", "#!/bin/bash\nexec sed -i '"+c.edit+"' \"$1\"\n")
				runShell(t, s.cp, "chmod 0755 /root/edit")
				command = append([]string{"env", "EDITOR=/root/edit"}, append(command, "--edit")...)
			}
			before := s.describeConfiguration(t)
			checkTakenBack(t, s.cp, c.words, command)
			if after := s.describeConfiguration(t); after != before {
				t.Errorf("the configuration has changed from\n%s\nto\n%s", before, after)
			}
			must(t, awaitClusterReady(t.Context(), s.cp, 2))
			for _, addon := range []string{"daemonset/kube-proxy", "deployment/coredns"} {
				kubectl(t, s.cp, "--namespace=kube-system", "rollout", "status", addon, "--timeout=60s")
			}
		})
	}
	runReconfigure(t, s.cp, "undo") // of the only change that was not taken back
	if got := commandLine(t, s.cp, "kube-apiserver"); strings.Contains(got, "--event-ttl") {
		t.Errorf("after the undo, kube-apiserver runs as %s", got)
	}
}

// undoneCluster is a cluster whose changes are taken back.
type undoneCluster struct{ *haCluster }

// newUndoneCluster creates a cluster with one control plane node and workers.
func newUndoneCluster(t *testing.T, workers int) undoneCluster {
	t.Helper()
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createFirst(t.Context(), 1, workers, nodes.Config{}))
	must(t, s.joinNodes(t.Context(), s.workers...))
	must(t, awaitClusterReady(t.Context(), s.cp, 1+workers))
	return undoneCluster{s}
}

// describeConfiguration is what the cluster stores, what its first node runs with, and the templates of the addons.
func (s undoneCluster) describeConfiguration(t *testing.T) string {
	t.Helper()
	awaitAPI(t, s.cp, "")
	text := kubectl(t, s.cp, "get", "configmap", "kubeadm-config", "kubelet-config", "kube-proxy", "coredns", "--namespace=kube-system",
		"--output=jsonpath={.items[*].data}")
	text += kubectl(t, s.cp, "get", "daemonset/kube-proxy", "deployment/coredns", "--namespace=kube-system",
		"--output=jsonpath={.items[*].spec.template.spec}")
	text += kubectl(t, s.cp, "get", "deployment/coredns", "--namespace=kube-system",
		"--output=jsonpath={.spec.replicas}")
	return text + runShell(t, s.cp, "cat /etc/kubernetes/manifests/*.yaml /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env")
}

var takingBack = regexp.MustCompile(`(?m)^(\d+)\.\d+ .*(taking the change back|restoring the previous manifest)`)

// checkTakenBack runs a change that must fail, with these words in its error, and checks how long it takes to end once the
// command has begun to take the change back.
func checkTakenBack(t *testing.T, n *nodes.Node, words, command []string) {
	t.Helper()
	var quoted []string
	for _, word := range command {
		quoted = append(quoted, "'"+word+"'")
	}
	script := "set -o pipefail\n" + strings.Join(quoted, " ") + ` 2>&1 | while IFS= read -r line; do echo "$(date +%s.%N) $line"; done` +
		"\necho \"$(date +%s.%N) code ${PIPESTATUS[0]}\""
	begun := time.Now()
	result, err := n.Run(t.Context(), "bash", "-c", script)
	must(t, err)
	_, failure, _ := strings.Cut(result.Stdout, " error: ")
	for _, word := range words {
		if !strings.Contains(failure, word) {
			t.Errorf("the error does not say %q:\n%s", word, result.Stdout)
		}
	}
	lines := strings.Split(strings.TrimSpace(result.Stdout), "\n")
	last := lines[len(lines)-1]
	if !strings.HasSuffix(last, " code 1") {
		t.Errorf("it ends with %q", last)
	}
	found := takingBack.FindStringSubmatch(result.Stdout)
	if found == nil {
		t.Fatalf("nothing is taken back:\n%s", result.Stdout)
	}
	seconds := func(text string) int {
		whole, _, _ := strings.Cut(text, ".")
		number, err := strconv.Atoi(whole)
		must(t, err)
		return number
	}
	took := time.Duration(seconds(last)-seconds(found[1])) * time.Second
	limit := 15 * time.Second * max(1, time.Duration(hostLoad(t)/runtime.NumCPU()))
	t.Logf("taken back %s after the evidence, %s after the command was begun; the limit is %s", took,
		time.Since(begun).Round(time.Second), limit)
	if took > limit {
		t.Errorf("it was taken back %s after the evidence:\n%s", took, result.Stdout)
	}
}

// hostLoad is the number of processes that ran or waited for a processor during the last minute, on average.
func hostLoad(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/loadavg")
	must(t, err)
	whole, _, _ := strings.Cut(string(data), ".")
	load, err := strconv.Atoi(whole)
	must(t, err)
	return load
}

// TestReconfigureUndoAtEachStage takes a change back when only the first node has it, when one more has it, and when all
// have it. After an edit by another client an undo is refused. A Node that was registered again counts as one that may
// lack the change.
func TestReconfigureUndoAtEachStage(t *testing.T) {
	inFullRun(t, "four minutes")
	parallel(t)
	s := newUndoneCluster(t, 2)
	edit := []string{"env", `EDITOR=sed -i '/^maxPods:/d; s/^kind: KubeletConfiguration$/&\nmaxPods: 88/'`}
	apply := append(edit, reconfigureCommand("apply", "--edit", "--set-arg=kube-apiserver:event-ttl=2h")...)
	follow := func(some []*nodes.Node) {
		t.Helper()
		for _, n := range some {
			runReconfigure(t, n, "node")
		}
	}
	check := func(n *nodes.Node, isChanged bool) {
		t.Helper()
		configz := kubectl(t, s.cp, "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz")
		if strings.Contains(configz, `"maxPods":88`) != isChanged {
			t.Errorf("changed is to be %t, and the kubelet of %s runs with %s", isChanged, n.Name(), configz)
		}
	}
	before := s.describeConfiguration(t)
	for followed := range len(s.workers) + 1 {
		runCommand(t, s.cp, apply...)
		follow(s.workers[:followed])
		check(s.cp, true)
		for i, n := range s.workers {
			check(n, i < followed)
		}
		runReconfigure(t, s.cp, "undo")
		follow(s.workers)
		for _, n := range append([]*nodes.Node{s.cp}, s.workers...) {
			check(n, false)
		}
		if after := s.describeConfiguration(t); after != before {
			t.Errorf("after %d workers had followed, the undo leaves\n%s\ninstead of\n%s", followed, after, before)
		}
		if status := runReconfigure(t, s.cp, "status"); strings.Contains(status, " no\n") {
			t.Errorf("a node is not up to date:\n%s", status)
		}
	}

	runCommand(t, s.cp, apply...)
	follow(s.workers)
	again := s.workers[1]
	kubectl(t, s.cp, "delete", "node", again.Name())
	runShell(t, again, "systemctl restart kubelet")
	must(t, awaitClusterReady(t.Context(), s.cp, 3))
	if status := runReconfigure(t, s.cp, "status"); !strings.Contains(status, "registered again after the change") ||
		!strings.Contains(status, "\n  "+again.Name()+"\n") {
		t.Errorf("the status does not say that %s was registered again:\n%s", again.Name(), status)
	}
	follow([]*nodes.Node{again})
	if status := runReconfigure(t, s.cp, "status"); strings.Contains(status, "registered again") {
		t.Errorf("%s has followed:\n%s", again.Name(), status)
	}

	runShell(t, s.cp, `export KUBECONFIG=/etc/kubernetes/admin.conf
		kubectl -n kube-system get configmap kubeadm-config -o yaml | sed 's/value: 2h/value: 3h/' | kubectl replace -f -`)
	checkFails(t, s.cp, []string{"changed in another way since", "apiServer.extraArgs[event-ttl]", "kubeadm reconfigure apply"},
		reconfigureCommand("undo")...)
	if got := commandLine(t, s.cp, "kube-apiserver"); !strings.Contains(got, "--event-ttl=2h") {
		t.Errorf("kube-apiserver runs as %s", got)
	}
}
