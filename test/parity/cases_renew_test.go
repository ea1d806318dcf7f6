package parity

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"slices"
	"strings"
	"time"

	kubepki "kubeadm/internal/pki"
)

// expirationSteps show when all certificates of a control plane expire.
func expirationSteps(flags string) []step {
	return []step{compareOutput("certs check-expiration"+flags, asText),
		compareOutput("certs check-expiration -o json"+flags, asObjects)}
}

// renewalCases renew certificates of control planes that are not as kubeadm leaves them, and show
// when they expire.
func renewalCases() []testCase {
	list := slices.Concat(brokenPairCases(), unusualRenewalCases(), externalCACases(),
		renewalSettingCases(), expirationOutputCases())
	for i := range list {
		list[i].name = strings.ReplaceAll(list[i].name, "/", ":")
	}
	return list
}

// renewAndShow returns cases that renew the names, each on a new machine, and one that shows when
// certificates expire.
func renewAndShow(what string, m machine, flags string, names ...string) []testCase {
	list := []testCase{{"expiration: " + what, m, expirationSteps(flags)}}
	for _, name := range names {
		list = append(list, testCase{"renew " + name + ": " + what, m,
			[]step{ignoreOutput("certs renew " + name + flags)}})
	}
	return list
}

const baseFlag = " --config=/base.yaml"

// brokenPairCases remove or break one file at a time.
func brokenPairCases() []testCase {
	var list []testCase
	for _, r := range kubepki.Renewables() {
		file := "/etc/kubernetes/" + r.File
		if r.File == "" {
			file = "/etc/kubernetes/pki/" + r.Base + ".crt"
			key := "/etc/kubernetes/pki/" + r.Base + ".key"
			list = append(list, renewAndShow("no key", machine{stage: "pki",
				lacks: []string{key}}, baseFlag, r.Name)[1:]...)
		}
		missing := machine{stage: "pki", lacks: []string{file}}
		list = append(
			list,
			testCase{"expiration: no " + r.Name, missing, expirationSteps(baseFlag)},
			testCase{"renew " + r.Name + ": missing", missing,
				[]step{ignoreOutput("certs renew " + r.Name + baseFlag)}},
			testCase{"renew all: no " + r.Name, missing,
				[]step{ignoreOutput("certs renew all" + baseFlag)}},
		)
		for what, content := range map[string]string{"empty": "", "garbled": "nonsense\n"} {
			m := machine{stage: "pki", files: map[string]string{file: content}}
			list = append(list, testCase{"expiration: " + r.Name + " is " + what, m,
				expirationSteps(baseFlag)},
				testCase{"renew " + r.Name + ": " + what, m,
					[]step{ignoreOutput("certs renew " + r.Name + baseFlag)}})
		}
		list = append(list, testCase{"renew " + r.Name + ": a directory", machine{stage: "pki",
			lacks: []string{file}, files: map[string]string{file + "/": ""}},
			[]step{ignoreOutput("certs renew " + r.Name + baseFlag)}})
	}
	for _, ca := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		base := "/etc/kubernetes/pki/" + ca
		for what, m := range map[string]machine{
			"no " + ca + ".crt":       {stage: "pki", lacks: []string{base + ".crt"}},
			"no pair of " + ca:        {stage: "pki", lacks: []string{base + ".crt", base + ".key"}},
			ca + ".crt is garbled":    {stage: "pki", files: map[string]string{base + ".crt": "x\n"}},
			ca + ".key is garbled":    {stage: "pki", files: map[string]string{base + ".key": "x\n"}},
			ca + ".key is of another": {stage: "pki", files: map[string]string{base + ".key": newSelfSignedCA(time.Now()).key}},
			ca + " has expired": {stage: "pki",
				files: newSelfSignedCA(time.Now().Add(-time.Hour)).files(ca)},
			ca + " expires in a month": {stage: "pki",
				files: newSelfSignedCA(time.Now().Add(732 * time.Hour)).files(ca)},
			ca + " is no CA": {stage: "pki",
				files: newSelfSigned(func(*x509.Certificate) {}).files(ca)},
		} {
			list = append(list, renewAndShow(what, m, baseFlag, "apiserver",
				"front-proxy-client", "etcd-peer", "admin.conf")...)
		}
	}
	return list
}

// unusualRenewalCases renew certificates that kubeadm did not generate.
func unusualRenewalCases() []testCase {
	var list []testCase
	for what, pair := range unusualCertificates() {
		list = append(list, renewAndShow("certificate with "+what, machine{stage: "pki",
			files: pair.files("apiserver")}, baseFlag, "apiserver")...)
	}
	for what, text := range unusualKubeconfigs() {
		list = append(list, renewAndShow("kubeconfig "+what, machine{stage: "pki",
			files: map[string]string{"/etc/kubernetes/admin.conf": text}}, baseFlag,
			"admin.conf", "all")...)
	}
	return list
}

// externalCACases have CAs without a key.
func externalCACases() []testCase {
	var list []testCase
	leaf := newSelfSigned(func(*x509.Certificate) {})
	for ca, leafs := range map[string][]string{
		"ca":             {"apiserver", "apiserver-kubelet-client"},
		"front-proxy-ca": {"front-proxy-client"},
		"etcd/ca": {"apiserver-etcd-client", "etcd/server", "etcd/peer",
			"etcd/healthcheck-client"},
	} {
		const dir = "/etc/kubernetes/pki/"
		external := machine{stage: "pki", lacks: []string{dir + ca + ".key"}}
		list = append(
			list,
			renewAndShow("external "+ca, external, baseFlag, renewableNames()...)...)
		for _, l := range leafs {
			for _, ext := range []string{".crt", ".key"} {
				m := external
				m.lacks = append(slices.Clone(m.lacks), dir+l+ext)
				list = append(list, renewAndShow("external "+ca+", no "+l+ext, m, baseFlag,
					"all")...)
			}
			m := external
			m.files = leaf.files(l)
			list = append(list, renewAndShow("external "+ca+", "+l+" of another CA", m, baseFlag,
				"all")...)
		}
		m := external
		m.files = map[string]string{dir + ca + ".crt": newSelfSignedCA(
			time.Now().Add(-time.Hour)).cert}
		list = append(list, renewAndShow("external "+ca+" of others", m, baseFlag, "all")...)
	}
	return list
}

// renewalSettingCases take the settings from a file, from the cluster or by default.
func renewalSettingCases() []testCase {
	var list []testCase
	for what, fields := range map[string]map[string]any{
		"RSA-2048":          {"encryptionAlgorithm": "RSA-2048"},
		"RSA-3072":          {"encryptionAlgorithm": "RSA-3072"},
		"ECDSA-P384":        {"encryptionAlgorithm": "ECDSA-P384"},
		"100 hours":         {"certificateValidityPeriod": "100h"},
		"20 years":          {"certificateValidityPeriod": "175200h"},
		"external etcd":     {"etcd": map[string]any{"external": map[string]any{"endpoints": []any{"https://10.0.0.7:2379"}, "caFile": "/e/ca.crt", "certFile": "/e/c.crt", "keyFile": "/e/c.key"}}},
		"another directory": {"certificatesDir": "/srv/pki"},
	} {
		m := machine{stage: "pki", files: map[string]string{"/set.yaml": documents{
			"ClusterConfiguration": fields}.mergeInto(baseConfig()).text()}}
		list = append(list, renewAndShow("file with "+what, m, " --config=/set.yaml", "all",
			"etcd-server", "apiserver-etcd-client", "apiserver", "admin.conf")...)
	}
	pki, cluster := machine{stage: "pki"}, machine{stage: "cluster", cluster: true, shares: true}
	clusterPKI := cluster
	clusterPKI.stage = "older"
	for what, c := range map[string]struct {
		m     machine
		flags string
	}{
		"cluster unreachable":         {pki, ""},
		"directory":                   {pki, " --cert-dir=/etc/kubernetes/pki"},
		"no such directory":           {pki, " --cert-dir=/srv/pki"},
		"relative directory":          {pki, " --cert-dir=pki"},
		"directory beside a file":     {pki, " --cert-dir=/srv/pki" + baseFlag},
		"no such kubeconfig":          {pki, " --kubeconfig=/nowhere.conf"},
		"no such kubeconfig, file":    {pki, " --kubeconfig=/nowhere.conf" + baseFlag},
		"kubeconfig without a user":   {pki, " --kubeconfig=/etc/kubernetes/kubelet.conf"},
		"no such file":                {pki, " --config=/nowhere.yaml"},
		"settings of the cluster":     {clusterPKI, ""},
		"directory, with the cluster": {clusterPKI, " --cert-dir=/etc/kubernetes/pki"},
		"CAs alone":                   {cluster, ""},
	} {
		list = append(list, renewAndShow(what, c.m, c.flags, "all", "apiserver", "admin.conf")...)
	}
	for _, line := range []string{"certificates renew all", "certs renew all apiserver",
		"certs renew apiserver admin.conf", "certs renew", "certs renew --all", "certs",
		"certs check-expiration all", "certs renew all --nonsense"} {
		list = append(list, testCase{"renewal: " + line, pki,
			[]step{ignoreOutput(line + baseFlag)}})
	}
	return list
}

// expirationOutputCases print expirations in every format and for all lengths of time.
func expirationOutputCases() []testCase {
	var list []testCase
	pki := machine{stage: "pki"}
	for format, how := range map[string]outputReader{
		"text": asText, "yaml": asObjects, "kyaml": asObjects, "xml": asLines,
		"jsonpath={.certificates[*].name}":                           asLines,
		"jsonpath={.certificateAuthorities[0].missing}":              asLines,
		"go-template={{range .certificates}}{{.caName}};{{end}}":     asLines,
		"go-template={{(index .certificates 0).externallyManaged}}":  asLines,
		"jsonpath-as-json={.certificates[?(@.name==\"apiserver\")]}": asDocuments,
		"jsonpath={.nothing}":                                        asLines, "": asLines,
	} {
		list = append(list, testCase{"expiration: output " + format, pki, []step{
			{[]string{"certs", "check-expiration", "--config=/base.yaml", "-o", format}, how}}})
	}
	for what, left := range map[string]time.Duration{
		"a day":  30*time.Hour + 30*time.Minute,
		"a week": 160*time.Hour + 30*time.Minute, "a month": 732 * time.Hour,
		"three years": 3*8760*time.Hour + 732*time.Hour, "nine years": 9*8760*time.Hour + 732*time.Hour,
		"no time": -time.Minute, "years ago": -20000 * time.Hour,
	} {
		end := time.Now().Add(left)
		pair := newSelfSigned(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = end.Add(-time.Hour), end
		})
		files := pair.files("apiserver")
		maps.Copy(files, newSelfSignedCA(end).files("front-proxy-ca"))
		list = append(list, testCase{"expiration: left " + what, machine{stage: "pki",
			files: files}, expirationSteps(baseFlag)})
	}
	chain := newSelfSigned(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "x"} })
	chain.cert += newSelfSignedCA(time.Now().Add(time.Hour)).cert
	return append(list, renewAndShow("chain of certificates", machine{stage: "pki",
		files: chain.files("apiserver")}, baseFlag, "apiserver")...)
}
