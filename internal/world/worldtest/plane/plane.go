// Package plane starts real etcd and kube-apiserver processes on the loopback interface, for tests
// without a node. The programs are those in $KUBEADM_BUNDLE/bin.
package plane

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"kubeadm/internal/pki"
)

// BundleDir returns $KUBEADM_BUNDLE, the directory of the built components. If it is unset, the
// test is skipped.
func BundleDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEADM_BUNDLE")
	if dir == "" {
		t.Skip("KUBEADM_BUNDLE is not set")
	}
	return dir
}

// writeCertificates writes all certificates of a control plane at the loopback address below dir.
func writeCertificates(dir string) (map[string]pki.CA, error) {
	site := pki.NodeNames{NodeName: "plane", AdvertiseAddress: loopbackAddress(),
		ServiceSubnet: "10.96.0.0/12", DNSDomain: "cluster.local"}
	cas := map[string]pki.CA{}
	for _, p := range pki.Profiles() {
		spec, _, err := p.Spec(site, newValidity())
		if err != nil {
			return nil, err
		}
		key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
		if err != nil {
			return nil, err
		}
		pem, err := pki.EncodeKey(key)
		if err != nil {
			return nil, err
		}
		ca := pki.CA{Key: key}
		if p.IsCA() {
			ca, err = pki.NewCA(rand.Reader, key, spec)
			cas[p.Name] = ca
		} else {
			ca.Certificate, err = cas[p.Issuer].Issue(rand.Reader, spec, key.Public())
		}
		if err != nil {
			return nil, err
		}
		writeFile(dir, p.KeyFile(), pem)
		writeFile(dir, p.CertificateFile(), pki.EncodeCertificates(ca.Certificate))
	}
	return cas, nil
}

func newValidity() pki.Validity {
	return pki.Validity{NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour)}
}

// writeFile panics on errors.
func writeFile(dir, name string, data []byte) {
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		panic(err)
	}
}

// startProgram runs a program of the bundle until the test ends or kill is called. A failed test
// logs the end of its output.
func startProgram(t *testing.T, dir, program string, args ...string) (kill func()) {
	t.Helper()
	out, err := os.Create(filepath.Join(dir,
		fmt.Sprintf("%s-%d.log", program, time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(filepath.Join(BundleDir(t), "bin", program), args...)
	run.Stdout, run.Stderr = out, out
	run.SysProcAttr = endWithParent()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	t.Cleanup(func() {
		kill()
		_ = out.Close()
		if text, err := os.ReadFile(out.Name()); t.Failed() && err == nil {
			t.Logf("last output of %s:\n%s", program, text[max(0, len(text)-4096):])
		}
	})
	return kill
}

// loopbackAddress returns a loopback address that other processes do not use, unlike 127.0.0.1.
func loopbackAddress() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64|pid>>16&63, pid>>8&255, pid&255)
}

// freeAddress returns an unused "host:port".
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", loopbackAddress()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
