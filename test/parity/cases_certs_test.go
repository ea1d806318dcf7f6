package parity

import kubepki "kubeadm/internal/pki"

// renewableNames are the subcommands of "certs renew". The help cases check that there are no
// others.
func renewableNames() []string {
	names := []string{"all"}
	for _, r := range kubepki.Renewables() {
		names = append(names, r.Name)
	}
	return names
}

// certsCases start from existing certificates, all or some of them.
func certsCases() []testCase {
	var list []testCase
	add := func(name string, m machine, steps ...step) {
		list = append(list, testCase{name, m, steps})
	}
	const config = " --config=/base.yaml"
	pki := machine{stage: "pki"}
	lacking := func(files ...string) machine { return machine{stage: "pki", lacks: files} }

	add("expiration table", pki, compareOutput("certs check-expiration"+config, asText))
	add("expiration json", pki, compareOutput("certs check-expiration -o json"+config, asObjects))
	add("expiration yaml", pki, compareOutput("certs check-expiration -o yaml"+config, asObjects))
	add("expiration without a file", pki,
		compareOutput("certs check-expiration -o json", asObjects))
	add("expiration of a directory", pki,
		compareOutput("certs check-expiration -o json --cert-dir=/etc/kubernetes/pki", asObjects))
	add("expiration of nothing", machine{},
		compareOutput("certs check-expiration -o json", asObjects))
	add("expiration of nothing as a table", machine{},
		compareOutput("certs check-expiration", asText))
	some := lacking("/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/admin.conf",
		"/etc/kubernetes/pki/front-proxy-ca.crt")
	add("expiration where some are missing", some,
		compareOutput("certs check-expiration -o json"+config, asObjects))
	external := lacking("/etc/kubernetes/pki/ca.key", "/etc/kubernetes/pki/etcd/ca.key",
		"/etc/kubernetes/pki/front-proxy-ca.key")
	add("expiration with an external CA", external,
		compareOutput("certs check-expiration -o json"+config, asObjects))

	for _, name := range renewableNames() {
		add("renew "+name, pki, ignoreOutput("certs renew "+name+config))
	}
	add("renew with an external CA", external, ignoreOutput("certs renew all"+config))
	add("renew with an external front proxy CA", lacking("/etc/kubernetes/pki/front-proxy-ca.key"),
		ignoreOutput("certs renew all"+config))
	add("renew what is missing", some, ignoreOutput("certs renew apiserver"+config),
		ignoreOutput("certs renew admin.conf"+config),
		ignoreOutput("certs renew front-proxy-client"+config))
	add("renew nothing", machine{}, ignoreOutput("certs renew all"))
	add("renew of no such name", pki, ignoreOutput("certs renew ca"+config))

	add("requests", machine{files: withFiles("/base.yaml", baseConfig().text())},
		ignoreOutput("certs generate-csr"+config))
	add("requests into directories", machine{files: withFiles("/base.yaml", baseConfig().text())},
		ignoreOutput("certs generate-csr --cert-dir=/srv/pki --kubeconfig-dir=/srv/conf"+config))
	add("requests a second time", machine{stage: "requests"},
		ignoreOutput("certs generate-csr"+config))

	list = append(list, reuseCases(lacking)...)
	return append(list, kubeconfigCases(pki, external)...)
}

// reuseCases generate the missing part of the certificates and kubeconfigs of an earlier run.
func reuseCases(lacking func(...string) machine) []testCase {
	var list []testCase
	for name, files := range map[string][]string{
		"all there": nil, "no leaf": {"apiserver.crt", "apiserver.key"},
		"no key of a leaf":                {"apiserver.key"},
		"no certificate of a leaf":        {"front-proxy-client.crt"},
		"external CA":                     {"ca.key"},
		"external CA with a leaf missing": {"ca.key", "apiserver.crt"},
		"external front proxy CA":         {"front-proxy-ca.key"},
		"external etcd CA":                {"etcd/ca.key"},
		"external CAs":                    {"ca.key", "etcd/ca.key", "front-proxy-ca.key"},
		"no CA certificate":               {"ca.crt"}, "no sa.pub": {"sa.pub"},
		"no sa.key": {"sa.key"},
	} {
		m := lacking()
		for _, f := range files {
			m.lacks = append(m.lacks, "/etc/kubernetes/pki/"+f)
		}
		list = append(list, testCase{"certificates kept: " + name, m,
			[]step{ignoreOutput("init phase certs all --config=/base.yaml")}})
	}
	for name, files := range map[string][]string{
		"all there": nil, "one missing": {"scheduler.conf"},
		"all missing but one": {"admin.conf", "super-admin.conf", "kubelet.conf",
			"controller-manager.conf"},
	} {
		m, n := lacking(), lacking("/etc/kubernetes/pki/ca.key")
		for _, f := range files {
			m.lacks, n.lacks = append(m.lacks, "/etc/kubernetes/"+f),
				append(n.lacks, "/etc/kubernetes/"+f)
		}
		phase := ignoreOutput("init phase kubeconfig all --config=/base.yaml")
		list = append(list, testCase{"kubeconfigs kept: " + name, m, []step{phase}},
			testCase{"kubeconfigs kept, external CA: " + name, n, []step{phase}})
	}
	return list
}

// kubeconfigCases print kubeconfigs for users.
func kubeconfigCases(pki, external machine) []testCase {
	var list []testCase
	for name, c := range map[string]struct {
		m    machine
		args string
	}{
		"":                        {pki, "--client-name=jane"},
		" with groups":            {pki, "--client-name=jane --org=devs --org=ops,admins"},
		" with a token":           {pki, "--client-name=jane --token=abcdef.0123456789abcdef"},
		" for an hour":            {pki, "--client-name=jane --validity-period=1h"},
		" for ten years":          {pki, "--client-name=jane --validity-period=87600h"},
		" without a name":         {pki, "--org=devs"},
		" without a CA key":       {external, "--client-name=jane"},
		" token without a CA key": {external, "--client-name=jane --token=x"},
		" without a CA": {machine{files: withFiles("/base.yaml", baseConfig().text())},
			"--client-name=jane"},
	} {
		line := "kubeconfig user --config=/base.yaml " + c.args
		list = append(list, testCase{"kubeconfig user" + name, c.m,
			[]step{compareOutput(line, asDocuments)}})
	}
	return append(list, testCase{"kubeconfig user without a file", pki,
		[]step{compareOutput("kubeconfig user --client-name=jane", asDocuments)}})
}

// leafFiles are the files of a control plane that control planes do not share.
func leafFiles() []string {
	var all []string
	for _, name := range []string{
		"apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client",
		"etcd/server", "etcd/peer", "etcd/healthcheck-client",
	} {
		all = append(all, "/etc/kubernetes/pki/"+name+".crt", "/etc/kubernetes/pki/"+name+".key")
	}
	for _, name := range []string{"admin", "super-admin", "kubelet", "controller-manager",
		"scheduler"} {
		all = append(all, "/etc/kubernetes/"+name+".conf")
	}
	return all
}
