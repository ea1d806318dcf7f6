package parity

// patchCases apply each type of patch to manifests.
func patchCases() []testCase {
	var list []testCase
	label := "metadata: {labels: {patched: \"yes\"}}\n"
	operation := `[{"op": "add", "path": "/metadata/labels/patched", "value": "yes"}, {"op": "remove", "path": "/spec/containers/0/resources"}]`
	priority := "spec: {priority: 5, containers: [{name: kube-scheduler, resources: {requests: {cpu: 7m}}}]}\n"
	for name, files := range map[string]map[string]string{
		"strategic":         {"kube-scheduler.yaml": priority},
		"strategic by name": {"kube-scheduler+strategic.yaml": priority},
		"merge": {"kube-apiserver+merge.yaml": label,
			"kube-scheduler+merge.yaml": "spec: {priority: null}\n"},
		"json": {"kube-controller-manager+json.yaml": operation,
			"etcd+json.json": operation},
		"in order": {"kube-scheduler2+merge.yaml": "spec: {priority: 2}\n",
			"kube-scheduler1.yaml":  "spec: {priority: 1}\n",
			"kube-scheduler10.json": `{"spec": {"priority": 10}}`},
		"several documents": {"etcd.yaml": label + "---\nspec: {priority: 3}\n"},
		"all targets": {"etcd.yaml": label, "kube-apiserver.yaml": label,
			"kube-controller-manager.yaml": label, "kube-scheduler.yaml": label},
		"of the kubelet": {"kubeletconfiguration.yaml": "maxPods: 7\n",
			"kubeletconfiguration1+json.yaml": `[{"op": "replace", "path": "/healthzPort", "value": 7}]`},
		"of add-ons": {"corednsdeployment.yaml": "spec: {replicas: 5}\n",
			"kubeproxydaemonset+merge.yaml": label},
		"in directories": {"sub/kube-scheduler.yaml": label,
			"sub/deeper/etcd.yaml": label},
		"no patches":               {"README": "nothing\n"},
		"of nothing known":         {"kube-proxy.yaml": label},
		"of another extension":     {"kube-scheduler.txt": label},
		"empty":                    {"kube-scheduler.yaml": "", "etcd.json": "\n"},
		"of an unknown type":       {"kube-scheduler+apply.yaml": label},
		"broken YAML":              {"kube-scheduler.yaml": "spec: {\n"},
		"broken operations":        {"kube-scheduler+json.yaml": label},
		"an operation that fails":  {"kube-scheduler+json.yaml": `[{"op": "remove", "path": "/spec/nothing"}]`},
		"a field of another type":  {"kube-scheduler.yaml": "spec: {containers: 7}\n"},
		"a field that is unknown":  {"kube-scheduler.yaml": "spec: {unknown: 7}\n"},
		"a deletion in a list":     {"kube-apiserver.yaml": "spec: {volumes: [{name: ca-certs, $patch: delete}], containers: [{name: kube-apiserver, volumeMounts: [{mountPath: /etc/ssl/certs, $patch: delete}]}]}\n"},
		"without certificates":     {"kube-apiserver.yaml": "spec: {volumes: [{name: k8s-certs, $patch: delete}], containers: [{name: kube-apiserver, volumeMounts: [{mountPath: /etc/kubernetes/pki, $patch: delete}]}]}\n"},
		"without a probe":          {"etcd+json.json": `[{"op": "remove", "path": "/spec/containers/0/livenessProbe"}]`},
		"without the host network": {"kube-scheduler+merge.yaml": "spec: {hostNetwork: null}\n"},
		"a replacement":            {"kube-scheduler.yaml": "metadata: {labels: {$patch: replace, a: b}}\n"},
		"another kind and name":    {"kube-scheduler.yaml": "kind: Job\nmetadata: {name: other}\n"},
		"two of one name and type": {"etcd.yaml": label, "etcd.json": `{"spec": {"priority": 4}}`},
	} {
		m := machine{stage: "pki", files: map[string]string{"/patches/": ""}}
		for file, content := range files {
			m.files["/patches/"+file] = content
		}
		list = append(list, testCase{"patches: " + name, m, []step{
			ignoreOutput("init phase etcd local --patches=/patches"),
			ignoreOutput("init phase control-plane all --patches=/patches"),
			ignoreOutput("init phase kubelet-start --patches=/patches"),
		}})
	}
	for name, dir := range map[string]string{"no such directory": "/nowhere",
		"a file for a directory": "/base.yaml", "relative": "patches"} {
		m := machine{stage: "pki", files: map[string]string{"/root/patches/etcd.yaml": label}}
		list = append(list, testCase{"patches: " + name, m,
			[]step{ignoreOutput("init phase etcd local --patches=" + dir)}})
	}
	return list
}
