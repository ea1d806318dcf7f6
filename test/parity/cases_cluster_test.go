package parity

import "fmt"

// clusterCases call an API server; the objects that it has afterwards are compared.
func clusterCases() []testCase {
	var list []testCase
	here := machine{stage: "cluster", cluster: true}
	add := func(name string, steps ...step) {
		list = append(list, testCase{"cluster: " + name, here, steps})
	}
	const token = "ghijkl.0123456789abcdef"
	add("tokens listed", compareOutput("token list", asText),
		compareOutput("token list -o json", asObjects),
		compareOutput("token list -o yaml", asObjects))
	add("token made", compareOutput("token create "+token, asLines),
		compareOutput("token list -o json", asObjects))
	add("token made up", compareOutput("token create", matchOutput(`[a-z0-9]{6}\.[a-z0-9]{16}`)))
	add("token with everything",
		compareOutput("token create "+token+
			" --ttl=0 --description=mine --usages=authentication --groups=system:bootstrappers:a,system:bootstrappers:b", asLines),
		compareOutput("token list", asText))
	add("tokens of several widths", ignoreOutput("token create "+token+" --ttl=0"),
		ignoreOutput("token create mnopqr.0123456789abcdef --ttl=0 --usages=authentication --description="+
			"a-description-that-is-longer-than-the-column-of-fifty-six-characters"),
		compareOutput("token list", asText))
	add("token with a join command",
		compareOutput("token create "+token+" --print-join-command", asLines))
	add("token that is there", ignoreOutput("token create abcdef.0123456789abcdef"))
	add("token of bad form", ignoreOutput("token create nonsense"))
	add("token for bad groups", ignoreOutput("token create "+token+" --groups=system:masters"))
	add("token for bad usages", ignoreOutput("token create "+token+" --usages=cooking"))
	add("token dry", ignoreOutput("token create "+token+" --dry-run"))
	add("token removed", compareOutput("token delete abcdef", asLines),
		compareOutput("token list", asText))
	add("token removed by its whole text",
		compareOutput("token delete abcdef.0123456789abcdef", asLines))
	add("token removed that is not there", ignoreOutput("token delete ghijkl"))
	add("token removed dry", ignoreOutput("token delete abcdef --dry-run"))
	add("token removed of bad form", ignoreOutput("token delete ABC"))
	add("tokens of a file", ignoreOutput("token create --config=/base.yaml"))

	for _, phase := range []string{
		"upload-config all", "upload-config kubeadm", "upload-config kubelet", "bootstrap-token",
		"addon all", "addon coredns", "addon kube-proxy",
		"mark-control-plane",
	} {
		add(phase+" again", ignoreOutput("init phase "+phase+" --config=/base.yaml"))
	}
	changed := documents{"ClusterConfiguration": {
		"networking": map[string]any{"podSubnet": "10.244.0.0/16"},
		"dns":        map[string]any{"imageTag": "v1.13.1"}, "imageRepository": "example.org/k8s",
		"clusterName": "x",
	}, "InitConfiguration": {"nodeRegistration": map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoSchedule"}}}}}
	for _, phase := range []string{"upload-config all", "addon all", "mark-control-plane"} {
		m := here
		m.files = map[string]string{"/base.yaml": changed.mergeInto(baseConfig()).text()}
		list = append(list, testCase{"cluster: " + phase + " changed", m,
			[]step{ignoreOutput("init phase " + phase + " --config=/base.yaml")}})
	}
	for i, row := range readCombinations("join.yaml") {
		m := here
		m.lacks = []string{"/etc/kubernetes/admin.conf"}
		m.files = map[string]string{"/kubeadm.yaml": row.mergeInto(clusterJoin()).text()}
		if _, plane := row["JoinConfiguration"]["controlPlane"]; plane {
			m.shares = true
		}
		list = append(list, testCase{fmt.Sprintf("cluster: join %02d dry run", i+1), m, []step{
			compareOutput("join --dry-run --skip-phases=preflight --config=/kubeadm.yaml",
				asDryRun),
		}})
	}
	return list
}

// clusterJoin is a join to the cluster of the stage "cluster".
func clusterJoin() documents {
	return documents{"JoinConfiguration": {"discovery": map[string]any{
		"bootstrapToken": map[string]any{"token": "abcdef.0123456789abcdef",
			"apiServerEndpoint": "10.0.0.10:6443"},
	}}}
}
