package cli

import (
	"encoding/pem"
	"strings"
	"testing"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/memory"
)

// kubeconfigOf is a kubeconfig of a user with these credentials.
func kubeconfigOf(credentials string) string {
	return `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.10:6443"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {` + credentials + `}}]
`
}

// One file that has no certificate spoils its own row and its own renewal only. The command still fails.
func TestUnreadableCertificateSpoilsItsOwnRow(t *testing.T) {
	const server, admin = "/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/admin.conf"
	for name, c := range map[string]struct{ file, text, row, want, hint string }{
		"a damaged certificate": {server, "nonsense", "!UNREADABLE! apiserver ",
			"reading " + server + ": no certificate", "kubeadm init phase certs apiserver"},
		"an empty certificate": {server, "", "!UNREADABLE! apiserver ",
			"reading " + server + ": no certificate", "kubeadm init phase certs apiserver"},
		"a certificate in DER form": {server, "DER", "!UNREADABLE! apiserver ",
			"reading " + server + ": no certificate", "openssl x509 -inform der -in " + server + " -out " + server},
		"a damaged kubeconfig": {admin, "{", "!UNREADABLE! admin.conf ",
			"reading " + admin, "kubeadm init phase kubeconfig admin"},
		"a program": {admin, kubeconfigOf(
			"exec: {command: aws, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}"), "",
			"reading " + admin + ": kubeconfig does not embed a client certificate for its current user, which authenticates with the program aws",
			"renew this credential as it was created"},
		"a token": {admin, kubeconfigOf("token: s3cret"), "",
			"which authenticates with a token", "renew this credential as it was created"},
		"a file that does not exist": {admin, kubeconfigOf("client-certificate: a.crt, client-key: a.key"),
			"!UNREADABLE! admin.conf ",
			"reading the client certificate of " + admin + ": /etc/kubernetes/a.crt does not exist",
			"fix client-certificate of the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.initCluster(t)
			text := []byte(c.text)
			if c.text == "DER" {
				block, _ := pem.Decode(s.world.Files[server].Data)
				text = block.Bytes
			}
			s.world.Files[c.file] = memory.File{Data: text, Mode: 0o600}
			check := func(err error, want string) {
				t.Helper()
				hints := strings.Join(problem.Hints(err), "\n")
				if problem.ExitCode(err) != 1 || err == nil || !strings.Contains(err.Error(), want) ||
					!strings.Contains(hints, c.hint) {
					t.Errorf("got %v, %q", err, hints)
				}
			}
			s.out.Reset()
			check(s.run(t.Context(), "certs", "check-expiration", "--within", "1d"), c.want)
			for _, row := range []string{c.row, "\nscheduler.conf ", "\netcd-server ", "\nfront-proxy-ca "} {
				if !strings.Contains(s.out.String(), row) {
					t.Errorf("%q is not in %s", row, s.out.String())
				}
			}
			if c.row == "" && strings.Contains(s.out.String(), "\nadmin.conf ") {
				t.Errorf("a row for what has no certificate: %s", s.out.String())
			}
			before := s.certificate(t, "scheduler.conf")
			err := s.run(t.Context(), "certs", "renew", "all")
			if err == nil || !strings.Contains(err.Error(), " was skipped: reading "+c.file) {
				t.Errorf("renew all: %v", err)
			}
			if s.certificate(t, "scheduler.conf").Equal(before) {
				t.Error("another certificate was not renewed")
			}
			if string(s.world.Files[c.file].Data) != string(text) {
				t.Errorf("%s was changed", c.file)
			}
		})
	}
}

// A certificate in a file that a kubeconfig names is shown; kubeadm does not renew it.
func TestCertificateInNamedFile(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	cert := s.certificate(t, "admin.conf")
	s.world.Files["/etc/kubernetes/own.crt"] = memory.File{Data: pki.EncodeCertificates(cert), Mode: 0o644}
	s.world.Files["/etc/kubernetes/admin.conf"] = memory.File{Mode: 0o600,
		Data: []byte(kubeconfigOf("client-certificate: own.crt, client-key: own.key"))}
	s.out.Reset()
	err := s.run(t.Context(), "certs", "check-expiration")
	if row := "\nadmin.conf                 " + cert.NotAfter.UTC().Format("Jan 02, 2006 15:04"); err != nil ||
		!strings.Contains(s.out.String(), row) {
		t.Errorf("%v, no %q in %s", err, row, s.out.String())
	}
	if err := s.run(t.Context(), "certs", "renew", "admin.conf"); err == nil ||
		!strings.Contains(err.Error(), "authenticates with the certificate file own.crt") {
		t.Errorf("a renewal: %v", err)
	}
}

// Where a CA cannot be read, the dates of what it has signed are known.
func TestUnreadableCASpoilsItsOwnRow(t *testing.T) {
	for name, text := range map[string]string{"damaged": "nonsense", "missing": ""} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.initCluster(t)
			s.world.Files["/etc/kubernetes/pki/ca.crt"] = memory.File{Data: []byte(text), Mode: 0o644}
			if text == "" {
				delete(s.world.Files, "/etc/kubernetes/pki/ca.crt")
			}
			s.out.Reset()
			err := s.run(t.Context(), "certs", "check-expiration")
			if err == nil || strings.Count(err.Error(), "/etc/kubernetes/pki/ca.crt") != 1 {
				t.Errorf("got %v", err)
			}
			for _, row := range []string{"\napiserver    ", "\nadmin.conf   ", "! ca ", "\nfront-proxy-ca "} {
				if !strings.Contains(s.out.String(), row) {
					t.Errorf("%q is not in %s", row, s.out.String())
				}
			}
		})
	}
}
