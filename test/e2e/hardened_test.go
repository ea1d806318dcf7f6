//go:build e2e

package e2e

import (
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

// checkHardened gives a running cluster what guides for hardening ask for: no profiling, strong TLS, kubelets with serving
// certificates of the cluster's CA, which the API server verifies, and no CoreDNS, which is not needed: it is deleted,
// and no later change brings it back. Then it passes the policies of the CIS Kubernetes Benchmark that can be read off a node.
func checkHardened(t *testing.T, cp, worker *nodes.Node) {
	t.Helper()
	edit := []string{"env", "EDITOR=sed -i -e '/^kind: KubeletConfiguration/aserverTLSBootstrap: true\\n" +
		"tlsMinVersion: VersionTLS12\\ntlsCipherSuites: [" + strongCiphers + "]\\npodPidsLimit: 4096'" +
		" -e '/^podPidsLimit: -1/d' -e 's/^streamingConnectionIdleTimeout: .*/streamingConnectionIdleTimeout: 5m0s/' -e 's/^dns: .*/dns: {disabled: true}/'"}
	runCommand(t, cp, append(edit, reconfigureCommand("apply", "--edit", "--set-arg=kube-apiserver:profiling=false",
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
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		checkArgumentPolicies(t, cp, component)
	}
	for _, n := range []*nodes.Node{cp, worker} {
		checkKubeletPolicies(t, cp, n)
		checkFilePolicies(t, n)
	}
	if _, err := cp.Kubectl(t.Context(), "--namespace=kube-system", "get", "deployment", "coredns"); err == nil {
		t.Error("CoreDNS is back, although it is disabled")
	}
}

// checkArgumentPolicies checks with which arguments a component runs. A policy that begins with "!" is what they may not match.
func checkArgumentPolicies(t *testing.T, cp *nodes.Node, component string) {
	t.Helper()
	policies := map[string][]string{
		"kube-apiserver": {"--profiling=false ", "--authorization-mode=Node,RBAC ", "--enable-admission-plugins=[^ ]*NodeRestriction",
			"!--token-auth-file", "!AlwaysAllow", "!AlwaysAdmit", "!--insecure-port", "!--secure-port=0",
			"!--service-account-lookup=false", "--kubelet-client-certificate=", "--kubelet-client-key=",
			"--kubelet-certificate-authority=", "--client-ca-file=", "--tls-cert-file=", "--tls-private-key-file=",
			"--tls-cipher-suites=" + strongCiphers + " ", "--etcd-cafile=", "--etcd-certfile=", "--etcd-keyfile=",
			"--service-account-key-file=", "--audit-log-path=/", "--audit-log-maxage=30 ", "--audit-log-maxbackup=10 ",
			"--audit-log-maxsize=100 ", "--audit-policy-file="},
		"kube-controller-manager": {"--profiling=false ", "--terminated-pod-gc-threshold=100 ", "--use-service-account-credentials=true ",
			"--service-account-private-key-file=", "--root-ca-file=", "--bind-address=127.0.0.1 ",
			"!RotateKubeletServerCertificate=false"},
		"kube-scheduler": {"--profiling=false ", "--bind-address=127.0.0.1 "},
		"etcd": {"--cert-file=", "--key-file=", "--client-cert-auth=true ", "!--auto-tls=true", "--peer-cert-file=", "--peer-key-file=",
			"--peer-client-cert-auth=true ", "!--peer-auto-tls=true", "--trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt "},
	}
	line := commandLine(t, cp, component) + " "
	for _, policy := range policies[component] {
		pattern, isForbidden := strings.CutPrefix(policy, "!")
		if regexp.MustCompile(pattern).MatchString(line) == isForbidden {
			t.Errorf("%s does not pass %q: it runs as %s", component, policy, line)
		}
	}
}

// checkKubeletPolicies checks with which configuration a kubelet runs.
func checkKubeletPolicies(t *testing.T, cp, n *nodes.Node) {
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
	for policy, holds := range map[string]bool{
		"no anonymous requests":             c.Authentication.Anonymous.Enabled != nil && !*c.Authentication.Anonymous.Enabled,
		"requests are authorized":           c.Authorization.Mode == kubeletconfig.KubeletAuthorizationModeWebhook,
		"clients have certificates":         c.Authentication.X509.ClientCAFile == "/etc/kubernetes/pki/ca.crt",
		"no read-only port":                 c.ReadOnlyPort == 0,
		"iptables chains are made":          c.MakeIPTablesUtilChains == nil || *c.MakeIPTablesUtilChains,
		"events are limited":                c.EventRecordQPS != nil && *c.EventRecordQPS > 0,
		"client certificates are rotated":   c.RotateCertificates,
		"serving certificates are the CA's": c.ServerTLSBootstrap,
		"TLS is strong":                     c.TLSMinVersion == "VersionTLS12" && slices.Equal(c.TLSCipherSuites, strings.Split(strongCiphers, ",")),
		"processes of a Pod are limited":    c.PodPidsLimit != nil && *c.PodPidsLimit == 4096,
	} {
		if !holds {
			t.Errorf("the kubelet of %s does not pass: %s", n.Name(), policy)
		}
	}
}

// checkFilePolicies checks whose the files of a node are, and who may read them.
func checkFilePolicies(t *testing.T, n *nodes.Node) {
	t.Helper()
	found := runShell(t, n, `find /etc/kubernetes /var/lib/kubelet/config.yaml /var/lib/kubelet/pki /var/lib/etcd -maxdepth 3 \
		\( -path /etc/kubernetes/tmp -prune \) -o -type f -printf '%m %U:%G %p\n' -o -path /var/lib/etcd -printf '%m %U:%G %p\n' 2>/dev/null || true`)
	private := regexp.MustCompile(`^/etc/kubernetes/(manifests/.*\.yaml|[a-z-]+\.conf|pki/.*\.key)$|^/var/lib/kubelet/pki/.*\.pem$|^/var/lib/etcd`)
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
