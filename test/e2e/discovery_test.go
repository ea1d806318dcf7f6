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

// access leads to the shared cluster.
func access(t *testing.T, s *site) pki.Access {
	t.Helper()
	ca, err := s.cp.ReadFile("/etc/kubernetes/pki/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	return pki.Access{Server: "https://" + s.command[2], Cluster: "home", User: "joiner", CA: ca}
}

// joiner is a certificate, with its key, of a user who may do what a token may.
func joiner(t *testing.T, s *site) (cert, key string) {
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
	return issue(t, pki.CA{Certificate: certs[0], Key: private},
		pki.Spec{CommonName: "joiner", Organization: []string{bootstrappers}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// byFile is the command to join by a discovery file.
func byFile(name string, more ...string) []string {
	return append([]string{ours, "join", "--discovery-file", name, "--ignore-preflight-errors", nodes.IgnoredPreflight}, more...)
}

// put writes a kubeconfig to a node.
func put(t *testing.T, n *nodes.Node, k *pki.Kubeconfig) {
	t.Helper()
	text, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	write(t, n, discoveryFile, string(text))
}

// requestedBy checks as whom the node asked for its certificate, and that its credential for that is gone.
func requestedBy(t *testing.T, s *site, n *nodes.Node, user string) {
	t.Helper()
	awaitRegistered(t, s, n)
	if _, err := n.ReadFile("/etc/kubernetes/bootstrap-kubelet.conf"); err == nil {
		t.Error("the bootstrap credential is still there")
	}
	requests := get[certv1.CertificateSigningRequestList](t, s.cp, "certificatesigningrequests")
	if !slices.ContainsFunc(requests.Items, func(r certv1.CertificateSigningRequest) bool {
		asked, err := pki.ParseRequest(r.Spec.Request)
		return err == nil && asked.Subject.CommonName == "system:node:"+n.Name() && r.Spec.Username == user && len(r.Status.Certificate) > 0
	}) {
		t.Errorf("no request of %s by %s was granted", n.Name(), user)
	}
}

func TestS007_AFileWithoutCredentials(t *testing.T) {
	s := home(t)
	n := add(t, s.Cluster, "byfile")
	t.Cleanup(func() { expel(t, s, n) })
	write(t, n, discoveryFile, clusterInfo(t, s).Data["kubeconfig"])
	before := fingerprint(t, n)
	refused(t, n, []string{discoveryFile, "no credentials", "--tls-bootstrap-token"}, byFile(discoveryFile)...)
	unchanged(t, n, before)
	token := flagOf(t, s.command, "--token")
	run(t, n, byFile(discoveryFile, "--tls-bootstrap-token", token)...)
	awaitMember(t, s, n)
	requestedBy(t, s, n, "system:bootstrap:"+token[:6])
}

func TestS008_AFileWithAToken(t *testing.T) {
	s := home(t)
	n := add(t, s.Cluster, "bytoken")
	t.Cleanup(func() { expel(t, s, n) })
	token := flagOf(t, s.command, "--token")
	put(t, n, access(t, s).WithToken(token))
	run(t, n, byFile(discoveryFile)...)
	requestedBy(t, s, n, "system:bootstrap:"+token[:6])
}

func TestS009_AFileThatHoldsAClientCertificate(t *testing.T) {
	s := home(t)
	n := add(t, s.Cluster, "bycert")
	t.Cleanup(func() { expel(t, s, n) })
	cert, key := joiner(t, s)
	put(t, n, access(t, s).WithCertificate([]byte(cert), []byte(key)))
	run(t, n, byFile(discoveryFile)...)
	requestedBy(t, s, n, "joiner")
}

func TestS010_AFileThatNamesClientCertificateFiles(t *testing.T) {
	s := home(t)
	n := add(t, s.Cluster, "bycertfile")
	t.Cleanup(func() { expel(t, s, n) })
	cert, key := joiner(t, s)
	a := access(t, s)
	write(t, n, "/etc/joiner/ca.crt", string(a.CA))
	write(t, n, "/etc/joiner/tls.crt", cert)
	write(t, n, "/etc/joiner/tls.key", key)
	k := a.WithCertificate(nil, nil)
	to, user := k.Clusters["home"], k.AuthInfos["joiner"]
	to.CertificateAuthority, to.CertificateAuthorityData = "/etc/joiner/ca.crt", nil
	user.ClientCertificate, user.ClientKey = "joiner/tls.crt", "joiner/tls.key" // beside the file
	put(t, n, k)
	run(t, n, byFile(discoveryFile)...)
	requestedBy(t, s, n, "joiner")
}

// TestS007_AFileFromAWebServer joins by a file at an URL, whose server the machine trusts as its administrator wishes.
func TestS007_AFileFromAWebServer(t *testing.T) {
	s := home(t)
	n := add(t, s.Cluster, "byurl")
	t.Cleanup(func() { expel(t, s, n) })
	ca := authority(t, "company")
	plan := serving(t, s.worker, "8443", ca)
	plan.Answers["/cluster.conf"] = attacker.Answer{Status: http.StatusOK, Body: clusterInfo(t, s).Data["kubeconfig"]}
	web := impose(t, s.worker, plan)
	address, token := "https://"+plan.Listen+"/cluster.conf", flagOf(t, s.command, "--token")
	command := byFile(address, "--token", token)
	refused(t, n, []string{address, "failed to verify certificate", "update-ca-certificates"}, command...)
	trust(t, n, ca)
	refused(t, n, []string{"404 Not Found", address + "x"}, byFile(address+"x", "--token", token)...)
	run(t, n, command...)
	requestedBy(t, s, n, "system:bootstrap:"+token[:6])
	web.learnedNothing(t, token[7:])
}

// TestS047_AJoinThatMustBeApproved takes the automatic approval away. The join says which request waits, and ends well once an
// administrator has approved it.
func TestS047_AJoinThatMustBeApproved(t *testing.T) {
	s := home(t)
	kept := kubectl(t, s.cp, "get", "clusterrolebinding", approval, "--output=json")
	write(t, s.cp, "/root/binding.json", kept)
	t.Cleanup(func() {
		await(t, "the return of "+approval, patience, func() error {
			_, err := s.cp.Kubectl(context.Background(), "replace", "--force", "--filename=/root/binding.json")
			return err
		})
	})
	disapprove(t, s.cp)
	n := add(t, s.Cluster, "patient")
	t.Cleanup(func() { expel(t, s, n) })
	command, end := saying(t, n, " is pending: ", joinCommand(ours, s)...)
	if !strings.HasPrefix(command, "kubectl certificate approve csr-") {
		t.Fatalf("it says to give the command %q", command)
	}
	run(t, s.cp, append([]string{"env", "KUBECONFIG=/etc/kubernetes/admin.conf"}, strings.Fields(command)...)...)
	if result, err := end(); err != nil {
		t.Fatalf("%v\n%s", err, result.Stdout)
	}
	awaitMember(t, s, n)
	requestedBy(t, s, n, "system:bootstrap:"+flagOf(t, s.command, "--token")[:6])
}

// approval is the binding by which whoever has a token gets a certificate at once.
const approval = "kubeadm:node-autoapprove-bootstrap"

// disapprove deletes that binding and waits until the API server has heard of it, whom the approver asks.
func disapprove(t *testing.T, cp *nodes.Node) {
	t.Helper()
	kubectl(t, cp, "delete", "--ignore-not-found", "clusterrolebinding", approval)
	await(t, "an end of approvals", patience, func() error {
		if may(t, cp, "token", "create", "certificatesigningrequests.certificates.k8s.io", "--subresource=nodeclient") {
			return errors.New("a token's request would be approved")
		}
		return nil
	})
}

// saying runs a command until it says a line with these words, and returns the rest of that line. end waits for its end.
func saying(t *testing.T, n *nodes.Node, words string, args ...string) (rest string, end func() (nodes.Result, error)) {
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
				default: // it says so again
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
	case <-time.After(patience):
		_ = p.Kill()
		result, _ := end()
		t.Fatalf("it does not say %q:\n%s%s", words, result.Stdout, result.Stderr)
	}
	return rest, end
}
