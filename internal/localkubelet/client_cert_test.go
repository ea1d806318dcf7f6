package localkubelet

import (
	"crypto/rand"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

const (
	kubeletConf = "/etc/kubernetes/kubelet.conf"
	pkiDir      = "/var/lib/kubelet/pki/"
	storedFile  = pkiDir + "kubelet-client-current.pem"
	day         = 24 * time.Hour
)

// newCA returns the cluster CA, which it writes to the machine.
func newCA(t *testing.T, w *fake.World) pki.CA {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: "kubernetes",
		Validity: pki.NewValidity(w.Now(), 3650*day)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(w, "/etc/kubernetes/pki/ca.crt", pki.EncodeCertificates(ca.Certificate))
	put(w, "/etc/kubernetes/pki/ca.key", text)
	return ca
}

func put(w *fake.World, file string, data []byte) {
	w.Files[file] = memory.File{Data: data, Mode: 0o600}
}

// issue returns a client certificate that expires after that time, and its key.
func issue(t *testing.T, w *fake.World, ca pki.CA, user string, valid time.Duration) []byte {
	t.Helper()
	e := engine.New(engine.Env{World: w, Rand: func(string) io.Reader { return rand.Reader }})
	v := pki.Validity{NotBefore: w.Now().Add(-100 * day), NotAfter: w.Now().Add(valid)}
	p, err := SignClientCert(e, ca, pki.ClientSpec(user, []string{"system:nodes"}, v))
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.EncodeKey(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(p.Certificate, key)
}

// putKubeletConf writes a kubelet.conf with this user, who may log in with any credentials.
func putKubeletConf(t *testing.T, w *fake.World, ca pki.CA, user api.AuthInfo) {
	t.Helper()
	config := pki.KubeconfigSpec{Server: "https://192.0.2.10:6443", Cluster: "kubernetes",
		User: "kubelet", CA: pki.EncodeCertificates(ca.Certificate)}.WithToken("")
	*config.AuthInfos["kubelet"] = user
	data, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(w, kubeletConf, data)
}

func TestWhichCertificateTheKubeletUses(t *testing.T) {
	w := fake.New()
	ca := newCA(t, w)
	embedded := issue(t, w, ca, "system:node:embedded", 100*day)
	valid := issue(t, w, ca, "system:node:stored", 100*day)
	certificate, _, _ := strings.Cut(string(valid), "-----BEGIN EC")
	inConf := api.AuthInfo{ClientCertificateData: embedded, ClientKeyData: embedded}
	named := api.AuthInfo{ClientCertificate: storedFile, ClientKey: storedFile}
	relative := "../../var/lib/kubelet/pki/kubelet-client-current.pem"
	for name, c := range map[string]struct {
		user       api.AuthInfo
		stored     []byte
		file, node string
		unusable   string // part of the error
		unmanaged  bool
	}{
		"the named file": {user: named, stored: valid, file: storedFile, node: "stored"},
		"a file named relative to kubelet.conf": {
			user:   api.AuthInfo{ClientCertificate: relative, ClientKey: relative},
			stored: valid, file: storedFile, node: "stored"},
		"a named file that does not exist": {user: named, file: storedFile,
			unusable: storedFile + ", which does not exist"},
		"a named file without a key": {user: named, stored: []byte(certificate),
			file: storedFile, node: "stored", unusable: "key"},
		"the embedded one, with none stored": {user: inConf, node: "embedded"},
		"the stored one instead of the embedded one": {user: inConf, stored: valid,
			file: storedFile, node: "stored"},
		"the embedded one, once the stored one has expired": {user: inConf, node: "embedded",
			stored: issue(t, w, ca, "system:node:stored", -day)},
		"the embedded one, as the stored one has no key": {user: inConf, node: "embedded",
			stored: []byte(certificate)},
		"certificate and key in two files": {unmanaged: true, stored: valid, file: storedFile,
			user: api.AuthInfo{ClientCertificate: storedFile, ClientKey: pkiDir + "key.pem"},
			node: "stored", unusable: "key.pem"},
		"no certificate": {user: api.AuthInfo{Token: "t"}, unusable: "does not name"},
	} {
		delete(w.Files, storedFile)
		if c.stored != nil {
			put(w, storedFile, c.stored)
		}
		putKubeletConf(t, w, ca, c.user)
		found, err := ReadClientCert(t.Context(), w, node.DefaultPaths())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := found.NodeName(t.Context(), w); found.File != c.file || got != c.node {
			t.Errorf("%s: read file %q, node %q; want %q, %q", name, found.File, got, c.file, c.node)
		}
		err = found.CheckUsable()
		if (err != nil) != (c.unusable != "") ||
			err != nil && !strings.Contains(err.Error(), c.unusable) {
			t.Errorf("%s: usable: %v", name, err)
		}
		if err := found.CheckManaged(); (err != nil) != c.unmanaged {
			t.Errorf("%s: managed: %v", name, err)
		}
	}
	delete(w.Files, kubeletConf)
	if found, err := ReadClientCert(t.Context(), w, node.DefaultPaths()); found != nil || err != nil {
		t.Errorf("without kubelet.conf: %v, %v", found, err)
	}
}

// After an expiry or a lost file, an earlier certificate still says for which node the next one is.
func TestNodeNameOfExpiredAndRotatedCertificates(t *testing.T) {
	w := fake.New()
	ca := newCA(t, w)
	expired := issue(t, w, ca, "system:node:worker1", -day)
	w.Files[path.Clean(pkiDir)] = memory.File{Mode: fs.ModeDir | 0o755}
	for name, c := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"expired": {map[string][]byte{"kubelet-client-current.pem": expired}, "worker1"},
		"lost, with an earlier one": {map[string][]byte{
			"kubelet-client-2025-01-01-00-00-00.pem": expired,
			"kubelet-client-2025-02-01-00-00-00.pem": []byte("damaged")}, "worker1"},
		"damaged, with an earlier one": {map[string][]byte{
			"kubelet-client-current.pem":             []byte("damaged"),
			"kubelet-client-2025-01-01-00-00-00.pem": expired}, "worker1"},
		"not of a node": {map[string][]byte{
			"kubelet-client-current.pem": issue(t, w, ca, "kubernetes-admin", day)}, ""},
		"lost, with a serving certificate": {map[string][]byte{"kubelet-server-current.pem": expired,
			"kubelet.crt": expired}, ""},
	} {
		for file := range w.Files {
			if strings.HasPrefix(file, pkiDir) {
				delete(w.Files, file)
			}
		}
		for file, data := range c.files {
			put(w, pkiDir+file, data)
		}
		putKubeletConf(t, w, ca, api.AuthInfo{ClientCertificate: storedFile, ClientKey: storedFile})
		found, err := ReadClientCert(t.Context(), w, node.DefaultPaths())
		if err != nil {
			t.Fatal(err)
		}
		if got := found.NodeName(t.Context(), w); got != c.want {
			t.Errorf("%s: the node is %q, want %q", name, got, c.want)
		}
	}
}

// A replacement writes up to two files: a new one beside the certificate before, or kubelet.conf, and
// the link. Killed at any change, it leaves a pair that belongs together, and Repair completes it.
func TestReplacementIsInterrupted(t *testing.T) {
	for name, arrange := range map[string]func(*fake.World, pki.CA){
		"named": func(w *fake.World, ca pki.CA) {
			const target = pkiDir + "kubelet-client-2025-01-01-00-00-00.pem"
			put(w, target, issue(t, w, ca, "system:node:cp1", -day))
			w.Files[storedFile] = memory.File{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
			putKubeletConf(t, w, ca, api.AuthInfo{ClientCertificate: storedFile, ClientKey: storedFile})
		},
		"embedded": func(w *fake.World, ca pki.CA) {
			pair := issue(t, w, ca, "system:node:cp1", -day)
			putKubeletConf(t, w, ca, api.AuthInfo{ClientCertificateData: pair, ClientKeyData: pair})
		},
		"embedded and expired, stored": func(w *fake.World, ca pki.CA) {
			pair := issue(t, w, ca, "system:node:cp1", -day)
			putKubeletConf(t, w, ca, api.AuthInfo{ClientCertificateData: pair, ClientKeyData: pair})
			put(w, storedFile, issue(t, w, ca, "system:node:cp1", 20*day))
		},
	} {
		newMachine := func() (*fake.World, pki.CA) {
			w := fake.New()
			ca := newCA(t, w)
			arrange(w, ca)
			w.Services[Service] = state.Service{Exists: true, Active: true, Since: w.Now()}
			return w, ca
		}
		changes := 0
		w, ca := newMachine()
		run(t, w, func(engine.Event) { changes++ })
		checkWorks(t, name, w, ca)
		if changes < 3 {
			t.Errorf("%s: the whole replacement has only %d changes", name, changes)
		}
		for at := range 2 * changes {
			w, ca := newMachine()
			faulty := &fault.World{World: w, At: at / 2, After: at%2 == 1, Crash: true}
			run(t, faulty, nil)
			c, err := ReadClientCert(t.Context(), w, node.DefaultPaths())
			if err == nil {
				err = c.CheckUsable()
			}
			if err != nil {
				t.Errorf("%s: killed at change %d (after it: %t): %v", name, at/2, at%2 == 1, err)
			}
			run(t, w, nil)
			checkWorks(t, name, w, ca)
		}
	}
}

// run runs Repair, which a crash may end. It calls count for each change.
func run(t *testing.T, in world.World, count func(engine.Event)) {
	t.Helper()
	defer func() {
		if crash := recover(); crash != nil && crash != (fault.Crash{}) {
			panic(crash)
		}
	}()
	e := engine.New(engine.Env{World: in, Rand: func(string) io.Reader { return rand.Reader },
		Emit: func(e engine.Event) {
			if e.Kind == engine.Did && count != nil {
				count(e)
			}
		}})
	n := &node.Node{Local: node.Local{Role: node.ControlPlane, Paths: node.DefaultPaths()}}
	if _, err := Repair(t.Context(), e, n); err != nil {
		t.Error(err)
	}
}

// checkWorks checks that the kubelet runs, with a valid certificate of its node.
func checkWorks(t *testing.T, name string, w *fake.World, ca pki.CA) {
	t.Helper()
	c, err := ReadClientCert(t.Context(), w, node.DefaultPaths())
	if err == nil {
		err = c.Check(ca.Certificate, w.Now())
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if got := c.NodeName(t.Context(), w); got != "cp1" || !w.Services[Service].Active {
		t.Errorf("%s: node %q, the kubelet is %+v", name, got, w.Services[Service])
	}
}
