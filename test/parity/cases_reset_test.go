package parity

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// usedFiles are files that a cluster, or an administrator, leaves on a machine.
func usedFiles() map[string]string {
	return map[string]string{
		"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n", "/var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"\"\n",
		"/var/lib/kubelet/pki/kubelet.crt": "x\n", "/var/lib/etcd/member/snap/db": "x\n",
		"/etc/kubernetes/tmp/old/file": "x\n",
		"/etc/cni/net.d/10-a.conf":     "x\n", "/etc/kubernetes/manifests/mine.yaml": "kind: Pod\n",
		"/etc/kubernetes/mine.conf":                                        "x\n",
		"/etc/kubernetes/tmp/kubeadm-backup-etcd-2026/etcd/member/snap/db": "x\n",
		"/etc/kubernetes/audit/policy.yaml":                                "kind: Policy\n", "/root/.kube/config": "x\n",
		"/srv/pki/ca.crt": "x\n", "/srv/etcd/member/snap/db": "x\n",
	}
}

// resetCases reset a machine.
func resetCases() []testCase {
	return slices.Concat(resetFlagCases(), resetFileCases(), resetStateCases())
}

// resetFlagCases reset a control plane, with flags.
func resetFlagCases() []testCase {
	var list []testCase
	content := usedFiles()
	for name, args := range map[string]string{
		"by force": "--force", "dry": "--dry-run", "dry by force": "--force --dry-run",
		"with the temporary directory": "--force --cleanup-tmp-dir", "unanswered": "",
		"of another directory":               "--force --cert-dir=/srv/pki",
		"without phases":                     "--force --skip-phases=cleanup-node",
		"without preflight":                  "--force --skip-phases=preflight",
		"with arguments":                     "--force a b",
		"of a socket":                        "--force --cri-socket=unix:///run/containerd/containerd.sock",
		"of no such socket":                  "--force --cri-socket=unix:///run/nowhere.sock",
		"of a path as socket":                "--force --cri-socket=/run/containerd/containerd.sock",
		"of a remote socket":                 "--force --cri-socket=tcp://10.0.0.1:1",
		"of a relative directory":            "--force --cert-dir=pki",
		"of no such directory":               "--force --cert-dir=/srv/nowhere",
		"dry, of another directory":          "--dry-run --cert-dir=/srv/pki",
		"dry, with the temporary directory":  "--dry-run --cleanup-tmp-dir",
		"dry, without phases":                "--dry-run --skip-phases=cleanup-node",
		"without the member":                 "--force --skip-phases=remove-etcd-member",
		"without any phase":                  "--force --skip-phases=preflight,remove-etcd-member,cleanup-node",
		"without a phase by its alias":       "--force --skip-phases=cleanupnode,pre-flight",
		"without an unknown phase":           "--force --skip-phases=nonsense",
		"with ignored checks":                "--force --ignore-preflight-errors=IsPrivilegedUser",
		"with all checks ignored":            "--force --ignore-preflight-errors=all",
		"with all checks and others ignored": "--force --ignore-preflight-errors=all,Swap",
		"without a kubeconfig":               "--force --kubeconfig=/nowhere.conf",
		"with an unknown flag":               "--force --nonsense",
		"with a flag of init":                "--force --node-name=x",
	} {
		m := machine{stage: "plane", files: content, tools: []string{"mount"}, runtime: true}
		how := ignoreOutput("reset " + args)
		if strings.Contains(args, "--dry-run") {
			how = compareOutput("reset "+args, asRemovals)
		}
		list = append(list, testCase{"reset " + name, m, []step{how}})
	}
	for name, line := range map[string]string{
		"preflight": "preflight --force", "member": "remove-etcd-member", "node": "cleanup-node",
		"node dry": "cleanup-node --dry-run", "preflight dry": "preflight --dry-run",
		"member dry": "remove-etcd-member --dry-run", "preflight unanswered": "preflight",
		"node by its alias": "cleanupnode", "preflight by its alias": "pre-flight --force",
		"node of another directory":         "cleanup-node --cert-dir=/srv/pki",
		"node with the temporary directory": "cleanup-node --cleanup-tmp-dir",
		"node of a socket":                  "cleanup-node --cri-socket=unix:///run/containerd/containerd.sock",
		"node with a file":                  "cleanup-node --config=/reset.yaml",
		"node by force":                     "cleanup-node --force",
		"member without a kubeconfig":       "remove-etcd-member --kubeconfig=/nowhere.conf",
		"nonsense":                          "nonsense", "none": "",
	} {
		m := machine{stage: "plane", files: content, runtime: true}
		list = append(list, testCase{"reset phase " + name, m,
			[]step{ignoreOutput("reset phase " + line)}})
	}
	for _, answer := range []string{"y", "Y", "yes", "YES", "n", "no", "yo", "", " y", "ja"} {
		m := machine{stage: "plane", files: content, runtime: true, input: answer + "\n"}
		list = append(list, testCase{"reset answered '" + answer + "'", m,
			[]step{
				ignoreOutput("reset"),
			}}, testCase{"reset phase preflight answered '" + answer + "'",
			m, []step{ignoreOutput("reset phase preflight")}})
	}
	return append(list, testCase{name: "reset of nothing",
		steps: []step{ignoreOutput("reset --force")}})
}

// resetFileCases reset a control plane with a configuration file.
func resetFileCases() []testCase {
	var list []testCase
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ResetConfiguration\n"
	for name, c := range map[string]struct{ file, flags string }{
		"force":                    {head + "force: true\n", ""},
		"no force":                 {head, ""},
		"everything":               {head + "force: true\ncleanupTmpDir: true\ncertificatesDir: /srv/pki\ncriSocket: unix:///run/containerd/containerd.sock\nunmountFlags: [MNT_DETACH, MNT_FORCE]\n", ""},
		"dry run":                  {head + "dryRun: true\ncleanupTmpDir: true\n", ""},
		"dry run of the flag":      {head + "force: true\n", "--dry-run"},
		"no dry run of the flag":   {head + "dryRun: true\nforce: true\n", "--dry-run=false"},
		"skipped phases":           {head + "force: true\nskipPhases: [cleanup-node]\n", ""},
		"skipped phases of both":   {head + "force: true\nskipPhases: [cleanup-node]\n", "--skip-phases=remove-etcd-member"},
		"an unknown skipped phase": {head + "force: true\nskipPhases: [nonsense]\n", ""},
		"ignored checks":           {head + "force: true\nignorePreflightErrors: [IsPrivilegedUser]\n", "--ignore-preflight-errors=Swap"},
		"ignored checks, all":      {head + "force: true\nignorePreflightErrors: [all]\n", "--ignore-preflight-errors=Swap"},
		"a path as socket":         {head + "force: true\ncriSocket: /run/containerd/containerd.sock\n", ""},
		"no such socket":           {head + "force: true\ncriSocket: unix:///run/nowhere.sock\n", ""},
		"a relative directory":     {head + "force: true\ncertificatesDir: pki\n", ""},
		"a wrong unmount flag":     {head + "force: true\nunmountFlags: [MNT_NONSENSE]\n", ""},
		"a wrong type":             {head + "force: 7\n", ""},
		"an unknown field":         {head + "force: true\nnonsense: true\n", ""},
		"timeouts":                 {head + "force: true\ntimeouts: {etcdAPICall: 1s, kubernetesAPICall: 1s}\n", ""},
		"--force beside":           {head, "--force"},
		"--cert-dir beside":        {head + "force: true\n", "--cert-dir=/srv/pki"},
		"--cri-socket beside":      {head + "force: true\n", "--cri-socket=unix:///run/containerd/containerd.sock"},
		"--cleanup-tmp-dir beside": {head + "force: true\n", "--cleanup-tmp-dir"},
		"--kubeconfig beside":      {head + "force: true\n", "--kubeconfig=/nowhere.conf"},
		"two documents":            {head + "force: true\n---\n" + head + "cleanupTmpDir: true\n", ""},
		"another document":         {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n---\n" + head + "force: true\n", ""},
		"another document alone":   {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n", ""},
		"version v1":               {"apiVersion: kubeadm.k8s.io/v1\nkind: ResetConfiguration\nforce: true\n", ""},
		"version v1beta3":          {"apiVersion: kubeadm.k8s.io/v1beta3\nkind: ResetConfiguration\nforce: true\n", ""},
		"version v1beta9":          {"apiVersion: kubeadm.k8s.io/v1beta9\nkind: ResetConfiguration\nforce: true\n", ""},
		"nothing":                  {"", ""},
		"broken YAML":              {"{", ""},
	} {
		m := machine{stage: "plane", files: usedFiles(), runtime: true}
		m.files["/reset.yaml"] = c.file
		how := ignoreOutput("reset --config=/reset.yaml " + c.flags)
		if strings.Contains(name, "dry run") {
			how.read = asRemovals
		}
		list = append(list, testCase{"reset file: " + name, m, []step{how}})
	}
	return append(list, testCase{"reset file: no such file", machine{stage: "plane"},
		[]step{ignoreOutput("reset --config=/nowhere.yaml")}})
}

// resetStateCases reset machines in other states, completely and in a dry run.
func resetStateCases() []testCase {
	var list []testCase
	add := func(name string, m machine, args string) {
		m.files = mergeFiles(usedFiles(), m.files)
		list = append(list, testCase{"reset machine: " + name, m,
			[]step{ignoreOutput("reset --force" + args)}}, testCase{"reset machine, dry: " + name,
			m, []step{compareOutput("reset --dry-run"+args, asRemovals)}})
	}
	const etcd = "/etc/kubernetes/manifests/etcd.yaml"
	etcdAt := func(dir string) map[string]string {
		return map[string]string{
			etcd: "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\nspec: {containers: [{name: etcd}], volumes: [{name: etcd-data, hostPath: {path: " + dir + "}}]}\n",
		}
	}
	worker := machine{runtime: true, files: map[string]string{"/etc/kubernetes/pki/ca.crt": "x\n",
		"/etc/kubernetes/kubelet.conf": "x\n", "/etc/kubernetes/bootstrap-kubelet.conf": "x\n"}}
	add("worker", worker, "")
	bare := worker
	bare.files = maps.Clone(worker.files)
	bare.runtime = false
	add("worker without a runtime", bare, "")
	add("control plane without a runtime", machine{stage: "plane"}, "")
	add("no manifest of etcd", machine{stage: "plane", lacks: []string{etcd}, runtime: true}, "")
	for name, content := range map[string]map[string]string{
		"etcd's data elsewhere": etcdAt("/srv/etcd"), "etcd's data nowhere": etcdAt("/srv/none"),
		"garbled manifest of etcd":        {etcd: "{"},
		"empty manifest of etcd":          {etcd: ""},
		"manifest of etcd without a data": {etcd: "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\n"},
	} {
		add(name, machine{stage: "plane", files: content, runtime: true}, "")
	}
	add("garbled admin.conf", machine{stage: "plane", runtime: true,
		files: map[string]string{"/etc/kubernetes/admin.conf": "{"}}, "")
	add("only partly initialized", machine{stage: "pki", runtime: true}, "")
	quick := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ResetConfiguration\nforce: true\ntimeouts: {etcdAPICall: 1s, kubernetesAPICall: 1s}\n"
	for name, flags := range map[string]string{"": "", " dry": " --dry-run"} {
		m := machine{stage: "older", cluster: true, runtime: true,
			files: mergeFiles(usedFiles(), map[string]string{"/reset.yaml": quick})}
		how := ignoreOutput("reset --config=/reset.yaml" + flags)
		if flags != "" {
			how.read = asRemovals
		}
		list = append(list, testCase{"reset in a cluster" + name, m, []step{how}})
	}
	return list
}

// asRemovals reads which files and directories a dry run of a reset announces to remove.
func asRemovals(r factCollector, at string, s commandResult) {
	for _, line := range removalLine.FindAllString(s.Out, -1) {
		for _, path := range removedPath.FindAllString(line, -1) {
			r.add(at+"/removes"+path, "yes")
		}
	}
}

// Removals in the output of both programs.
var (
	removalLine = regexp.MustCompile(`(?m)^\[[a-z-]+\] [Ww]ould (delete|remove) .*$`)
	removedPath = regexp.MustCompile(`/[\w./-]*\w`)
)
