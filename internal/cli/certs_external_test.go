package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io/fs"
	"path"
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

const csrDir = "/root/renewal"

// externalMachine is a control plane without the key of the cluster CA, and that CA.
func externalMachine(t *testing.T) (*testMachine, pki.CA) {
	t.Helper()
	s := newForeignMachine(t)
	s.initCluster(t)
	ca, err := pki.StoredPair{Certificate: s.world.Files["/etc/kubernetes/pki/ca.crt"].Data,
		Key: s.world.Files["/etc/kubernetes/pki/ca.key"].Data}.ParseCA()
	if err != nil {
		t.Fatal(err)
	}
	delete(s.world.Files, "/etc/kubernetes/pki/ca.key")
	s.world.Clock = memory.NewTickingClock(s.world.Now().Add(100 * 24 * time.Hour))
	return s, ca
}

// answer signs the requests of certificates of the cluster CA, as an external CA does.
func (s *testMachine) answer(t *testing.T, ca pki.CA, edit func(name string, spec *pki.Spec)) {
	t.Helper()
	for _, c := range pki.Renewables() {
		if c.Issuer != pki.ClusterCA {
			continue
		}
		base := path.Join(csrDir, c.Base+c.File)
		asked, err := pki.ParseRequest(s.world.Files[base+".csr"].Data)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		spec := pki.RenewalSpec(s.certificate(t, c.Name),
			pki.NewValidity(s.world.Now(), 365*24*time.Hour))
		edit(c.Name, &spec)
		cert, err := ca.Issue(rand.Reader, spec, asked.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		s.world.Files[base+".crt"] = memory.File{Data: pki.EncodeCertificates(cert), Mode: 0o644}
	}
}

// The certificates of the cluster CA, which is external, come from the directory; those of etcd's CA
// are signed here.
func TestRenewalByExternalCA(t *testing.T) {
	s, ca := externalMachine(t)
	before := map[string]*x509.Certificate{}
	for _, c := range pki.Renewables() {
		before[c.Name] = s.certificate(t, c.Name)
	}
	request := []string{"certs", "renew", "all", "--csr-only", "--csr-dir", csrDir}
	if err := s.run(t.Context(), request...); err != nil {
		t.Fatal(err)
	}
	key := s.world.Files[csrDir+"/admin.conf.key"]
	if key.Mode != 0o600 || len(key.Data) == 0 {
		t.Errorf("the key is %+v", key.Mode)
	}
	if _, ok := s.world.Files[csrDir+"/etcd/server.csr"]; ok {
		t.Error("a request for a certificate of a CA on this machine was written")
	}
	if err := s.run(t.Context(), request...); err != nil ||
		string(s.world.Files[csrDir+"/admin.conf.key"].Data) != string(key.Data) {
		t.Errorf("a second run does not keep the requests: %v", err)
	}
	s.answer(t, ca, func(string, *pki.Spec) {})
	if err := s.run(t.Context(), "certs", "renew", "all", "--csr-dir", csrDir); err != nil {
		t.Fatal(err)
	}
	for name, old := range before {
		if now := s.certificate(t, name); now.SerialNumber.Cmp(old.SerialNumber) == 0 {
			t.Errorf("%s was not renewed", name)
		} else if diff := cmp.Diff(keptOf(old), keptOf(now)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	written := s.world.Snapshot()
	if err := s.run(t.Context(), request...); err == nil ||
		!strings.Contains(err.Error(), "already has the key in "+csrDir) {
		t.Errorf("the directory of an earlier renewal: %v", err)
	}
	if s.world.Snapshot() != written {
		t.Error("a refused request has changed something")
	}
	if got := keyPairWarnings(t.Context(), s.world, &node.Node{Local: node.Local{
		Paths: node.DefaultPaths()}}); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// A run that was killed between a key and its certificate is resumed, and what is left of it does not
// keep the others from being requested.
func TestInterruptedRenewalByExternalCA(t *testing.T) {
	for _, left := range []string{"apiserver.key", "apiserver.crt"} {
		s, ca := externalMachine(t)
		request := []string{"certs", "renew", "all", "--csr-only", "--csr-dir", csrDir}
		if err := s.run(t.Context(), request...); err != nil {
			t.Fatal(err)
		}
		s.answer(t, ca, func(string, *pki.Spec) {})
		half := s.world.Files["/etc/kubernetes/pki/"+left]
		half.Data = s.world.Files[csrDir+"/"+left].Data
		s.world.Files["/etc/kubernetes/pki/"+left] = half
		if err := s.run(t.Context(), "certs", "renew", "scheduler.conf", "--csr-only", "--csr-dir",
			csrDir); err != nil {
			t.Errorf("%s: a request: %v", left, err)
		}
		if err := s.run(t.Context(), "certs", "renew", "all", "--csr-dir", csrDir); err != nil {
			t.Errorf("%s: %v", left, err)
		}
		n := &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}
		found, err := expirationsOf(t.Context(), s.world, n)
		if err = errors.Join(append(found.unreadable, err)...); err != nil {
			t.Errorf("%s: afterwards: %v", left, err)
		}
	}
}

// A request from before the certificate got other names would be signed, and then be refused.
func TestRequestOfOtherNamesIsNotKept(t *testing.T) {
	s, ca := externalMachine(t)
	request := []string{"certs", "renew", "apiserver", "--csr-only", "--csr-dir", csrDir}
	if err := s.run(t.Context(), request...); err != nil {
		t.Fatal(err)
	}
	spec := pki.RenewalSpec(s.certificate(t, "apiserver"), pki.NewValidity(s.world.Now(), time.Hour))
	spec.SANs.DNSNames = append(spec.SANs.DNSNames, "api.example.com")
	key, err := pki.ParseKey(s.world.Files["/etc/kubernetes/pki/apiserver.key"].Data)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(rand.Reader, spec, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	s.world.Files["/etc/kubernetes/pki/apiserver.crt"] = memory.File{Data: pki.EncodeCertificates(cert), Mode: 0o644}
	err = s.run(t.Context(), request...)
	if err == nil || !strings.Contains(err.Error(), "the subject or names in "+csrDir+"/apiserver.csr differ from") {
		t.Errorf("got %v", err)
	}
	delete(s.world.Files, csrDir+"/apiserver.csr")
	if err := s.run(t.Context(), request...); err != nil {
		t.Error(err)
	}
}

// setOwner makes a user the owner of a file or directory, with this mode.
func (s *testMachine) setOwner(name string, uid int, mode fs.FileMode) {
	f := s.world.Files[name]
	f.UID, f.Mode = uid, mode
	s.world.Files[name] = f
}

// A directory that another user owns or can change may contain that user's key, or have it later:
// whoever has the key of admin.conf has its rights.
func TestRequestsNeedPrivateDirectory(t *testing.T) {
	for name, prepare := range map[string]func(s *testMachine){
		"the directory of another user": func(s *testMachine) {
			s.setOwner(csrDir, 65534, fs.ModeDir|0o755)
		},
		"a directory that others can change": func(s *testMachine) {
			s.setOwner(csrDir, 0, fs.ModeDir|0o775)
		},
		"a key that another user has put there": func(s *testMachine) {
			s.setOwner(csrDir, 0, fs.ModeDir|0o700)
			s.world.Files[csrDir+"/admin.conf.key"] = memory.File{UID: 65534, Mode: 0o600,
				Data: s.world.Files["/etc/kubernetes/pki/apiserver.key"].Data}
		},
		"a link in the place of a key": func(s *testMachine) {
			s.setOwner(csrDir, 0, fs.ModeDir|0o700)
			s.world.Files[csrDir+"/admin.conf.key"] = memory.File{Mode: fs.ModeSymlink | 0o777,
				Data: []byte("/etc/kubernetes/pki/apiserver.key")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := externalMachine(t)
			prepare(s)
			before := s.world.Snapshot()
			err := s.run(t.Context(), "certs", "renew", "admin.conf", "--csr-only", "--csr-dir",
				csrDir)
			if err == nil || !strings.Contains(err.Error(), "cannot be trusted: "+csrDir) ||
				!strings.Contains(strings.Join(problem.Hints(err), " "), "--csr-dir") {
				t.Errorf("got %v, %q", err, problem.Hints(err))
			}
			if s.world.Snapshot() != before {
				t.Error("something was changed")
			}
		})
	}
}

// An external CA may put more into the file than the certificate; everybody can read what is
// installed.
func TestAnswerWithPrivateKey(t *testing.T) {
	s, ca := externalMachine(t)
	if err := s.run(t.Context(), "certs", "renew", "all", "--csr-only", "--csr-dir",
		csrDir); err != nil {
		t.Fatal(err)
	}
	s.answer(t, ca, func(string, *pki.Spec) {})
	answered := s.world.Files[csrDir+"/apiserver.crt"]
	answered.Data = slices.Concat([]byte("subject=/CN=kube-apiserver\n"),
		s.world.Files[csrDir+"/apiserver.key"].Data, answered.Data)
	s.world.Files[csrDir+"/apiserver.crt"] = answered
	if err := s.run(t.Context(), "certs", "renew", "all", "--csr-dir", csrDir); err != nil {
		t.Fatal(err)
	}
	installed := s.world.Files["/etc/kubernetes/pki/apiserver.crt"].Data
	if !bytes.HasPrefix(installed, []byte("-----BEGIN CERTIFICATE-----")) ||
		bytes.Contains(installed, []byte("KEY")) {
		t.Errorf("installed: %s", installed)
	}
}

// One wrong answer, and nothing is replaced.
func TestWrongAnswersOfExternalCA(t *testing.T) {
	_, foreign := externalMachine(t)
	for name, c := range map[string]struct {
		edit func(s *testMachine)
		spec func(spec *pki.Spec)
		want string
	}{
		"another subject": {spec: func(p *pki.Spec) { p.CommonName = "kube-proxy" },
			want: `its common name are "kube-proxy", but those of the current certificate are "kube-apiserver"`},
		"another group": {spec: func(p *pki.Spec) { p.Organization = []string{"system:masters"} },
			want: `its organizations are "system:masters"`},
		"a SAN is missing": {spec: func(p *pki.Spec) { p.SANs.DNSNames = p.SANs.DNSNames[1:] },
			want: "its DNS names are"},
		"another address": {spec: func(p *pki.Spec) { p.SANs.IPs = p.SANs.IPs[:1] },
			want: "its IP addresses are"},
		"another usage": {spec: func(p *pki.Spec) {
			p.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}, want: "its extended key usages are"},
		"expired": {spec: func(p *pki.Spec) {
			p.Validity.NotAfter = p.Validity.NotBefore.Add(time.Minute)
		}, want: "certificate has expired or is not yet valid"},
		"expires earlier": {spec: func(p *pki.Spec) {
			p.Validity.NotAfter = p.Validity.NotBefore.Add(200 * 24 * time.Hour)
		}, want: "before the current certificate"},
		"missing": {edit: func(s *testMachine) { delete(s.world.Files, csrDir+"/apiserver.crt") },
			want: csrDir + "/apiserver.crt does not exist"},
		"another key": {edit: func(s *testMachine) {
			s.world.Files[csrDir+"/apiserver.key"] = s.world.Files[csrDir+"/admin.conf.key"]
		}, want: "its private key does not match"},
		"another CA": {edit: func(s *testMachine) {
			s.answer(t, foreign, func(string, *pki.Spec) {})
		}, want: "does not verify against CA"},
		"a key of another user": {edit: func(s *testMachine) {
			s.setOwner(csrDir+"/admin.conf.key", 65534, 0o600)
		}, want: csrDir + "/admin.conf.key belongs to another user (uid 65534)"},
		"a key that others can read": {edit: func(s *testMachine) {
			s.setOwner(csrDir+"/admin.conf.key", 0, 0o644)
		}, want: csrDir + "/admin.conf.key can be read by other users (mode 0644)"},
		"a directory of another user": {edit: func(s *testMachine) {
			s.setOwner(csrDir, 65534, fs.ModeDir|0o700)
		}, want: csrDir + " belongs to another user (uid 65534)"},
		"a directory that others can change": {edit: func(s *testMachine) {
			s.setOwner(csrDir, 0, fs.ModeDir|fs.ModeSticky|0o777)
		}, want: csrDir + " can be changed by other users (mode 0777)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, ca := externalMachine(t)
			if err := s.run(t.Context(), "certs", "renew", "all", "--csr-only", "--csr-dir",
				csrDir); err != nil {
				t.Fatal(err)
			}
			s.answer(t, ca, func(name string, spec *pki.Spec) {
				if name == "apiserver" && c.spec != nil {
					c.spec(spec)
				}
			})
			if c.edit != nil {
				c.edit(s)
			}
			before := s.world.Snapshot()
			err := s.run(t.Context(), "certs", "renew", "all", "--csr-dir", csrDir)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if s.world.Snapshot() != before {
				t.Error("something was changed")
			}
		})
	}
}

// Where no certificate needs a request, the command says why and asks for no signature.
func TestNoRequestIsNeeded(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	delete(s.world.Files, "/etc/kubernetes/scheduler.conf")
	for name, want := range map[string]string{
		"admin.conf":     "admin.conf needs no request: the key of its CA is on this machine: /etc/kubernetes/pki/ca.key",
		"scheduler.conf": "scheduler.conf needs no request: /etc/kubernetes/scheduler.conf does not exist",
	} {
		s.out.Reset()
		err := s.run(t.Context(), "certs", "renew", name, "--csr-only", "--csr-dir", csrDir)
		text := s.out.String() + s.err.String()
		if err != nil || !strings.Contains(text, want) ||
			!strings.Contains(text, "No request was written") ||
			strings.Contains(text, "Have the external CA sign") {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
}
