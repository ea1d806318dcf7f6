//go:build e2e

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// renewCommand renews all certificates and restarts what uses old ones.
func renewCommand() []string {
	return []string{kubeadm, "certs", "renew", "all", "--restart", "-v=1"}
}

// TestRenewalInterruptedAtEveryChange kills "certs renew all --restart" at each of its changes and
// at any moment: while the certificates are valid the API server always answers. Then all have
// expired, that of the kubelet too, and the command is killed at each change of the recovery.
func TestRenewalInterruptedAtEveryChange(t *testing.T) {
	parallel(t)
	inFullRun(t, "minutes")
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createFirst(t.Context(), 1, 0, nodes.Config{}))
	must(t, awaitClusterReady(t.Context(), s.cp, 1))
	createWitness(t, s.cp)
	kill := interruptions[0]
	interruptAtEveryChange(t, kill, s.cp, s.cp, renewCommand())
	checkCertificatesInUse(t, s.cp)
	for range 6 {
		runKilledAtAnyMoment(t, s.cp, 3*time.Second, renewCommand())
		awaitWitness(t, s.cp)
	}
	runCommand(t, s.cp, renewCommand()...)
	checkCertificatesInUse(t, s.cp)

	expireCluster(t, s)
	interruptAtEveryChange(t, kill, s.cp, nil, renewCommand())
	awaitWitness(t, s.cp)
	checkCertificatesInUse(t, s.cp)
	checkRotation(t, s.cp)
	must(t, s.cp.AwaitReady(t.Context(), 1))
}

// runKilledAtAnyMoment kills a command at random within a time, or when it has finished.
func runKilledAtAnyMoment(t *testing.T, n *nodes.Node, within time.Duration, command []string) {
	t.Helper()
	p, err := n.Start(t.Context(), command...)
	must(t, err)
	moment := time.Duration(rand.Int64N(int64(within)))
	time.Sleep(moment)
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	result, _ := p.Wait() // It was killed.
	t.Logf("%s: killed after %s and%s", n.Name(), moment.Round(time.Millisecond),
		indentLines(lastLines(result.Stdout, 1)))
}

// checkCertificatesInUse checks that the components of a control plane use the certificates on disk,
// and that no key is of another certificate.
func checkCertificatesInUse(t *testing.T, cp *nodes.Node) {
	t.Helper()
	checkKeyPairs(t, cp)
	for port, name := range map[string]string{"6443": "apiserver", "2379": "etcd-server",
		"2380": "etcd-peer"} {
		if err := checkServingCertificate(t.Context(), cp, port,
			readRenewableCertificates(t, cp)[name]); err != nil {
			t.Error(err)
		}
	}
	if used := runCommand(t, cp, kubeadm, "certs", "check-expiration",
		"--served"); strings.Contains(used, "no: ") {
		t.Errorf("%s uses old certificates:\n%s", cp.Name(), used)
	}
	for _, file := range []string{"admin.conf", "super-admin.conf"} {
		await(t, file+" to be accepted", waitLimit, func() error {
			_, err := cp.Run(t.Context(), "kubectl", "--kubeconfig="+kubernetesDir+file, "get",
				"nodes")
			return err
		})
	}
}

// checkKeyPairs checks that each certificate of a control plane fits its key and its CA, and that no
// temporary file is left.
func checkKeyPairs(t *testing.T, cp *nodes.Node) {
	t.Helper()
	for _, c := range pki.Renewables() {
		cert, key := readKeyPair(t, cp, c)
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		profile, _ := pki.ProfileOf(c.Issuer)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(readFile(t, cp, certsDir+profile.CertificateFile())))
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if left := runShell(t, cp, "find /etc/kubernetes -name '.*.kubeadm-*'"); left != "" {
		t.Errorf("temporary files are left:\n%s", left)
	}
}

// readKeyPair reads a certificate and its key in PEM form.
func readKeyPair(t *testing.T, cp *nodes.Node, c pki.Renewable) (cert, key []byte) {
	t.Helper()
	if c.File == "" {
		return []byte(readFile(t, cp, certsDir+c.Base+".crt")),
			[]byte(readFile(t, cp, certsDir+c.Base+".key"))
	}
	config, err := pki.ParseKubeconfig([]byte(readFile(t, cp, kubernetesDir+c.File)))
	must(t, err)
	user, err := config.CurrentUser()
	must(t, err)
	return user.ClientCertificateData, user.ClientKeyData
}
