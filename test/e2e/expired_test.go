//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// TestRecoverExpiredCluster lets all leaf certificates of a cluster expire, those of the kubelets too,
// and recovers it with one command for each node. With upstream, it takes several manual steps for each
// control plane and for each kubelet.
func TestRecoverExpiredCluster(t *testing.T) {
	parallel(t)
	planes, workers := 1, 1
	if suite.full {
		planes, workers = 3, 2
	}
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createFirst(t.Context(), planes, workers, nodes.Config{}))
	must(t, s.joinNodes(t.Context(), s.controlPlanes[1:]...))
	must(t, s.joinNodes(t.Context(), s.workers...))
	must(t, awaitClusterReady(t.Context(), s.cp, planes+workers))
	startWorkload(t, s.cp)
	containers := workloadContainers(t, s.cp)
	expireCluster(t, s)

	begun, commands := time.Now(), 0
	run := func(n *nodes.Node, args ...string) string {
		result, err := n.Run(t.Context(), append([]string{kubeadm, "certs", "renew"}, args...)...)
		commands++
		t.Logf("%s: %s: %s\n%s", n.Name(), strings.Join(args, " "), result.Duration.Round(time.Second/10),
			result.Stdout)
		must(t, err)
		return result.Stdout
	}
	last := s.controlPlanes[planes-1]
	for i, n := range s.controlPlanes[:planes-1] {
		want := `etcd has no quorum yet(?s:.*)Run it on each of the other control plane nodes`
		if i > 0 { // the kubelet of cp1 may not have reported yet
			want = `control plane nodes are not reporting to the API server: (cp1, )?` + last.Name() + `\.`
		}
		if !regexp.MustCompile(want).MatchString(run(n, "all", "--restart")) {
			t.Errorf("%s does not say %q", n.Name(), want)
		}
	}
	var names []string
	for _, n := range s.workers {
		names = append(names, n.Name())
	}
	found := regexp.MustCompile(strings.Join(names, ", ") +
		`\. [^\n]*\n[^\n]*\n\n  kubeadm certs renew (kubelet.conf --token \S+)`).
		FindStringSubmatch(run(last, "all", "--restart"))
	if found == nil {
		t.Fatalf("%s prints no command for the workers", last.Name())
	}
	for _, n := range s.workers {
		run(n, strings.Fields(found[1])...)
	}
	must(t, s.cp.AwaitReady(t.Context(), planes+workers))
	t.Logf("%d commands, %s until all nodes were Ready", commands, time.Since(begun).Round(time.Second/10))
	for _, n := range s.controlPlanes {
		awaitAPI(t, n, "")
		checkControlPlane(t, s, n)
	}
	checkVotingMembers(t, s.controlPlanes...)
	if now := workloadContainers(t, s.cp); now != containers {
		t.Errorf("the containers of the workload were\n%s\nand are\n%s", containers, now)
	}
	checkWorkload(t, &s.testCluster)
	for _, n := range s.Nodes() {
		checkRotation(t, n)
	}
	if suite.full {
		testRenewalUnderLoad(t, s)
	}
}

// testRenewalUnderLoad renews all certificates of all control planes with restarts, while a client
// writes through the load balancer. No request fails, and each server presents the new certificate.
func testRenewalUnderLoad(t *testing.T, s *haCluster) {
	t.Helper()
	l := startLoad(t, s.cp, s.worker)
	for _, n := range s.controlPlanes {
		result, err := n.Run(t.Context(), kubeadm, "certs", "renew", "all", "--restart")
		must(t, err)
		t.Logf("%s: renewed under load in %s", n.Name(), result.Duration.Round(time.Second/10))
	}
	l.endWithoutFailure(t, s.cp)
	for _, n := range s.controlPlanes {
		for port, base := range map[string]string{"6443": "apiserver", "2379": "etcd/server",
			"2380": "etcd/peer"} {
			certs, err := pki.ParseCertificates([]byte(readFile(t, n, certsDir+base+".crt")))
			must(t, err)
			if err := checkServingCertificate(t.Context(), n, port, certs[0]); err != nil {
				t.Errorf("%s: %v", n.Name(), err)
			}
		}
		served := runCommand(t, n, kubeadm, "certs", "check-expiration", "--served", "--within=1h")
		if strings.Contains(served, "no: ") || !strings.Contains(served, "kubelet-client") {
			t.Errorf("%s serves\n%s", n.Name(), served)
		}
	}
}

const kubeletCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// checkRotation checks that the kubelet has a valid certificate in a file that it can replace, and no
// bootstrap kubeconfig.
func checkRotation(t *testing.T, n *nodes.Node) {
	t.Helper()
	runShell(t, n, "test -L "+kubeletCertificate+"; test ! -e /etc/kubernetes/bootstrap-kubelet.conf")
	certs, err := pki.ParseCertificates([]byte(runCommand(t, n, "cat", kubeletCertificate)))
	must(t, err)
	if err := pki.CheckPeriod(certs[0], time.Now()); err != nil {
		t.Errorf("%s: %v", n.Name(), err)
	}
	if want := "CN=system:node:" + n.Name() + ",O=system:nodes"; certs[0].Subject.String() != want {
		t.Errorf("%s: the subject is %s", n.Name(), certs[0].Subject)
	}
}

// expireCluster replaces all leaf certificates by expired ones with the same keys, and waits until
// nothing works any more.
func expireCluster(t *testing.T, s *haCluster) {
	t.Helper()
	cas := map[string]pki.CA{}
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			ca, err := pki.StoredPair{Certificate: []byte(readFile(t, s.cp, certsDir+p.CertificateFile())),
				Key: []byte(readFile(t, s.cp, certsDir+p.KeyFile()))}.ParseCA()
			must(t, err)
			cas[p.Name] = ca
		}
	}
	for _, n := range s.controlPlanes {
		for _, c := range pki.Renewables() {
			expireFile(t, n, c, cas[c.Issuer])
		}
	}
	// Connections that exist would go on: etcd restarts with the expired certificates.
	for _, n := range s.controlPlanes {
		runCommand(t, n, "kill", "-9", readProcesses(t, n)["etcd"])
	}
	for _, n := range s.controlPlanes {
		await(t, "the API server of "+n.Name()+" to fail", waitLimit, func() error {
			if _, err := n.Kubectl(t.Context(), "--server=https://"+n.Address()+":6443", "get",
				"--raw", "/readyz"); err == nil {
				return fmt.Errorf("it answers")
			}
			return nil
		})
	}
	for _, n := range s.Nodes() {
		runCommand(t, n, "systemctl", "stop", "kubelet")
		text := runCommand(t, n, "cat", kubeletCertificate)
		certs, err := pki.ParseCertificates([]byte(text))
		must(t, err)
		_, key, _ := strings.Cut(text, "-----END CERTIFICATE-----")
		expired := string(expire(t, cas[pki.ClusterCA], certs[0])) + strings.TrimSpace(key) + "\n"
		target := runCommand(t, n, "readlink", "-f", kubeletCertificate)
		must(t, n.WriteFile(target, []byte(expired), 0o600))
		runCommand(t, n, "systemctl", "start", "--no-block", "kubelet")
	}
	for _, n := range s.Nodes() {
		awaitKubeletFailure(t, n)
	}
}

// expireFile replaces a certificate of a control plane by an expired one.
func expireFile(t *testing.T, n *nodes.Node, c pki.Renewable, ca pki.CA) {
	t.Helper()
	file := kubernetesDir + c.File
	if c.File == "" {
		file = certsDir + c.Base + ".crt"
	}
	if c.File == "super-admin.conf" && n.Name() != "cp1" {
		return
	}
	old := readFile(t, n, file)
	cert, err := c.Certificate([]byte(old))
	must(t, err)
	expired := expire(t, ca, cert)
	if c.File == "" {
		must(t, n.WriteFile(file, expired, 0o644))
		return
	}
	config, err := pki.ParseKubeconfig([]byte(old))
	must(t, err)
	user, err := config.CurrentUser()
	must(t, err)
	user.ClientCertificateData = expired
	data, err := config.Encode()
	must(t, err)
	must(t, n.WriteFile(file, bytes.TrimSpace(data), 0o600))
}

// expire returns the same certificate, which has expired a minute ago.
func expire(t *testing.T, ca pki.CA, cert *x509.Certificate) []byte {
	t.Helper()
	now := time.Now()
	spec := pki.RenewalSpec(cert, pki.Validity{NotBefore: now.Add(-365 * 24 * time.Hour),
		NotAfter: now.Add(-time.Minute)})
	return pki.EncodeCertificates(issueForKey(t, ca, spec, cert))
}

func issueForKey(t *testing.T, ca pki.CA, spec pki.Spec, of *x509.Certificate) *x509.Certificate {
	t.Helper()
	cert, err := ca.Issue(rand.Reader, spec, of.PublicKey)
	must(t, err)
	return cert
}
