//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// reconfigureCommand is a subcommand of "kubeadm reconfigure".
func reconfigureCommand(sub string, more ...string) []string {
	command := append([]string{kubeadm, "reconfigure", sub}, more...)
	switch sub {
	case "apply", "undo":
		command = append(command, "--yes", "--ignore-preflight-errors="+nodes.IgnoredPreflight)
	case "node":
		command = append(command, "--ignore-preflight-errors="+nodes.IgnoredPreflight)
	}
	return command
}

// runReconfigure runs a subcommand and logs how long it took.
func runReconfigure(t *testing.T, n *nodes.Node, sub string, more ...string) string {
	t.Helper()
	result, err := n.Run(t.Context(), reconfigureCommand(sub, more...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, result.Stdout)
	}
	t.Logf("%s: reconfigure %s %s in %s", n.Name(), sub, strings.Join(more, " "),
		result.Duration.Round(10*time.Millisecond))
	return result.Stdout
}

// commandLine is the command line of a running component.
func commandLine(t *testing.T, n *nodes.Node, component string) string {
	t.Helper()
	return runShell(t, n, fmt.Sprintf("tr '\\0' ' ' < /proc/$(pgrep --oldest --exact %.15s)/cmdline", component))
}

// TestReconfigure changes the configuration of a cluster of one control plane node and a worker: names,
// arguments, kubelets and kube-proxy. Each change is proven where it runs, and taken back.
func TestReconfigure(t *testing.T) {
	parallel(t)
	r := newRotatedCluster(t, 1, 1)
	cp, worker := r.cp, r.worker
	before := readProcesses(t, cp)
	plan := runReconfigure(t, cp, "plan", "--add-cert-san=api.example.com")
	for _, text := range []string{"apiServer.certSANs[api.example.com]", "  apiserver\n"} {
		if !strings.Contains(plan, text) {
			t.Errorf("the plan lacks %q:\n%s", text, plan)
		}
	}
	runReconfigure(t, cp, "apply", "--add-cert-san=api.example.com")
	if got := readProcesses(t, cp); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("components were restarted for a name: %v, before %v", got, before)
	}
	cert := parseOne(t, readFile(t, cp, certsDir+"apiserver.crt"))
	if err := cert.VerifyHostname("api.example.com"); err != nil {
		t.Error(err)
	}
	must(t, checkServingCertificate(t.Context(), cp, "6443", cert))

	runReconfigure(t, cp, "apply", "--set-arg=kube-apiserver:event-ttl=2h", "--set-arg=kube-scheduler:v=3")
	for component, arg := range map[string]string{"kube-apiserver": "--event-ttl=2h", "kube-scheduler": "--v=3"} {
		if got := commandLine(t, cp, component); !strings.Contains(got, arg) {
			t.Errorf("%s runs as %s", component, got)
		}
	}
	begun := time.Now()
	checkFails(t, cp, []string{"kube-scheduler", "listen on 192.0.2.99", "run as before"},
		reconfigureCommand("apply", "--set-arg=kube-scheduler:bind-address=192.0.2.99",
			"--set-arg=kube-apiserver:event-ttl=3h")...)
	t.Logf("a change that does not work was taken back within %s", time.Since(begun).Round(time.Second))
	if got := commandLine(t, cp, "kube-apiserver"); !strings.Contains(got, "--event-ttl=2h") {
		t.Errorf("kube-apiserver runs as %s", got)
	}
	if got := kubectl(t, cp, "get", "configmap", "kubeadm-config", "--namespace=kube-system",
		"--output=jsonpath={.data}"); strings.Contains(got, "bind-address") || !strings.Contains(got, "event-ttl") {
		t.Errorf("the cluster stores %s", got)
	}

	documents := strings.SplitN(nodes.InitConfig(nodes.Config{Address: cp.Address(), Kubelet: "maxPods: 99"}),
		"---\n", 3)
	writeFile(t, cp, "/root/cluster.yaml", documents[2]+"mode: nftables\n")
	runReconfigure(t, cp, "apply", "--config=/root/cluster.yaml")
	if status := runReconfigure(t, cp, "status"); !strings.Contains(status, worker.Name()+"   worker") {
		t.Errorf("the status is %s", status)
	}
	runReconfigure(t, worker, "node")
	for _, n := range []*nodes.Node{cp, worker} {
		if got := kubectl(t, cp, "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz"); !strings.Contains(got,
			`"maxPods":99`) {
			t.Errorf("the kubelet of %s runs with %s", n.Name(), got)
		}
		if got := runShell(t, n, "nft list tables"); !strings.Contains(got, "kube-proxy") {
			t.Errorf("kube-proxy of %s uses %s", n.Name(), got)
		}
	}
	runReconfigure(t, cp, "undo")
	runReconfigure(t, worker, "node")
	for _, n := range []*nodes.Node{cp, worker} {
		if got := kubectl(t, cp, "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz"); strings.Contains(got,
			`"maxPods":99`) {
			t.Errorf("the kubelet of %s runs with %s", n.Name(), got)
		}
	}
	if plan := runReconfigure(t, cp, "plan"); !strings.Contains(plan, "Nothing is to be changed") {
		t.Errorf("something is left to be done:\n%s", plan)
	}
	r.endLoad(t)
}

// TestReconfigureHA does that on three control plane nodes and two workers, under load: no request fails.
func TestReconfigureHA(t *testing.T) {
	inFullRun(t, "ten minutes")
	parallel(t)
	r := newRotatedCluster(t, 3, 2)
	follow := func(sub string, more ...string) {
		t.Helper()
		runReconfigure(t, r.cp, sub, more...)
		for _, n := range slices.Concat(r.controlPlanes[1:], r.workers) {
			if _, err := n.Run(t.Context(), reconfigureCommand("node")...); err != nil {
				t.Fatal(err)
			}
		}
	}
	follow("apply", "--add-cert-san=api.example.com")
	follow("apply", "--set-arg=kube-apiserver:event-ttl=2h", "--set-arg=etcd:max-snapshots=4")
	for _, n := range r.controlPlanes {
		must(t, parseOne(t, readFile(t, n, certsDir+"apiserver.crt")).VerifyHostname("api.example.com"))
		if got := commandLine(t, n, "etcd"); !strings.Contains(got, "--max-snapshots=4") {
			t.Errorf("etcd of %s runs as %s", n.Name(), got)
		}
	}
	follow("undo")
	for _, n := range r.controlPlanes {
		if got := commandLine(t, n, "kube-apiserver"); strings.Contains(got, "event-ttl") {
			t.Errorf("kube-apiserver of %s runs as %s", n.Name(), got)
		}
	}
	r.endLoad(t)
}

// TestReconfigureInterruptedAtEveryChange kills the change of a configuration at each of its changes, on the
// first node and on a worker. The same command goes on each time, and the API server answers.
func TestReconfigureInterruptedAtEveryChange(t *testing.T) {
	inFullRun(t, "ten minutes")
	parallel(t)
	r := newRotatedCluster(t, 1, 1)
	r.load.stop()
	createWitness(t, r.cp)
	documents := strings.SplitN(nodes.InitConfig(nodes.Config{Address: r.cp.Address(), Kubelet: "maxPods: 99"}),
		"---\n", 3)
	writeFile(t, r.cp, "/root/cluster.yaml", documents[2]+"mode: nftables\n")
	command := reconfigureCommand("apply", "--config=/root/cluster.yaml", "--add-cert-san=api.example.com",
		"--set-arg=kube-apiserver:event-ttl=2h", "--set-arg=etcd:max-snapshots=4", "-v=1")
	for _, with := range interruptions {
		interruptAtEveryChange(t, with, r.cp, r.cp, command)
		interruptAtEveryChange(t, with, r.worker, r.cp, reconfigureCommand("node", "-v=1"))
		runReconfigure(t, r.cp, "undo")
		runReconfigure(t, r.worker, "node")
	}
	awaitWitness(t, r.cp)
}
