//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/test/attacker"
	"kubeadm/test/nodes"
)

const clusterInfoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// rogueServer is an attacker's server on a node.
type rogueServer struct {
	process  *nodes.Process
	requests []attacker.Request // known after stop
}

// startRogueServer starts an attacker's server on a node and waits until it listens.
func startRogueServer(t *testing.T, n *nodes.Node, plan attacker.Plan) *rogueServer {
	t.Helper()
	const program = "/root/attack"
	if _, err := n.ReadFile(program); err != nil {
		built := filepath.Join(t.TempDir(), "attack")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", built,
			"kubeadm/test/attacker/attack")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := n.Copy(built, program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	command := n.Command(program)
	command.Stdin = bytes.NewReader(text)
	process, err := command.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := &rogueServer{process: process}
	t.Cleanup(func() { i.stop(t) })
	await(t, "the attacker's server at "+plan.Listen, waitLimit, func() error {
		c, err := n.Cluster().Dial(t.Context(), "tcp", plan.Listen)
		if err == nil {
			return c.Close()
		}
		if errors.Is(process.Signal(0), os.ErrProcessDone) {
			result, _ := process.Wait() // It has failed.
			i.process = nil
			t.Fatalf("the attacker's server has ended:\n%s", result.Stderr)
		}
		return err
	})
	return i
}

// stop kills the server and reads the requests that it received. At the end of a test, the server ends
// with the context of the test.
func (i *rogueServer) stop(t *testing.T) {
	t.Helper()
	if i.process == nil {
		return
	}
	if err := i.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	result, _ := i.process.Wait() // the error is the signal
	i.process = nil
	for d := json.NewDecoder(strings.NewReader(result.Stdout)); ; {
		var r attacker.Request
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("reading the attacker's requests: %v\n%s%s", err, result.Stdout, result.Stderr)
		}
		i.requests = append(i.requests, r)
	}
}

// checkNoCredentials checks that no request held a credential or one of the secrets.
func (i *rogueServer) checkNoCredentials(t *testing.T, secrets ...string) {
	t.Helper()
	i.stop(t)
	for _, r := range i.requests {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" ||
			len(r.Certificates) > 0 {
			t.Errorf("the attacker received credentials: %+v", r)
		}
		text := fmt.Sprint(r)
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("the attacker received a secret: %+v", r)
			}
		}
	}
}

// newTestCA creates a CA that no cluster uses.
func newTestCA(t *testing.T, name string) pki.CA {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, key,
		pki.Spec{CommonName: name, Validity: validityOfTwoHours()})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// validityOfTwoHours spans an hour before and after now.
func validityOfTwoHours() pki.Validity {
	return pki.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
}

// issueCertificate issues a certificate and generates its key, both as PEM.
func issueCertificate(t *testing.T, ca pki.CA, spec pki.Spec) (cert, key string) {
	t.Helper()
	private, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	spec.Validity = validityOfTwoHours()
	signed, err := ca.Issue(rand.Reader, spec, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(signed)), string(text)
}

// newServerPlan plans a TLS server on a node with a certificate issued by a CA.
func newServerPlan(t *testing.T, n *nodes.Node, port string, ca pki.CA) attacker.Plan {
	t.Helper()
	cert, key := issueCertificate(t, ca,
		pki.Spec{CommonName: "kube-apiserver",
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			SANs:   pki.SANs{IPs: []net.IP{net.ParseIP(n.Address())}}})
	return attacker.Plan{Listen: net.JoinHostPort(n.Address(), port), Cert: cert, Key: key,
		Answers: map[string]attacker.Answer{}}
}

// clusterInfoAnswer is the ConfigMap cluster-info as the API server would return it.
func clusterInfoAnswer(t *testing.T, data map[string]string) attacker.Answer {
	t.Helper()
	m := corev1.ConfigMap{Data: data}
	m.Name, m.Namespace = bootstrapapi.ConfigMapClusterInfo, "kube-public"
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return attacker.Answer{Status: http.StatusOK, Body: string(text)}
}

// signedClusterInfo is the data of a cluster-info that names a server and is signed with a token.
func signedClusterInfo(t *testing.T, server string, ca []byte, token string) map[string]string {
	t.Helper()
	info, err := manifest.ClusterInfo(pki.KubeconfigSpec{Server: server, Cluster: "kubernetes",
		User: "nobody", CA: ca}.WithToken(""))
	if err != nil {
		t.Fatal(err)
	}
	id, secret, _ := strings.Cut(token, ".")
	signature, err := jws.ComputeDetachedSignature(info.Data[bootstrapapi.KubeConfigKey], id,
		secret)
	if err != nil {
		t.Fatal(err)
	}
	info.Data[bootstrapapi.JWSSignatureKeyPrefix+id] = signature
	return info.Data
}
