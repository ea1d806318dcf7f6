package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/memory"
)

// certificate reads one that can be renewed.
func (s *testMachine) certificate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	for _, r := range pki.Renewables() {
		if r.Name != name {
			continue
		}
		path := "/etc/kubernetes/" + r.File
		if r.File == "" {
			path = node.DefaultPaths().Cert(r.Base)
		}
		cert, err := r.Certificate(s.world.Files[path].Data)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return cert
	}
	t.Fatalf("nothing is named %s", name)
	return nil
}

// keptDetails is what a renewal keeps.
type keptDetails struct {
	Name, Groups, Names, Addresses string
	Usages                         []x509.ExtKeyUsage
	Key                            pki.Algorithm
}

func keptOf(c *x509.Certificate) keptDetails {
	kind, _ := pki.AlgorithmOf(c.PublicKey)
	var addresses []string
	for _, ip := range c.IPAddresses {
		addresses = append(addresses, ip.String())
	}
	return keptDetails{c.Subject.CommonName, strings.Join(c.Subject.Organization, ","),
		strings.Join(c.DNSNames, ","),
		strings.Join(addresses, ","), c.ExtKeyUsage, kind}
}

func TestRenewalKeepsSubjectAndSANs(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	before := map[string]*x509.Certificate{}
	for _, r := range pki.Renewables() {
		before[r.Name] = s.certificate(t, r.Name)
	}
	s.world.Clock = memory.NewTickingClock(s.world.Now().Add(100 * 24 * time.Hour))
	if err := s.run(t.Context(), "certs", "renew", "all"); err != nil {
		t.Fatal(err)
	}
	for name, old := range before {
		renewed := s.certificate(t, name)
		if diff := cmp.Diff(keptOf(old), keptOf(renewed)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if renewed.SerialNumber.Cmp(old.SerialNumber) == 0 ||
			!renewed.NotAfter.After(old.NotAfter.Add(99*24*time.Hour)) {
			t.Errorf("%s ends at %s, after %s", name, renewed.NotAfter, old.NotAfter)
		}
		if bytes.Equal(renewed.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo) {
			t.Errorf("%s has the same key as before", name)
		}
	}
}

// A renewal that is killed between two files leaves a key without its certificate.
// check-expiration and the renewal of another certificate warn; the renewal of that certificate
// fixes it.
func TestMismatchedKeyIsWarnedAbout(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	path := node.DefaultPaths().Key("etcd/server")
	file := s.world.Files[path]
	file.Data = []byte(anotherKey(t))
	s.world.Files[path] = file
	const want = "[certs] warning: /etc/kubernetes/pki/etcd/server.key does not match /etc/kubernetes/pki/etcd/server.crt: " +
		"components that use them cannot start; to renew both: kubeadm certs renew etcd-server\n"
	for _, step := range []struct{ command, want string }{
		{"check-expiration", want}, {"renew apiserver", want}, {"renew etcd-server", ""},
		{"check-expiration", ""},
	} {
		if err := s.run(t.Context(),
			append([]string{"certs"}, strings.Fields(step.command)...)...); err != nil ||
			s.err.String() != step.want {
			t.Errorf("certs %s: %v, %q", step.command, err, s.err.String())
		}
	}
}

// When certificates expire does not depend on the key of the CA, which only a renewal needs.
func TestUnusableCAKeyIsWarnedAbout(t *testing.T) {
	for name, c := range map[string]struct{ key, want string }{
		"of another CA": {anotherKey(t), "does not match /etc/kubernetes/pki/ca.crt"},
		"garbled":       {"nonsense", "contains no usable private key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.initCluster(t)
			path := node.DefaultPaths().Key("ca")
			file := s.world.Files[path]
			file.Data = []byte(c.key)
			s.world.Files[path] = file
			err := s.run(t.Context(), "certs", "check-expiration")
			if text := s.err.String(); err != nil || !strings.Contains(text, path+" "+c.want) ||
				!strings.Contains(text, "certificates of this CA cannot be renewed") {
				t.Errorf("check-expiration: %v, %q", err, text)
			}
			if strings.Contains(s.out.String(), "yes") ||
				!strings.Contains(s.out.String(), "apiserver") {
				t.Errorf("check-expiration printed %q", s.out.String())
			}
			if err := s.run(t.Context(), "certs", "renew", "apiserver"); err == nil {
				t.Error("a certificate was renewed")
			}
		})
	}
}

func TestRelativeCertDirIsRefused(t *testing.T) {
	for _, command := range []string{"check-expiration", "renew apiserver", "renew all"} {
		s := newTestMachine(t)
		s.initCluster(t)
		before := s.world.Snapshot()
		err := s.run(t.Context(), append(append([]string{"certs"}, strings.Fields(command)...),
			"--cert-dir", "pki")...)
		if err == nil || !strings.Contains(err.Error(), `--cert-dir "pki" is not an absolute path`) {
			t.Errorf("certs %s: %v", command, err)
		}
		if s.world.Snapshot() != before {
			t.Errorf("certs %s has changed something", command)
		}
	}
}

// Which kind of key a renewed certificate has is for the cluster to say; where that cannot be asked
// it stays.
func TestRenewalKeyAlgorithm(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *testMachine)
		args    []string
		want    pki.Algorithm
	}{
		"the cluster says": {want: pki.ECDSAP256},
		"a file says": {args: []string{"--config", "/p384.yaml"}, prepare: func(s *testMachine) {
			s.world.Files["/p384.yaml"] = memory.File{Data: []byte(strings.ReplaceAll(string(quick),
				"P256", "P384")), Mode: 0o644}
		}, want: pki.ECDSAP384},
		"no API server": {want: pki.ECDSAP256,
			prepare: func(s *testMachine) { clear(s.world.Objects) }},
		"there is no cluster": {args: []string{"--kubeconfig", "/none"}, want: pki.ECDSAP256},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.initCluster(t)
			if c.prepare != nil {
				c.prepare(s)
			}
			if err := s.run(t.Context(),
				append([]string{"certs", "renew", "apiserver"}, c.args...)...); err != nil {
				t.Fatal(err)
			}
			if got, _ := pki.AlgorithmOf(s.certificate(t, "apiserver").PublicKey); got != c.want {
				t.Errorf("the new key is %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnrenewableCertificateIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		file, data string
		args, want string
	}{
		"no certificate": {"/etc/kubernetes/pki/apiserver.crt", "x", "apiserver",
			"reading /etc/kubernetes/pki/apiserver.crt: no certificate in PEM form"},
		"no kubeconfig": {"/etc/kubernetes/scheduler.conf", "{", "scheduler.conf",
			"reading /etc/kubernetes/scheduler.conf: parsing a kubeconfig"},
		"a token inside": {"/etc/kubernetes/scheduler.conf", withToken, "scheduler.conf",
			"does not embed a client certificate"},
		"a damaged CA": {"/etc/kubernetes/pki/ca.crt", "x", "apiserver",
			"/etc/kubernetes/pki/ca.crt: no certificate in PEM form"},
		"a damaged CA's key": {"/etc/kubernetes/pki/ca.key", "x", "apiserver",
			"/etc/kubernetes/pki/ca.key contains no usable private key"},
		"another CA's key": {"/etc/kubernetes/pki/ca.key", anotherKey(t), "apiserver",
			"/etc/kubernetes/pki/ca.key does not match /etc/kubernetes/pki/ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.initCluster(t)
			s.world.Files[c.file] = memory.File{Data: []byte(c.data), Mode: 0o600}
			before := s.world.Snapshot()
			err := s.run(t.Context(), "certs", "renew", c.args)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if s.world.Snapshot() != before {
				t.Error("something was changed")
			}
		})
	}
}

const withToken = `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "eA=="}}],
"users": [{"name": "u", "user": {"token": "secret"}}]}`

func anotherKey(t *testing.T) string {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExistingCertificateWarnings(t *testing.T) {
	const base = "/etc/kubernetes/pki/apiserver"
	again := []string{"init", "phase", "certs", "apiserver", "--config", "/init.yaml"}
	s := newTestMachine(t)
	s.supplied(t)
	s.world.Files[base+".key"] = memory.File{Data: []byte(anotherKey(t)), Mode: 0o600}
	if err := s.run(t.Context(), again...); err != nil ||
		!strings.Contains(s.err.String(),
			base+".crt: its private key does not match") {
		t.Errorf("another key: %v; warned: %s", err, &s.err)
	}
	delete(s.world.Files, base+".key")
	if err := s.run(t.Context(), again...); err != nil ||
		!strings.Contains(s.err.String(), base+".crt: the private key file does not exist") {
		t.Errorf("no key: %v; warned: %s", err, &s.err)
	}
}

func TestExpiredCertificateHasRenewHint(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	s.world.Clock = memory.NewTickingClock(s.world.Now().Add(2 * 365 * 24 * time.Hour))
	err := s.run(t.Context(), "init", "phase", "certs", "apiserver", "--config", "/init.yaml")
	if err == nil || !strings.Contains(err.Error(), "expired") ||
		!slices.Contains(problem.Hints(err), "to renew it: kubeadm certs renew apiserver") {
		t.Errorf("got %v, %v", err, problem.Hints(err))
	}
	if err := s.run(t.Context(), "certs", "check-expiration"); err != nil ||
		!strings.Contains(s.out.String(), "<invalid>") {
		t.Errorf("%v: %s", err, &s.out)
	}
	if err := s.run(t.Context(), "certs", "renew", "all"); err != nil {
		t.Error(err)
	}
	if err := s.run(t.Context(), "init", "phase", "certs", "all", "--config",
		"/init.yaml"); err != nil {
		t.Errorf("after a renewal: %v", err)
	}
}
