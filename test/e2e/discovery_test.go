//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"

	"kubeadm/internal/pki"
	"kubeadm/test/attacker"
	"kubeadm/test/nodes"
)

const discoveryFile = "/etc/discovery.conf"

// clusterAccess describes the shared cluster for a kubeconfig.
func clusterAccess(t *testing.T, s *testCluster) pki.KubeconfigSpec {
	t.Helper()
	ca, err := s.cp.ReadFile("/etc/kubernetes/pki/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	return pki.KubeconfigSpec{Server: "https://" + s.workerJoin[2], Cluster: "home", User: "joiner",
		CA: ca}
}

// issueJoinerCertificate issues a client certificate, with its key, of a user with a bootstrap
// token's permissions.
func issueJoinerCertificate(t *testing.T, s *testCluster) (cert, key string) {
	t.Helper()
	var files [2][]byte
	for i, name := range []string{"ca.crt", "ca.key"} {
		var err error
		if files[i], err = s.cp.ReadFile("/etc/kubernetes/pki/" + name); err != nil {
			t.Fatal(err)
		}
	}
	certs, err := pki.ParseCertificates(files[0])
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.ParseKey(files[1])
	if err != nil {
		t.Fatal(err)
	}
	return issueCertificate(t, pki.CA{Certificate: certs[0], Key: private},
		pki.Spec{CommonName: "joiner", Organization: []string{bootstrappersGroup},
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// joinByFileCommand returns the command that joins by a discovery file.
func joinByFileCommand(name string, more ...string) []string {
	return append([]string{kubeadm, "join", "--discovery-file", name, "--ignore-preflight-errors",
		nodes.IgnoredPreflight}, more...)
}

// writeDiscoveryFile writes a kubeconfig to a node as its discovery file.
func writeDiscoveryFile(t *testing.T, n *nodes.Node, k *pki.Kubeconfig) {
	t.Helper()
	text, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, n, discoveryFile, string(text))
}

// checkRequestedBy checks which user requested the node's certificate, and that the bootstrap
// kubeconfig is gone.
func checkRequestedBy(t *testing.T, s *testCluster, n *nodes.Node, user string) {
	t.Helper()
	awaitRegistered(t, s, n)
	if _, err := n.ReadFile("/etc/kubernetes/bootstrap-kubelet.conf"); err == nil {
		t.Error("bootstrap-kubelet.conf still exists")
	}
	requests := readObject[certv1.CertificateSigningRequestList](t, s.cp,
		"certificatesigningrequests")
	if !slices.ContainsFunc(requests.Items, func(r certv1.CertificateSigningRequest) bool {
		asked, err := pki.ParseRequest(r.Spec.Request)
		return err == nil && asked.Subject.CommonName == "system:node:"+n.Name() &&
			r.Spec.Username == user && len(r.Status.Certificate) > 0
	}) {
		t.Errorf("no request of %s by %s was granted", n.Name(), user)
	}
}

func TestDiscoveryFileWithoutCredentials(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "byfile")
	t.Cleanup(func() { removeNode(t, s, n) })
	writeFile(t, n, discoveryFile, awaitClusterInfo(t, s).Data["kubeconfig"])
	before := takeFingerprint(t, n)
	checkFails(t, n, []string{discoveryFile, "no credentials", "--tls-bootstrap-token"},
		joinByFileCommand(discoveryFile)...)
	checkUnchanged(t, n, before)
	token := flagValue(t, s.workerJoin, "--token")
	runCommand(t, n, joinByFileCommand(discoveryFile, "--tls-bootstrap-token", token)...)
	awaitJoined(t, s, n)
	checkRequestedBy(t, s, n, "system:bootstrap:"+token[:6])
}

func TestDiscoveryFileWithToken(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "bytoken")
	t.Cleanup(func() { removeNode(t, s, n) })
	token := flagValue(t, s.workerJoin, "--token")
	writeDiscoveryFile(t, n, clusterAccess(t, s).WithToken(token))
	runCommand(t, n, joinByFileCommand(discoveryFile)...)
	checkRequestedBy(t, s, n, "system:bootstrap:"+token[:6])
}

func TestDiscoveryFileWithEmbeddedClientCertificate(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "bycert")
	t.Cleanup(func() { removeNode(t, s, n) })
	cert, key := issueJoinerCertificate(t, s)
	writeDiscoveryFile(t, n, clusterAccess(t, s).WithCertificate([]byte(cert), []byte(key)))
	runCommand(t, n, joinByFileCommand(discoveryFile)...)
	checkRequestedBy(t, s, n, "joiner")
}

func TestDiscoveryFileWithClientCertificateFiles(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "bycertfile")
	t.Cleanup(func() { removeNode(t, s, n) })
	cert, key := issueJoinerCertificate(t, s)
	a := clusterAccess(t, s)
	writeFile(t, n, "/etc/joiner/ca.crt", string(a.CA))
	writeFile(t, n, "/etc/joiner/tls.crt", cert)
	writeFile(t, n, "/etc/joiner/tls.key", key)
	k := a.WithCertificate(nil, nil)
	to, user := k.Clusters["home"], k.AuthInfos["joiner"]
	to.CertificateAuthority, to.CertificateAuthorityData = "/etc/joiner/ca.crt", nil
	user.ClientCertificate, user.ClientKey = "joiner/tls.crt", "joiner/tls.key" // beside the file
	writeDiscoveryFile(t, n, k)
	runCommand(t, n, joinByFileCommand(discoveryFile)...)
	checkRequestedBy(t, s, n, "joiner")
}

// TestDiscoveryFileFromWebServer joins by a file at a URL, whose server's CA is in the machine's
// trust store.
func TestDiscoveryFileFromWebServer(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "byurl")
	t.Cleanup(func() { removeNode(t, s, n) })
	ca := newTestCA(t, "company")
	plan := newServerPlan(t, s.worker, "8443", ca)
	plan.Answers["/cluster.conf"] = attacker.Answer{Status: http.StatusOK,
		Body: awaitClusterInfo(t, s).Data["kubeconfig"]}
	web := startRogueServer(t, s.worker, plan)
	address, token := "https://"+plan.Listen+"/cluster.conf", flagValue(t, s.workerJoin, "--token")
	command := joinByFileCommand(address, "--token", token)
	checkFails(t, n, []string{address, "failed to verify certificate", "update-ca-certificates"},
		command...)
	trustCA(t, n, ca)
	checkFails(t, n, []string{"404 Not Found", address + "x"},
		joinByFileCommand(address+"x", "--token", token)...)
	runCommand(t, n, command...)
	checkRequestedBy(t, s, n, "system:bootstrap:"+token[:6])
	web.checkNoCredentials(t, token[7:])
}

// TestJoinWaitsForApproval removes the automatic approval. The join names the pending request, and
// succeeds once an administrator has approved it.
func TestJoinWaitsForApproval(t *testing.T) {
	s := sharedCluster(t)
	kept := kubectl(t, s.cp, "get", "clusterrolebinding", autoApproveBinding, "--output=json")
	writeFile(t, s.cp, "/root/binding.json", kept)
	t.Cleanup(func() {
		await(t, "the return of "+autoApproveBinding, waitLimit, func() error {
			_, err := s.cp.Kubectl(context.Background(), "replace", "--force",
				"--filename=/root/binding.json")
			return err
		})
	})
	removeAutoApproval(t, s.cp)
	n := addNode(t, s.Cluster, "patient")
	t.Cleanup(func() { removeNode(t, s, n) })
	command, end := runUntilOutput(t, n, " is pending: ", workerJoinCommand(kubeadm, s)...)
	if !strings.HasPrefix(command, "kubectl certificate approve csr-") {
		t.Fatalf("it names the command %q", command)
	}
	runCommand(t, s.cp, append([]string{"env", "KUBECONFIG=/etc/kubernetes/admin.conf"},
		strings.Fields(command)...)...)
	if result, err := end(); err != nil {
		t.Fatalf("%v\n%s", err, result.Stdout)
	}
	awaitJoined(t, s, n)
	checkRequestedBy(t, s, n, "system:bootstrap:"+flagValue(t, s.workerJoin, "--token")[:6])
}

// autoApproveBinding is the ClusterRoleBinding by which requests of bootstrap tokens are approved.
const autoApproveBinding = "kubeadm:node-autoapprove-bootstrap"

// removeAutoApproval deletes that binding and waits until the API server denies what it allowed.
func removeAutoApproval(t *testing.T, cp *nodes.Node) {
	t.Helper()
	kubectl(t, cp, "delete", "--ignore-not-found", "clusterrolebinding", autoApproveBinding)
	await(t, "automatic approval to end", waitLimit, func() error {
		if isAllowed(t, cp, "token", "create", "certificatesigningrequests.certificates.k8s.io",
			"--subresource=nodeclient") {
			return errors.New("a token's request would be approved")
		}
		return nil
	})
}

// runUntilOutput runs a command until it prints a line with these words, and returns the rest of
// that line. end waits until the command exits.
func runUntilOutput(t *testing.T, n *nodes.Node, words string,
	args ...string) (rest string, end func() (nodes.Result, error)) {
	t.Helper()
	read, write := io.Pipe()
	cmd := n.Command(args...)
	cmd.Stdout = write
	p, err := cmd.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if _, after, ok := strings.Cut(lines.Text(), words); ok {
				select {
				case said <- after:
				default: // it is printed again
				}
			}
		}
	}()
	end = func() (nodes.Result, error) {
		defer write.Close()
		return p.Wait()
	}
	select {
	case rest = <-said:
	case <-time.After(waitLimit):
		_ = p.Kill()
		result, _ := end()
		t.Fatalf("it does not print %q:\n%s%s", words, result.Stdout, result.Stderr)
	}
	return rest, end
}
