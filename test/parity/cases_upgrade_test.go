package parity

import (
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// upgradeCases upgrade a node of a cluster of the previous release, as far as that needs no kubelet
// that starts Pods: dry runs, single phases, and workers.
func upgradeCases() []testCase {
	return slices.Concat(upgradePlanCases(), upgradeDryRunCases(), upgradePhaseCases(),
		upgradeWorkerCases(), upgradeDiffCases(), upgradeFaultCases())
}

// newOlderNode is the control plane node of a healthy cluster of the previous release.
func newOlderNode() machine {
	return machine{stage: "older", cluster: true, runtime: true, tools: allTools,
		env:   []string{kubeletVersion + "=" + olderRelease},
		files: map[string]string{"/upgrade.yaml": impatientUpgrade().text()}}
}

// impatientUpgrade is a configuration for both commands that waits for no API server.
func impatientUpgrade() documents {
	return documents{"UpgradeConfiguration": {
		"apply":    map[string]any{"kubernetesVersion": "v1.37.1", "dryRun": true, "printConfig": true},
		"plan":     map[string]any{"kubernetesVersion": "v1.36.9", "etcdUpgrade": false},
		"diff":     map[string]any{"kubernetesVersion": "v1.37.1"},
		"timeouts": map[string]any{"kubernetesAPICall": "1s"},
	}}
}

// ignoreSystem ignores the checks of what no case has: a kernel of its own, and an etcd that runs.
const ignoreSystem = " --ignore-preflight-errors=SystemVerification,EtcdQuorum"

// upgradePlanCases print plans of a cluster.
func upgradePlanCases() []testCase {
	var list []testCase
	m := newOlderNode()
	add := func(line string, how outputReader) {
		list = append(list, testCase{"upgrade: plan " + strings.ReplaceAll(line, "/", ":"), m,
			[]step{compareOutput("upgrade plan "+line, how)}})
	}
	for _, version := range []string{"v1.37.1", "v1.36.9", "1.36.9", "v1.36.3", "v1.36.0",
		"v1.38.0", "v1.37.0-rc.1", "", "nonsense", "stable", "v1.36", "v1.36.9 v1.37.1"} {
		add(strings.TrimSpace(version+" -o json"), asObjects)
	}
	for _, line := range []string{"v1.37.1 -o yaml", "v1.36.9 -o kyaml",
		"v1.36.9 -o yaml --etcd-upgrade=false", "-o yaml --config=/upgrade.yaml",
		"v1.37.1 -o json --config=/upgrade.yaml", "v1.36.9 -o json --print-config"} {
		add(line, asObjects)
	}
	for _, line := range []string{"v1.36.9 -o go-template={{.kind}}", "v1.36.9 -o xml",
		"v1.36.9 -o jsonpath={.availableUpgrades[*].components[*].newVersion}",
		"v1.36.9 --etcd-upgrade=false --config=/upgrade.yaml"} {
		add(line, asLines)
	}
	add("v1.36.9 --print-config", asPrintedConfig)
	m.objects = upgradedNode()
	list = append(list, testCase{"upgrade: plan of two versions", m,
		[]step{compareOutput("upgrade plan v1.37.1 -o json", asObjects)}})
	for name, o := range map[string]string{
		"a node that is not ready": strings.Replace(readyNode("cp2", olderRelease), "'True'",
			"'False'", 1),
		"a kubelet of a newer version": readyNode("cp2", "v1.37.1"),
	} {
		m.objects = []string{o}
		list = append(list, testCase{"upgrade: plan with " + name, m, []step{
			compareOutput("upgrade plan v1.36.9 -o json", asObjects),
			ignoreOutput("upgrade apply v1.37.1 --dry-run" + ignoreSystem)}})
	}
	return list
}

// upgradedNode returns the objects of another control plane node, which has been upgraded.
func upgradedNode() []string {
	return []string{readyNode("cp2", olderRelease),
		"{apiVersion: v1, kind: Pod, metadata: {name: kube-apiserver-cp2, namespace: kube-system," +
			" labels: {component: kube-apiserver, tier: control-plane}}, spec: {nodeName: cp2, " +
			"containers: [{name: kube-apiserver, image: 'registry.k8s.io/kube-apiserver:v1.37.1'}]}, " +
			"status: {phase: Running}}"}
}

// configBlock matches the first indented lines of an output.
var configBlock = regexp.MustCompile(`(?m)(?:^\t.*\n)+`)

// asPrintedConfig reads the configuration that --print-config prints between texts for people.
func asPrintedConfig(r factCollector, at string, s commandResult) {
	block := configBlock.FindString(s.Out)
	r.documents(at+"/config", strings.ReplaceAll("\n"+block, "\n\t", "\n"))
}

// upgradeDryRunCases are dry runs of whole upgrades.
func upgradeDryRunCases() []testCase {
	var list []testCase
	add := func(line string, m machine, steps ...step) {
		list = append(list, testCase{"upgrade: dry run of " + strings.ReplaceAll(line, "/", ":"), m,
			steps})
	}
	for line, how := range map[string]outputReader{
		"apply v1.37.1":                         asUpgradeDryRun,
		"apply v1.37.1 --print-config":          asPrintedConfig,
		"apply 1.37.1 --print-config --force":   asPrintedConfig,
		"apply v1.36.9 --print-config --force":  asPrintedConfig,
		"apply --config=/upgrade.yaml":          asPrintedConfig,
		"apply v1.37.0 --config=/upgrade.yaml":  asPrintedConfig,
		"apply v1.37.1 --skip-phases=addon":     asUpgradeDryRun,
		"apply v1.37.1 --etcd-upgrade=false":    asUpgradeDryRun,
		"apply v1.37.1 --patches=/patches":      asUpgradeDryRun,
		"apply phase control-plane v1.37.1":     asUpgradeDryRun,
		"apply phase kubelet-config v1.37.1":    asUpgradeDryRun,
		"apply v1.37.1 --skip-phases=preflight": asUpgradeDryRun,
	} {
		m := newOlderNode()
		m.objects = []string{changedKubelet()}
		m.files["/patches/kube-scheduler+merge.yaml"] = "metadata: {labels: {patched: \"yes\"}}\n"
		flags := " --dry-run"
		if !strings.Contains(line, "phase ") {
			flags += ignoreSystem
		}
		add(line, m, compareOutput("upgrade "+line+flags, how))
	}
	further := newOlderNode()
	further.objects = append(upgradedNode(), changedKubelet(),
		configMap("kubeadm-config", "ClusterConfiguration", olderCluster("v1.37.1")))
	add("node", further, compareOutput("upgrade node --dry-run"+ignoreSystem, asUpgradeDryRun))
	add("node with a file", further, compareOutput(
		"upgrade node --dry-run --config=/upgrade.yaml"+ignoreSystem, asUpgradeDryRun))
	return list
}

// olderCluster is the configuration of the cluster of the stage "older", of a version.
func olderCluster(version string) string {
	return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: " +
		version + "\nencryptionAlgorithm: ECDSA-P256\nclusterName: kubernetes\n" +
		"networking:\n  dnsDomain: cluster.local\n  serviceSubnet: 10.96.0.0/12\n"
}

// asUpgradeDryRun reads the manifests and the configuration of the kubelet that a dry run would
// write. Upstream prints the first one on a line that has another text before it.
func asUpgradeDryRun(r factCollector, at string, s commandResult) {
	text := strings.ReplaceAll(s.Out, `"[dryrun] Would write`, "\"\n[dryrun] Would write")
	for _, p := range splitParagraphs(text) {
		if m := announcement.FindStringSubmatch(p.head); m != nil &&
			(strings.HasPrefix(m[8], "/etc/kubernetes/manifests/") ||
				strings.HasPrefix(m[8], "/var/lib/kubelet/")) {
			r.announced(at, m[8], p.body)
		}
	}
}

// upgradePhaseCases run the phases that need no kubelet, one after the other.
func upgradePhaseCases() []testCase {
	var list []testCase
	changedDNS := configMap("coredns", "Corefile", ".:53 {\n    errors\n    log\n}\n")
	otherCluster := configMap("kubeadm-config", "ClusterConfiguration",
		strings.ReplaceAll(olderCluster(olderRelease), "clusterName: kubernetes",
			"clusterName: other\nimageRepository: example.org/k8s\ndns:\n  disabled: true"))
	for name, objects := range map[string][]string{
		"unchanged": nil, "kubelet": {changedKubelet()}, "Corefile": {changedDNS},
		"other cluster": {otherCluster},
	} {
		m := newOlderNode()
		m.objects = objects
		steps := []step{ignoreOutput("upgrade apply phase preflight v1.37.1 --yes" + ignoreSystem)}
		for _, phase := range []string{"upload-config all", "kubelet-config", "bootstrap-token",
			"addon all", "post-upgrade"} {
			steps = append(steps, ignoreOutput("upgrade apply phase "+phase+" v1.37.1"))
		}
		list = append(list, testCase{"upgrade: phases of apply, " + name, m, steps})
		list = append(list, testCase{"upgrade: phases of node, " + name, m, []step{
			ignoreOutput("upgrade apply phase upload-config kubeadm v1.37.1"),
			ignoreOutput("upgrade node phase kubelet-config"),
			ignoreOutput("upgrade node phase addon coredns"),
			ignoreOutput("upgrade node phase addon kube-proxy"),
			ignoreOutput("upgrade node phase post-upgrade")}})
	}
	return list
}

// changedKubelet is the configuration of the kubelets with a field that the nodes do not have.
func changedKubelet() string {
	return configMap("kubelet-config", "kubelet",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 77\n")
}

// configMap returns a ConfigMap of kube-system with one key.
func configMap(name, key, content string) string {
	data, err := yaml.Marshal(object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": object{"name": name, "namespace": "kube-system"},
		"data":     object{key: content}})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// newOlderWorker is a worker of that cluster.
func newOlderWorker() machine {
	m := newOlderNode()
	m.lacks = []string{"/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf",
		"/etc/kubernetes/controller-manager.conf", "/etc/kubernetes/scheduler.conf"}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager",
		"kube-scheduler"} {
		m.lacks = append(m.lacks, "/etc/kubernetes/manifests/"+name+".yaml")
	}
	return m
}

// upgradeWorkerCases run on a worker.
func upgradeWorkerCases() []testCase {
	var list []testCase
	for _, line := range []string{"node", "node --dry-run", "node --config=/upgrade.yaml",
		"node --kubeconfig=/nowhere.conf", "node --skip-phases=preflight,kubelet-config",
		"apply --config=/upgrade.yaml", "plan v1.36.9",
		"plan v1.36.9 --kubeconfig=/etc/kubernetes/kubelet.conf", "diff v1.37.1"} {
		flags := ignoreSystem
		if strings.HasPrefix(line, "diff") {
			flags = ""
		}
		list = append(list, testCase{"upgrade: worker, " + strings.ReplaceAll(line, "/", ":"),
			newOlderWorker(), []step{ignoreOutput("upgrade " + line + flags)}})
	}
	for _, phase := range []string{"preflight" + ignoreSystem, "control-plane", "kubelet-config",
		"addon all", "post-upgrade"} {
		name, _, _ := strings.Cut(phase, " -")
		list = append(list, testCase{"upgrade: worker, phase " + name, newOlderWorker(),
			[]step{ignoreOutput("upgrade node phase " + phase)}})
	}
	return list
}

// upgradeDiffCases print diffs: whether there is one is compared, and which manifests differ.
func upgradeDiffCases() []testCase {
	var list []testCase
	for _, line := range []string{"", "v1.36.3", "1.36.3", "v1.36.3 --context-lines=0",
		"v1.37.1", "--config=/upgrade.yaml", "v1.36.3 --config=/upgrade.yaml"} {
		list = append(list, testCase{"upgrade: diff " + strings.ReplaceAll(line, "/", ":"),
			newOlderNode(), []step{compareOutput("upgrade diff "+line, asDiff)}})
	}
	return list
}

// diffHead matches the name of a manifest that differs.
var diffHead = regexp.MustCompile(`(?m)^--- (/etc/kubernetes/manifests/\S+)`)

// asDiff reads which manifests differ, and whether anything does. Upstream prints lines that begin
// with the name of the command before it.
func asDiff(r factCollector, at string, s commandResult) {
	r.add(at+"/out", "unchanged")
	for line := range strings.Lines(s.Out) {
		if !strings.HasPrefix(line, "[upgrade/diff]") {
			r.add(at+"/out", "changed")
		}
	}
	for _, m := range diffHead.FindAllStringSubmatch(s.Out, -1) {
		r.add(at+"/out"+m[1], "changed")
	}
}

// upgradeFaultCases are bad input: versions, flags, files, and machines.
func upgradeFaultCases() []testCase {
	var list []testCase
	add := func(name string, m machine, lines ...string) {
		var steps []step
		for _, line := range lines {
			steps = append(steps, ignoreOutput("upgrade "+line))
		}
		list = append(list, testCase{"upgrade: " + name, m, steps})
	}
	bare := machine{runtime: true, tools: allTools,
		files: map[string]string{"/upgrade.yaml": impatientUpgrade().text()}}
	for _, line := range []string{"", "nonsense", "apply", "apply phase", "apply phase nonsense",
		"apply phase addon", "apply phase upload-config", "apply phase kubeconfig", "node phase",
		"node phase nonsense", "node phase addon", "node phase upload-config all", "node v1.37.1",
		"node phase kubelet-config v1.37.1", "apply --nonsense", "plan --dry-run", "node --force",
		"diff --patches=/p", "apply v1.37.1 --yes=maybe", "diff --context-lines=many",
		"plan --output", "node --certificate-renewal=perhaps"} {
		add("usage of "+strings.ReplaceAll(line, "/", ":"), bare, line)
	}
	for _, line := range []string{"apply --config=/upgrade.yaml", "plan v1.36.9", "node", "diff",
		"diff v1.37.1", "node --dry-run", "apply v1.37.1 --kubeconfig=/nowhere.conf"} {
		add("no cluster, "+strings.ReplaceAll(line, "/", ":"), bare, line)
	}
	older := newOlderNode()
	for _, version := range []string{"nonsense", "v1.37", "v1.37.x", "v1.30.0", "v1.35.9",
		"v1.36.0", "v1.36.3", "v1.36.9", "v1.37.0", "v1.37.2", "v1.37.0-rc.1", "v1.37.0-alpha.1",
		"v1.38.0", "v1.38.0-alpha.1", "v1.39.0", "v2.0.0", "stable", "stable-1.37", "latest-1",
		"ci/v1.37.1", "release/v1.37.1", "v1.37.1+build.5", "v1.37.1 v1.37.0"} {
		dry := "apply " + version + " --dry-run" + ignoreSystem
		lines := []string{dry, dry + " --force"}
		if strings.Contains(version, "-") {
			lines = append(lines, dry+" --allow-experimental-upgrades",
				dry+" --allow-release-candidate-upgrades")
		}
		add("version "+strings.ReplaceAll(version, "/", ":"), older, lines...)
	}
	return append(list, upgradeFlagCases(older)...)
}

// upgradeFlagCases are bad flags, configurations and kubeconfigs of a cluster that can be upgraded.
func upgradeFlagCases(older machine) []testCase {
	var list []testCase
	for _, line := range []string{
		"apply v1.37.1 --dry-run --skip-phases=nonsense",
		"apply v1.37.1 --dry-run --skip-phases=uploadconfig,all",
		"apply v1.37.1 --dry-run --skip-phases=kubeconfig,addon/all,preflight",
		"node --dry-run --skip-phases=bootstrap-token", "node --skip-phases=nonsense",
		"apply v1.37.1 --dry-run --config=/upgrade.yaml --force",
		"apply v1.37.1 --config=/upgrade.yaml --yes --dry-run --v=2" + ignoreSystem,
		"apply --config=/upgrade.yaml --print-config", "apply --config=/upgrade.yaml --patches=/p",
		"apply --config=/upgrade.yaml --etcd-upgrade=true",
		"apply --config=/upgrade.yaml --certificate-renewal=true",
		"apply --config=/upgrade.yaml --allow-experimental-upgrades",
		"plan --config=/upgrade.yaml --print-config", "diff --config=/upgrade.yaml -c 3",
		"plan --config=/upgrade.yaml --allow-release-candidate-upgrades",
		"node --config=/upgrade.yaml --patches=/p --dry-run",
		"apply phase addon coredns --config=/upgrade.yaml --dry-run --patches=/etc/kubernetes",
		"apply phase upload-config kubeadm --config=/upgrade.yaml",
		"apply v1.37.1 --config=/nowhere.yaml", "plan --config=/nowhere.yaml",
		"apply v1.37.1 --config=/base.yaml", "diff --config=/base.yaml",
		"apply v1.37.1 --config=/broken.yaml", "node --config=/broken.yaml",
		"apply v1.37.1 --config=/relative.yaml", "node --config=/relative.yaml",
		"apply v1.37.1 --config=/policy.yaml", "apply v1.37.1 --config=/old.yaml",
		"apply --config=/empty.yaml", "apply v1.37.1 --dry-run --config=/loose.yaml" + ignoreSystem,
		"apply v1.37.1 --dry-run --config=/label.yaml" + ignoreSystem,
		"apply v1.37.1 --dry-run --patches=/nowhere" + ignoreSystem,
		"apply v1.37.1 --dry-run --patches=/upgrade.yaml" + ignoreSystem,
		"apply v1.37.1 --dry-run --ignore-preflight-errors=all,Swap",
		"apply v1.37.1 --dry-run --ignore-preflight-errors=all",
		"apply v1.37.1 --yes=false" + ignoreSystem, // no answer is given
		"plan v1.36.9 --kubeconfig=/nowhere.conf", "plan v1.36.9 --kubeconfig=/broken.yaml",
		"diff --kubeconfig=/nowhere.conf", "diff --kubeconfig=/broken.yaml",
		"apply v1.37.1 --yes --kubeconfig=/nowhere.conf", "node --kubeconfig=/nowhere.conf",
		"apply v1.37.1 --yes --kubeconfig=/broken.yaml", "node --kubeconfig=/broken.yaml",
		"apply v1.37.1 --dry-run --kubeconfig=/broken.yaml",
		"diff nonsense", "diff v1.37.1 v1.36.3", "diff stable", "diff v1.30.0", "diff v1.38.0",
		"plan v1.36.9 -o go-template={{.x", "plan v1.36.9 -o",
	} {
		m := older
		m.files = mergeFiles(badUpgradeFiles(), m.files)
		list = append(list, testCase{"upgrade: flags: " + strings.ReplaceAll(line, "/", ":"), m,
			[]step{ignoreOutput("upgrade " + line)}})
	}
	for _, name := range []string{"kube-apiserver", "kube-scheduler", "etcd"} {
		m := older
		m.lacks = []string{"/etc/kubernetes/manifests/" + name + ".yaml"}
		for _, line := range []string{"plan v1.36.9", "apply --config=/upgrade.yaml" + ignoreSystem,
			"diff"} {
			list = append(list, testCase{"upgrade: no manifest of " + name + ", " +
				strings.Fields(line)[0], m, []step{ignoreOutput("upgrade " + line)}})
		}
	}
	return list
}

// badUpgradeFiles are configurations with one fault each.
func badUpgradeFiles() map[string]string {
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\n"
	return map[string]string{
		"/broken.yaml":   "{\n",
		"/empty.yaml":    head,
		"/relative.yaml": head + "apply: {patches: {directory: p}}\nnode: {patches: {directory: p}}\n",
		"/policy.yaml":   head + "apply: {imagePullPolicy: Sometimes}\n",
		"/old.yaml":      strings.ReplaceAll(head, "v1beta4", "v1beta3"),
		"/loose.yaml":    head + "apply: {unknown: 1}\n",
		"/label.yaml":    head + "apply: {kubernetesVersion: nonsense}\n",
	}
}
