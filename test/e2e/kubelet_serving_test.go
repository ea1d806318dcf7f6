//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestApproveKubeletServing approves the request of an honest kubelet and refuses forged ones. Then the kubelet's
// metrics can be read through TLS that is verified with the cluster's CA. With --watch, later requests are approved
// as they come.
func TestApproveKubeletServing(t *testing.T) {
	parallel(t)
	both, err := newCluster(t).AddAll(t.Context(), "cp1", "worker1")
	if err != nil {
		t.Fatal(err)
	}
	n := both[0]
	config := nodes.InitConfig(nodes.Config{Address: n.Address(),
		Kubelet: "serverTLSBootstrap: true\ncrashLoopBackOff: {maxContainerRestartPeriod: 10s}"})
	first, err := n.Init(t.Context(), config, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the kubelet to request a serving certificate", waitLimit, func() error {
		if !strings.Contains(listServingRequests(t, n), "Pending") {
			return errors.New("there is no request")
		}
		return nil
	})
	if metrics, err := readMetrics(t, n); err == nil {
		t.Fatalf("metrics can be read before the certificate is approved:\n%.200s", metrics)
	}
	requestServing(t, n, "forged-address", "cp1", &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:cp1", Organization: []string{"system:nodes"}},
		DNSNames:    []string{"cp1"},
		IPAddresses: []net.IP{net.ParseIP(n.Address()), net.ParseIP("10.96.0.1")},
	})
	requestServing(t, n, "forged-node", "ghost", &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:ghost", Organization: []string{"system:nodes"}},
		DNSNames: []string{"cp1"},
	})

	dryRun := checkFails(t, n, []string{"2 of ", " pending requests are not approved"}, kubeadm, "certs",
		"approve-kubelet-serving", "--dry-run")
	if all := listServingRequests(t, n); strings.Contains(all, "Approved") {
		t.Errorf("the dry run approved:\n%s\n%s", all, dryRun.Stdout)
	}
	result := checkFails(t, n, []string{"2 of ", " pending requests are not approved", `"10.96.0.1"`,
		`there is no Node "ghost"`}, kubeadm, "certs", "approve-kubelet-serving")
	for line := range strings.Lines(listServingRequests(t, n)) {
		if strings.HasPrefix(line, "forged-") && !strings.Contains(line, "Pending") {
			t.Errorf("%sthe output was\n%s", line, result.Stdout)
		}
	}
	// init restarts the kubelet, whose new process may request once more.
	await(t, "metrics through verified TLS", waitLimit, func() error {
		metrics, err := readMetrics(t, n)
		if err != nil {
			_, _ = n.Run(t.Context(), kubeadm, "certs", "approve-kubelet-serving")
		}
		if err == nil && !strings.Contains(metrics, "kubelet_node_name") {
			err = fmt.Errorf("these are no metrics of a kubelet: %.200s", metrics)
		}
		return err
	})
	for line := range strings.Lines(listServingRequests(t, n)) {
		if strings.HasPrefix(line, "forged-") != strings.Contains(line, "Pending") {
			t.Error(line)
		}
	}
	kubectl(t, n, "delete", "csr", "forged-address", "forged-node")
	if said := runCommand(t, n, kubeadm, "certs", "approve-kubelet-serving"); !strings.Contains(said, "serving certificate is pending") {
		t.Errorf("a second run says\n%s", said)
	}
	join, _, err := nodes.JoinCommands(first.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	checkServingWatch(t, n, both[1], join)
}

// listServingRequests has a line for each request for a serving certificate of a kubelet.
func listServingRequests(t *testing.T, n *nodes.Node) string {
	t.Helper()
	return kubectl(t, n, "get", "csr", "--no-headers",
		"--field-selector=spec.signerName=kubernetes.io/kubelet-serving")
}

// readMetrics reads the metrics of a control plane node's kubelet as the API server does, but verifies its
// certificate.
func readMetrics(t *testing.T, n *nodes.Node) (string, error) {
	t.Helper()
	const pki = "/etc/kubernetes/pki/"
	result, err := n.Run(t.Context(), "curl", "--silent", "--show-error", "--fail", "--cacert", pki+"ca.crt",
		"--cert", pki+"apiserver-kubelet-client.crt", "--key", pki+"apiserver-kubelet-client.key",
		"https://"+net.JoinHostPort(n.Address(), "10250")+"/metrics")
	return result.Stdout, err
}

// requestServing requests a serving certificate as the kubelet of a Node.
func requestServing(t *testing.T, n *nodes.Node, name, node string, asked *x509.CertificateRequest) {
	t.Helper()
	writeFile(t, n, "/root/"+name+".yaml", newServingRequest(t, name, asked))
	kubectl(t, n, "create", "--filename=/root/"+name+".yaml", "--as=system:node:"+node,
		"--as-group=system:nodes", "--as-group=system:authenticated")
}

// newServingRequest is a CertificateSigningRequest in YAML, with a key of its own.
func newServingRequest(t *testing.T, name string, asked *x509.CertificateRequest) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, asked, key)
	if err != nil {
		t.Fatal(err)
	}
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return `apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: ` + name + `}
spec:
  signerName: kubernetes.io/kubelet-serving
  usages: [digital signature, server auth]
  request: ` + base64.StdEncoding.EncodeToString(request) + "\n"
}
