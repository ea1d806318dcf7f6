package parity

// resetCases reset a control plane.
func resetCases() []testCase {
	var list []testCase
	content := map[string]string{
		"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n", "/var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"\"\n",
		"/var/lib/kubelet/pki/kubelet.crt": "x\n", "/var/lib/etcd/member/snap/db": "x\n",
		"/etc/kubernetes/tmp/old/file": "x\n",
		"/etc/cni/net.d/10-a.conf":     "x\n", "/etc/kubernetes/manifests/mine.yaml": "kind: Pod\n",
		"/etc/kubernetes/mine.conf": "x\n",
	}
	for name, args := range map[string]string{
		"by force": "--force", "dry": "--dry-run", "dry by force": "--force --dry-run",
		"with the temporary directory": "--force --cleanup-tmp-dir", "unanswered": "",
		"of another directory": "--force --cert-dir=/srv/pki",
		"without phases":       "--force --skip-phases=cleanup-node",
		"without preflight":    "--force --skip-phases=preflight",
		"with arguments":       "--force a b",
		"of a socket":          "--force --cri-socket=unix:///run/containerd/containerd.sock",
	} {
		m := machine{stage: "plane", files: content, tools: []string{"mount"}, runtime: true}
		list = append(list, testCase{"reset " + name, m, []step{ignoreOutput("reset " + args)}})
	}
	for name, line := range map[string]string{
		"preflight": "preflight --force", "member": "remove-etcd-member", "node": "cleanup-node",
		"node dry": "cleanup-node --dry-run",
	} {
		m := machine{stage: "plane", files: content, runtime: true}
		list = append(list, testCase{"reset phase " + name, m,
			[]step{ignoreOutput("reset phase " + line)}})
	}
	return append(list, testCase{name: "reset of nothing",
		steps: []step{ignoreOutput("reset --force")}})
}
