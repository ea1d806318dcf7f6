//go:build e2e

package e2e

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// TestEmbeddedKubeletCertificate embeds the kubelet's client certificate in kubelet.conf, as kubeadm
// did before v1.17. It is renewed while it is valid and after it has expired, and also where the
// kubelet has stored a newer one, with which it runs but does not start.
func TestEmbeddedKubeletCertificate(t *testing.T) {
	parallel(t)
	inFullRun(t, "minutes")
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	must(t, s.initAndJoin(t.Context()))
	ca, err := pki.StoredPair{Certificate: []byte(readFile(t, s.cp, certsDir+"ca.crt")),
		Key: []byte(readFile(t, s.cp, certsDir+"ca.key"))}.ParseCA()
	must(t, err)
	whole := func(c *x509.Certificate) []byte { return pki.EncodeCertificates(c) }
	expired := func(c *x509.Certificate) []byte { return expire(t, ca, c) }

	embedKubeletCertificate(t, s.cp, expired, keepStored)
	awaitKubeletFailure(t, s.cp)
	t.Log(runCommand(t, s.cp, kubeadm, "certs", "renew", "all", "--restart"))
	awaitLease(t, s, s.cp)
	checkRotation(t, s.cp)

	embedKubeletCertificate(t, s.cp, whole, removeStored)
	awaitLease(t, s, s.cp) // it has stored the certificate, to rotate it
	runCommand(t, s.cp, kubeadm, "certs", "renew", "kubelet.conf")
	awaitLease(t, s, s.cp)
	checkRotation(t, s.cp)

	old := embedKubeletCertificate(t, s.cp, expired, removeStored)
	awaitKubeletFailure(t, s.cp)
	t.Log(runCommand(t, s.cp, kubeadm, "certs", "renew", "all", "--restart"))
	checkEmbeddedCertificate(t, s, s.cp, old)

	for _, embedded := range []struct {
		certificate func(*x509.Certificate) []byte
		stored      string
	}{{expired, keepStored}, {whole, removeStored}, {expired, removeStored}} {
		embedKubeletCertificate(t, s.worker, embedded.certificate, embedded.stored)
		checkFails(t, s.worker, []string{"ca.key", "--token"}, kubeadm, "certs", "renew",
			"kubelet.conf")
		token := strings.TrimSpace(createToken(t, s.cp, kubeadm).Stdout)
		t.Log(runCommand(t, s.worker, kubeadm, "certs", "renew", "kubelet.conf", "--token", token))
		awaitLease(t, s, s.worker)
		checkRotation(t, s.worker)
	}
	must(t, s.cp.AwaitReady(t.Context(), 2))
}

// What becomes of the files that the kubelet has rotated, as a shell command.
const (
	keepStored   = "true"
	removeStored = "rm -f /var/lib/kubelet/pki/kubelet-client-*"
)

// embedKubeletCertificate writes the kubelet's key and a certificate for it into kubelet.conf, keeps or
// removes the files that the kubelet has rotated, and restarts it. It returns the certificate.
func embedKubeletCertificate(t *testing.T, n *nodes.Node,
	certificate func(*x509.Certificate) []byte, stored string) *x509.Certificate {
	t.Helper()
	text := runCommand(t, n, "cat", kubeletCertificate)
	pair, key, _ := strings.Cut(text, "-----END CERTIFICATE-----")
	certs, err := pki.ParseCertificates([]byte(pair + "-----END CERTIFICATE-----\n"))
	must(t, err)
	config, err := pki.ParseKubeconfig([]byte(readFile(t, n, kubernetesDir+"kubelet.conf")))
	must(t, err)
	user, err := config.CurrentUser()
	must(t, err)
	user.ClientCertificate, user.ClientKey = "", ""
	user.ClientCertificateData = certificate(certs[0])
	user.ClientKeyData = []byte(strings.TrimSpace(key) + "\n")
	data, err := config.Encode()
	must(t, err)
	runCommand(t, n, "systemctl", "stop", "kubelet")
	must(t, n.WriteFile(kubernetesDir+"kubelet.conf", data, 0o600))
	runShell(t, n, stored)
	runCommand(t, n, "systemctl", "start", "--no-block", "kubelet")
	return embeddedCertificate(t, n)
}

// embeddedCertificate returns the client certificate in kubelet.conf.
func embeddedCertificate(t *testing.T, n *nodes.Node) *x509.Certificate {
	t.Helper()
	config, err := pki.ParseKubeconfig([]byte(readFile(t, n, kubernetesDir+"kubelet.conf")))
	must(t, err)
	user, err := config.CurrentUser()
	must(t, err)
	return parseOne(t, string(user.ClientCertificateData))
}

// checkEmbeddedCertificate checks that kubelet.conf has another certificate than the old one, which
// is valid, and that the kubelet works.
func checkEmbeddedCertificate(t *testing.T, s *testCluster, n *nodes.Node, old *x509.Certificate) {
	t.Helper()
	renewed := embeddedCertificate(t, n)
	if bytes.Equal(renewed.Raw, old.Raw) || renewed.Subject.String() != old.Subject.String() {
		t.Errorf("the certificate in kubelet.conf is of %s, serial number %x", renewed.Subject,
			renewed.SerialNumber)
	}
	if err := pki.CheckPeriod(renewed, time.Now()); err != nil {
		t.Error(err)
	}
	awaitLease(t, s, n)
}

// awaitLease waits until the kubelet renews the lease of its Node, from now on.
func awaitLease(t *testing.T, s *testCluster, n *nodes.Node) {
	t.Helper()
	since := time.Now()
	await(t, "the kubelet of "+n.Name(), waitLimit, func() error {
		text := kubectl(t, s.cp, "--namespace=kube-node-lease", "get", "lease", n.Name(),
			"--output=jsonpath={.spec.renewTime}")
		renewed, err := time.Parse(time.RFC3339Nano, text)
		if err == nil && !renewed.After(since) {
			err = fmt.Errorf("its lease is of %s", text)
		}
		return err
	})
}

// awaitKubeletFailure waits until the kubelet cannot start as its certificate has expired.
func awaitKubeletFailure(t *testing.T, n *nodes.Node) {
	t.Helper()
	await(t, "the kubelet of "+n.Name()+" to fail", waitLimit, func() error {
		log := runShell(t, n, "journalctl -u kubelet --no-pager --lines=30")
		if !strings.Contains(log, "bootstrap-kubelet.conf: no such file") {
			return fmt.Errorf("its log is\n%s", log)
		}
		return nil
	})
}
