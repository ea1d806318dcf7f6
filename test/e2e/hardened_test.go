//go:build e2e

package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/test/nodes"
)

// strongCiphers are what the hardened components offer to clients of TLS 1.2. HTTP/2 requires one of them with AES_128_GCM.
const strongCiphers = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"

// hardenedDir has the files that hardened API servers read.
const hardenedDir = "/etc/kubernetes/hardened"

// checkHardened gives a running cluster what guides for hardening ask for: no profiling, strong TLS, encrypted Secrets, limited
// Events, files that only root reads, kubelets with serving certificates of the cluster's CA, which the API server verifies,
// and no CoreDNS, which is not needed: it is deleted, and no later change brings it back. Then it passes the CIS Kubernetes
// Benchmark, as kube-bench checks it. Files get their modes before the changes, which must keep them.
func checkHardened(t *testing.T, cp, worker *nodes.Node) {
	t.Helper()
	bench := strings.TrimSpace(runOnHost(t, "go", "-C", "../../components", "run", "./build-extra", "kube-bench"))
	for _, n := range []*nodes.Node{cp, worker} {
		runShell(t, n, "chmod 600 /var/lib/kubelet/config.yaml /etc/systemd/system/kubelet.service /etc/systemd/system/kubelet.service.d/*")
	}
	writeHardenedFiles(t, cp)
	edit := []string{"env", "EDITOR=sed -i -e '/^kind: KubeletConfiguration/aserverTLSBootstrap: true\\n" +
		"tlsMinVersion: VersionTLS12\\ntlsCipherSuites: [" + strongCiphers + "]\\npodPidsLimit: 4096'" +
		" -e '/^podPidsLimit: -1/d' -e 's/^streamingConnectionIdleTimeout: .*/streamingConnectionIdleTimeout: 5m0s/' -e 's/^dns: .*/dns: {disabled: true}/'" +
		" -e 's#^  extraVolumes:#&\\n  - {name: hardened, hostPath: " + hardenedDir + ", mountPath: " + hardenedDir + ", readOnly: true, pathType: Directory}#'"}
	runCommand(t, cp, append(edit, reconfigureCommand("apply", "--edit", "--set-arg=kube-apiserver:profiling=false",
		"--set-arg=kube-apiserver:enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs,EventRateLimit",
		"--set-arg=kube-apiserver:admission-control-config-file="+hardenedDir+"/admission.yaml",
		"--set-arg=kube-apiserver:encryption-provider-config="+hardenedDir+"/encryption.yaml",
		"--set-arg=kube-apiserver:tls-cipher-suites="+strongCiphers, "--set-arg=kube-apiserver:audit-log-maxage=30",
		"--set-arg=kube-apiserver:audit-log-maxbackup=10", "--set-arg=kube-apiserver:audit-log-maxsize=100",
		"--set-arg=kube-controller-manager:profiling=false", "--set-arg=kube-controller-manager:terminated-pod-gc-threshold=100",
		"--set-arg=kube-scheduler:profiling=false")...)...)
	runReconfigure(t, worker, "node")
	kubectl(t, cp, "--namespace=kube-system", "delete", "deployment", "coredns")
	await(t, "verified metrics of the kubelet", waitLimit, func() error {
		_, err := readMetrics(t, cp)
		if err != nil {
			_, _ = cp.Run(t.Context(), kubeadm, "certs", "approve-kubelet-serving")
		}
		return err
	})
	runReconfigure(t, cp, "apply", "--set-arg=kube-apiserver:kubelet-certificate-authority=/etc/kubernetes/pki/ca.crt")
	for namespace := range strings.FieldsSeq(kubectl(t, cp, "get", "namespaces", "--output=jsonpath={.items[*].metadata.name}")) {
		kubectl(t, cp, "--namespace="+namespace, "patch", "serviceaccount", "default", "--patch={\"automountServiceAccountToken\": false}")
	}
	for _, n := range []*nodes.Node{cp, worker} {
		checkHardenedKubelet(t, cp, n)
		checkPrivateFiles(t, n)
		installKubeBench(t, n, bench)
	}
	checkPolicies(t, cp, "master,controlplane,etcd,node,policies")
	checkPolicies(t, worker, "node")
	if _, err := cp.Kubectl(t.Context(), "--namespace=kube-system", "get", "deployment", "coredns"); err == nil {
		t.Error("CoreDNS is back, although it is disabled")
	}
}

// writeHardenedFiles writes what limits Events and encrypts Secrets.
func writeHardenedFiles(t *testing.T, cp *nodes.Node) {
	t.Helper()
	key := make([]byte, 32)
	rand.Read(key)
	for name, text := range map[string]string{
		"admission.yaml": `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 500, burst: 1000}]
`,
		"encryption.yaml": `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys: [{name: first, secret: ` + base64.StdEncoding.EncodeToString(key) + `}]
  - identity: {}
`} {
		must(t, cp.WriteFile(hardenedDir+"/"+name, []byte(text), 0o600))
	}
}

// checkHardenedKubelet checks how a kubelet runs, through the API server, which verifies its certificate. kube-bench reads
// its file and its arguments.
func checkHardenedKubelet(t *testing.T, cp, n *nodes.Node) {
	t.Helper()
	var found struct {
		Config kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
	}
	await(t, "the kubelet of "+n.Name()+" through the API server", waitLimit, func() error {
		configz, err := cp.Kubectl(t.Context(), "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz")
		if err == nil {
			err = json.Unmarshal([]byte(configz.Stdout), &found)
		}
		if err == nil && found.Config.StreamingConnectionIdleTimeout.Duration.Minutes() != 5 {
			err = fmt.Errorf("it runs with %s", configz.Stdout)
		}
		if err != nil {
			_, _ = cp.Run(t.Context(), kubeadm, "certs", "approve-kubelet-serving")
		}
		return err
	})
	c := found.Config
	if !c.ServerTLSBootstrap || c.TLSMinVersion != "VersionTLS12" || !slices.Equal(c.TLSCipherSuites, strings.Split(strongCiphers, ",")) {
		t.Errorf("the kubelet of %s serves with %+v", n.Name(), c)
	}
}

// checkPrivateFiles checks files of a node that kube-bench does not: only root reads private keys, etcd's data and what
// encrypts Secrets, and not all users may write any file.
func checkPrivateFiles(t *testing.T, n *nodes.Node) {
	t.Helper()
	found := runShell(t, n, `find /etc/kubernetes /var/lib/kubelet/config.yaml /var/lib/kubelet/pki /var/lib/etcd -maxdepth 3 \
		\( -path /etc/kubernetes/tmp -prune \) -o -type f -printf '%m %U:%G %p\n' 2>/dev/null || true`)
	private := regexp.MustCompile(`^/etc/kubernetes/(hardened/.*|[a-z-]+\.conf|pki/.*\.key)$|^/var/lib/kubelet/pki/.*\.pem$|^/var/lib/etcd/`)
	checked := 0
	for line := range strings.Lines(found) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%s: %q", n.Name(), line)
		}
		mode, owner, file := fields[0], fields[1], fields[2]
		if private.MatchString(file) {
			if checked++; !strings.HasSuffix(mode, "00") || owner != "0:0" {
				t.Errorf("%s: %s has mode %s and owner %s", n.Name(), file, mode, owner)
			}
		}
		if slices.Contains([]string{"2", "3", "6", "7"}, mode[len(mode)-1:]) {
			t.Errorf("%s: all users may write %s", n.Name(), file)
		}
	}
	if checked < 2 {
		t.Errorf("%s: no files were found:\n%s", n.Name(), found)
	}
}
