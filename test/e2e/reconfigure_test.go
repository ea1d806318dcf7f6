//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// commandLine is the command line of a running component. One that has just lost its lease is started again.
func commandLine(t *testing.T, n *nodes.Node, component string) string {
	t.Helper()
	return runShell(t, n, fmt.Sprintf("for i in $(seq 300); do pid=$(pgrep --oldest --exact %.15s) && break; sleep 0.2; done; tr '\\0' ' ' < /proc/$pid/cmdline",
		component))
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

	checkEvent(t, cp, cp, "ReconfiguredNode", "apiServer.extraArgs[event-ttl]")
	checkEvent(t, cp, cp, "ReconfigurationTakenBack", "kube-scheduler")
	runReconfigure(t, worker, "node")
	checkEvent(t, cp, worker, "ReconfiguredNode", "started on "+cp.Name())

	if !suite.full {
		runReconfigure(t, cp, "undo")
		checkEvent(t, cp, cp, "ReconfiguredNode", "; reverts ")
		if got := commandLine(t, cp, "kube-apiserver"); strings.Contains(got, "--event-ttl") {
			t.Errorf("after the undo, kube-apiserver runs as %s", got)
		}
		r.endLoad(t)
		return // the other kinds of changes take minutes: make e2e-full
	}
	checkFeatureGate(t, cp, worker)
	checkAuditPolicy(t, cp)

	documents := strings.SplitN(nodes.InitConfig(nodes.Config{Address: cp.Address(), Kubelet: "maxPods: 50"}),
		"---\n", 3)
	writeFile(t, cp, "/root/cluster.yaml", documents[2]+"mode: nftables\n")
	runReconfigure(t, cp, "apply", "--config=/root/cluster.yaml")
	edit := []string{"env", "EDITOR=sed -i 's/^maxPods: .*/maxPods: 99/'"}
	if result, err := cp.Run(t.Context(), append(edit, reconfigureCommand("plan", "--edit")...)...); err != nil ||
		!strings.Contains(result.Stdout, "KubeletConfiguration maxPods: 50 -> 99") {
		t.Errorf("%v\n%s", err, result.Stdout)
	}
	runCommand(t, cp, append(edit, reconfigureCommand("apply", "--edit")...)...)
	if status := runReconfigure(t, cp, "status"); !strings.Contains(status, worker.Name()+"   worker") {
		t.Errorf("the status is %s", status)
	}
	runReconfigure(t, worker, "node")
	checkEvent(t, cp, worker, "ReconfiguredNode", "KubeletConfiguration maxPods")
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
	checkKubeletArgs(t, cp, worker)
	checkHardened(t, cp, worker)
	checkBrokenKubelet(t, cp)
}

// checkEvent looks for an Event of a Node, and for it in what kubectl shows of the Node.
func checkEvent(t *testing.T, cp, n *nodes.Node, reason, words string) {
	t.Helper()
	got := kubectl(t, cp, "get", "events", "--namespace=default", "--output=jsonpath={.items[*].message}",
		"--field-selector=involvedObject.kind=Node,involvedObject.name="+n.Name()+",reason="+reason)
	if !strings.Contains(got, words) {
		t.Errorf("no Event of %s with the reason %s says %q, but: %s", n.Name(), reason, words, got)
	}
	if got := kubectl(t, cp, "describe", "node", n.Name()); !strings.Contains(got, reason) {
		t.Errorf("kubectl describe node %s lacks %s:\n%s", n.Name(), reason, got)
	}
}

// checkKubeletArgs sets arguments of a worker's kubelet. Those with which it does not run are taken back.
func checkKubeletArgs(t *testing.T, cp, worker *nodes.Node) {
	t.Helper()
	runReconfigure(t, worker, "node", "--kubelet-arg=max-pods=77", "--kubelet-arg=node-labels=disk=ssd")
	checkFails(t, worker, []string{"run as before"},
		reconfigureCommand("node", "--kubelet-arg=max-pods=66", "--kubelet-arg=address=192.0.2.99")...)
	configz := kubectl(t, cp, "get", "--raw", "/api/v1/nodes/"+worker.Name()+"/proxy/configz")
	if !strings.Contains(configz, `"maxPods":77`) {
		t.Errorf("the kubelet of %s runs with %s", worker.Name(), configz)
	}
	if got := kubectl(t, cp, "get", "nodes", "--selector=disk=ssd", "--output=name"); got != "node/"+worker.Name() {
		t.Errorf("the label is that of %s", got)
	}
	const dropIns = "/etc/kubernetes/kubelet.conf.d"
	runShell(t, worker, "mkdir -p "+dropIns)
	writeFile(t, worker, dropIns+"/50-pids.conf",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\npodPidsLimit: 555\n")
	runReconfigure(t, worker, "node", "--kubelet-arg=config-dir="+dropIns)
	runReconfigure(t, worker, "node", "--kubelet-arg=max-pods-", "--kubelet-arg=node-labels-")
	if got := kubectl(t, cp, "get", "--raw", "/api/v1/nodes/"+worker.Name()+"/proxy/configz"); !strings.Contains(got,
		`"podPidsLimit":555`) {
		t.Errorf("without its drop-in directory the kubelet of %s runs with %s", worker.Name(), got)
	}
	if got := readFile(t, worker, "/var/lib/kubelet/kubeadm-flags.env"); strings.Contains(got, "max-pods") {
		t.Errorf("the kubelet runs with %s", got)
	}
}

// checkFeatureGate turns a feature gate on and removes it again, on all components that have it: the API server loses it
// once the kubelet of the worker has lost it.
func checkFeatureGate(t *testing.T, cp, worker *nodes.Node) {
	t.Helper()
	const gate = "CSIVolumeHealth"
	check := func(isServerOn, isOn bool) {
		t.Helper()
		for component, want := range map[string]bool{"kube-apiserver": isServerOn, "kube-controller-manager": isOn,
			"kube-scheduler": isOn} {
			if got := commandLine(t, cp, component); strings.Contains(got, gate+"=true") != want {
				t.Errorf("%s runs as %s", component, got)
			}
		}
		for _, n := range []*nodes.Node{cp, worker} {
			configz := kubectl(t, cp, "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz")
			if strings.Contains(configz, `"`+gate+`":true`) != isOn {
				t.Errorf("the kubelet of %s runs with %s", n.Name(), configz)
			}
		}
	}
	remove := "--feature-gate=" + gate + "-"
	runReconfigure(t, cp, "apply", "--feature-gate="+gate+"=true")
	runReconfigure(t, worker, "node")
	check(true, true)
	runReconfigure(t, cp, "apply", remove)
	checkFails(t, cp, []string{worker.Name(), "kubeadm reconfigure node"}, reconfigureCommand("apply", remove)...)
	runReconfigure(t, worker, "node")
	check(true, false)
	runReconfigure(t, cp, "apply", remove)
	check(false, false)
	runReconfigure(t, cp, "apply", "--feature-gate="+gate+"=true")
	runReconfigure(t, worker, "node")
	for range 2 { // both parts
		runReconfigure(t, cp, "undo")
		runReconfigure(t, worker, "node")
	}
	check(false, false)
}

// checkAuditPolicy lets the API server write an audit log by a policy in a file. Before the file exists, the
// change is refused.
func checkAuditPolicy(t *testing.T, cp *nodes.Node) {
	t.Helper()
	const dir = "/etc/kubernetes/audit"
	writeFile(t, cp, "/root/audit.yaml", `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  certSANs: [api.example.com]
  extraArgs:
  - {name: event-ttl, value: 2h}
  - {name: audit-policy-file, value: `+dir+`/policy.yaml}
  - {name: audit-log-path, value: /var/log/audit/audit.log}
  extraVolumes:
  - {name: policy, hostPath: `+dir+`, mountPath: `+dir+`, readOnly: true, pathType: Directory}
  - {name: log, hostPath: /var/log/audit, mountPath: /var/log/audit, pathType: DirectoryOrCreate}
`)
	apply := reconfigureCommand("apply", "--config=/root/audit.yaml")
	checkFails(t, cp, []string{dir, "does not exist"}, apply...)
	runShell(t, cp, "mkdir -p "+dir)
	writeFile(t, cp, dir+"/policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
	sum := strings.Fields(runShell(t, cp, "sha256sum "+dir+"/policy.yaml"))[0]
	if plan := runReconfigure(t, cp, "plan", "--config=/root/audit.yaml"); !strings.Contains(plan, sum+"  "+dir+"/policy.yaml") {
		t.Errorf("the plan lacks %s:\n%s", sum, plan)
	}
	runCommand(t, cp, apply...)
	if got := runShell(t, cp, "head -n 1 /var/log/audit/audit.log"); !strings.Contains(got, "audit.k8s.io/v1") {
		t.Errorf("the audit log has %q", got)
	}
}

// checkBrokenKubelet kills a change whose kubelet does not start, cuts the power, and undoes the change: no
// API server runs until the kubelet has its file from before.
func checkBrokenKubelet(t *testing.T, cp *nodes.Node) {
	t.Helper()
	command := append([]string{"env", "EDITOR=sed -i 's/memory.available: .*/memory.available: much/'"},
		reconfigureCommand("apply", "--edit", "-v=1")...)
	_, killed := runInterrupted(t, cp, unix.SIGKILL, func(line string) bool {
		change, _ := doneChange(line)
		return strings.Contains(change, `"/var/lib/kubelet/config.yaml"`)
	}, command...)
	if !killed {
		t.Fatal("the command was not killed")
	}
	must(t, cp.Kill(t.Context()))
	must(t, cp.Boot(t.Context()))
	begun := time.Now()
	runReconfigure(t, cp, "undo")
	t.Logf("undone %s after the boot", time.Since(begun).Round(time.Second))
	if got := readFile(t, cp, "/var/lib/kubelet/config.yaml"); strings.Contains(got, "much") {
		t.Errorf("the kubelet is configured by %s", got)
	}
	must(t, cp.AwaitReady(t.Context(), 2))
}

// TestReconfigureUpstreamCluster changes a cluster that upstream's kubeadm made. Upstream's then joins a
// worker, and upgrades: the change stays. A ConfigMap that was edited by hand is understood.
func TestReconfigureUpstreamCluster(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	program := olderUpstreamKubeadm(t)
	s := newOlderHAClusterOf(t, program, 1, 1)
	t.Logf("an unchanged cluster of the older release:\n%s", runReconfigure(t, s.cp, "plan", "--diff"))
	edit := []string{"env", "EDITOR=sed -i '/^kind: KubeletConfiguration/amaxPods: 99'"}
	runCommand(t, s.cp, append(edit, reconfigureCommand("apply", "--edit", "--add-cert-san=api.example.com",
		"--set-arg=kube-apiserver:event-ttl=2h")...)...)
	runReconfigure(t, s.worker, "node")
	guest := addNode(t, s.Cluster, "guest")
	useOlder(t, guest)
	runCommand(t, guest, workerJoinCommand(program, &s.testCluster)...)
	must(t, awaitClusterReady(t.Context(), s.cp, 3))
	runCommand(t, s.cp, append([]string{upstreamKubeadm}, upgradeCommand(upgradeTarget)[1:]...)...)
	for _, n := range []*nodes.Node{s.worker, guest} {
		runCommand(t, n, append([]string{upstreamKubeadm}, upgradeNodeCommand()[1:]...)...)
	}
	for _, n := range []*nodes.Node{s.cp, s.worker, guest} {
		if got := readFile(t, n, "/var/lib/kubelet/config.yaml"); !strings.Contains(got, "maxPods: 99") {
			t.Errorf("the kubelet of %s is configured by %s", n.Name(), got)
		}
	}
	if got := commandLine(t, s.cp, "kube-apiserver"); !strings.Contains(got, "--event-ttl=2h") {
		t.Errorf("kube-apiserver runs as %s", got)
	}
	must(t, parseOne(t, readFile(t, s.cp, certsDir+"apiserver.crt")).VerifyHostname("api.example.com"))
	runShell(t, s.cp, `export KUBECONFIG=/etc/kubernetes/admin.conf
		kubectl -n kube-system get configmap kubeadm-config -o yaml | sed s/api.example.com/edited.example.com/ | kubectl replace -f -`)
	if plan := runReconfigure(t, s.cp, "plan"); !strings.Contains(plan, "Different on this node:\n  "+certsDir+"apiserver.crt\n") {
		t.Errorf("the plan after an edit by hand is:\n%s", plan)
	}
	runReconfigure(t, s.cp, "apply")
	must(t, parseOne(t, readFile(t, s.cp, certsDir+"apiserver.crt")).VerifyHostname("edited.example.com"))
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
	const gate = "CSIVolumeHealth"
	for _, isOn := range []bool{true, false} {
		change := fmt.Sprintf("--feature-gate=%s=%t", gate, isOn)
		runReconfigure(t, r.cp, "apply", change)
		checkFails(t, r.cp, []string{r.controlPlanes[1].Name(), "kubeadm reconfigure node"}, reconfigureCommand("apply", change)...)
		for _, n := range slices.Concat(r.controlPlanes[1:], r.workers) {
			runReconfigure(t, n, "node")
		}
		follow("apply", change)
		for _, n := range slices.Concat(r.controlPlanes, r.workers) {
			configz := kubectl(t, r.cp, "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz")
			if !strings.Contains(configz, fmt.Sprintf(`"%s":%t`, gate, isOn)) {
				t.Errorf("the kubelet of %s runs with %s", n.Name(), configz)
			}
		}
		for _, n := range r.controlPlanes {
			if got := commandLine(t, n, "kube-apiserver"); !strings.Contains(got, fmt.Sprintf("%s=%t", gate, isOn)) {
				t.Errorf("kube-apiserver of %s runs as %s", n.Name(), got)
			}
		}
	}
	changeEverything(t, r)
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
	editCorefile(t, r.cp, "s/ttl 30/ttl 17/")
	command := reconfigureCommand("apply", "--config=/root/cluster.yaml", "--add-cert-san=api.example.com",
		"--set-arg=kube-apiserver:event-ttl=2h", "--set-arg=etcd:max-snapshots=4", "--corefile="+editedCorefile,
		"--coredns-replicas=3", "-v=1")
	for _, with := range interruptions {
		interruptAtEveryChange(t, with, r.cp, r.cp, command)
		interruptAtEveryChange(t, with, r.worker, r.cp, reconfigureCommand("node", "-v=1"))
		runReconfigure(t, r.cp, "undo")
		runReconfigure(t, r.worker, "node")
	}
	awaitWitness(t, r.cp)
}
