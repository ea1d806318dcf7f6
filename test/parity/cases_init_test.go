package parity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// baseConfig is the configuration that all control planes of the cases share: a fixed version,
// quick keys and a fixed token.
func baseConfig() documents {
	return documents{
		"InitConfiguration": {"bootstrapTokens": []any{map[string]any{"token": "abcdef.0123456789abcdef"}}},
		"ClusterConfiguration": {"kubernetesVersion": "v1.37.1",
			"encryptionAlgorithm": "ECDSA-P256"},
	}
}

// mergeInto merges documents into others.
func (d documents) mergeInto(under documents) documents {
	for kind, content := range d {
		under[kind] = mergeMaps(under[kind], content)
	}
	return under
}

// initCases combine the fields of a control plane pairwise, and its flags.
func initCases() []testCase {
	var list []testCase
	for i, row := range readCombinations("init.yaml") {
		m := machine{files: withFiles("/kubeadm.yaml", row.mergeInto(baseConfig()).text())}
		add := func(what string, steps ...step) {
			list = append(list, testCase{fmt.Sprintf("config %02d %s", i+1, what), m, steps})
		}
		add("dry run", compareOutput(
			"init --dry-run --skip-phases=preflight --upload-certs --config=/kubeadm.yaml",
			asDryRun))
		add("phases", ignoreOutput("init phase certs all --config=/kubeadm.yaml"),
			ignoreOutput("init phase kubeconfig all --config=/kubeadm.yaml"),
			ignoreOutput("init phase etcd local --config=/kubeadm.yaml"),
			ignoreOutput("init phase control-plane all --config=/kubeadm.yaml"))
		add("images", compareOutput("config images list --config=/kubeadm.yaml", asLines))
	}
	for i, row := range readCombinations("flags.yaml") {
		m := machine{stage: "pki",
			lacks: []string{"/etc/kubernetes/pki/apiserver.crt",
				"/etc/kubernetes/pki/apiserver.key", "/etc/kubernetes/admin.conf"}}
		chosen := func(names string) string { return row.only(names).flags() }
		list = append(list, testCase{fmt.Sprintf("flags %02d", i+1), m, []step{
			ignoreOutput("init phase certs apiserver" +
				chosen("apiserver-advertise-address apiserver-cert-extra-sans control-plane-endpoint kubernetes-version service-cidr service-dns-domain")),
			ignoreOutput("init phase kubeconfig admin" +
				chosen("apiserver-advertise-address apiserver-bind-port control-plane-endpoint kubernetes-version")),
			ignoreOutput("init phase etcd local" + chosen("image-repository")),
			ignoreOutput("init phase control-plane apiserver" +
				chosen("apiserver-advertise-address apiserver-bind-port control-plane-endpoint image-repository kubernetes-version service-cidr feature-gates")),
			ignoreOutput("init phase control-plane controller-manager" +
				chosen("image-repository kubernetes-version pod-network-cidr")),
			ignoreOutput("init phase control-plane scheduler" +
				chosen("image-repository kubernetes-version")),
			compareOutput("config images list"+
				chosen("image-repository kubernetes-version feature-gates"), asLines),
		}})
	}
	return list
}

// withFiles returns the files that configurations name, and one more.
func withFiles(name, content string) map[string]string {
	files := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n",
		"/etc/login.defs": "SYS_UID_MAX 999\n",
		name:              content,
	}
	certificate, key := externalEtcdFiles()
	files["/etcd/ca.crt"], files["/etcd/client.crt"], files["/etcd/client.key"] = certificate,
		certificate, key
	return files
}

// externalEtcdFiles are a self-signed certificate and its key, as PEM.
var externalEtcdFiles = sync.OnceValues(func() (certificate, key string) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "external-etcd"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		panic(err)
	}
	der8, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der8}))
})
