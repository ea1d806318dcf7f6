package parity

import "fmt"

// basis is what all control planes of the cases share: nothing is looked up, keys are quick to make and tokens known.
func basis() documents {
	return documents{
		"InitConfiguration":    {"bootstrapTokens": []any{map[string]any{"token": "abcdef.0123456789abcdef"}}},
		"ClusterConfiguration": {"kubernetesVersion": "v1.37.1", "encryptionAlgorithm": "ECDSA-P256"},
	}
}

// onto lays documents over others.
func (d documents) onto(under documents) documents {
	for kind, content := range d {
		under[kind] = overlay(under[kind], content)
	}
	return under
}

// initCases combine the fields of a control plane pairwise.
func initCases() []testCase {
	all := factors("init.yaml")
	var sizes []int
	for _, f := range all {
		sizes = append(sizes, len(f.levels))
	}
	var list []testCase
	for i, row := range pairwise(sizes) {
		file := combined(all, row).onto(basis()).text()
		m := machine{files: withFiles("/kubeadm.yaml", file)}
		add := func(what string, steps ...step) {
			list = append(list, testCase{fmt.Sprintf("config %02d %s", i+1, what), m, steps})
		}
		add("dry run", read("init --dry-run --skip-phases=preflight --upload-certs --config=/kubeadm.yaml", asDryRun))
		add("phases", do("init phase certs all --config=/kubeadm.yaml"), do("init phase kubeconfig all --config=/kubeadm.yaml"),
			do("init phase etcd local --config=/kubeadm.yaml"), do("init phase control-plane all --config=/kubeadm.yaml"))
		add("images", read("config images list --config=/kubeadm.yaml", asLines))
	}
	return list
}

// withFiles are the files that configurations name, and one more.
func withFiles(name, content string) map[string]string {
	files := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n", "/etc/login.defs": "SYS_UID_MAX 999\n",
		name: content,
	}
	for _, f := range []string{"/etcd/ca.crt", "/etcd/client.crt", "/etcd/client.key"} {
		files[f] = "a certificate or key of the external etcd\n"
	}
	return files
}
