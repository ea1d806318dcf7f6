// Package plane starts etcd and kube-apiserver as plain processes on loopback, for tests that
// want the real ones and no node. The programs come from the folder bin below $KUBEADM_BUNDLE.
package plane

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"kubeadm/internal/pki"
)

// Bundle is the folder of the built components; without one the test is skipped.
func Bundle(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEADM_BUNDLE")
	if dir == "" {
		t.Skip("KUBEADM_BUNDLE names no folder of built components")
	}
	return dir
}

// certificates makes all of a control plane's certificates below dir; everything is at the address of host.
func certificates(dir string) (map[string]pki.CA, error) {
	site := pki.Site{NodeName: "plane", AdvertiseAddress: host(), ServiceSubnet: "10.96.0.0/12", DNSDomain: "cluster.local"}
	cas := map[string]pki.CA{}
	for _, p := range pki.Profiles() {
		spec, _, err := p.Spec(site, validity())
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
		write(dir, p.KeyFile(), pem)
		write(dir, p.CertificateFile(), pki.EncodeCertificates(ca.Certificate))
	}
	return cas, nil
}

func validity() pki.Validity {
	return pki.Validity{NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour)}
}

// write panics where a test cannot go on anyhow.
func write(dir, name string, data []byte) {
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		panic(err)
	}
}

// start runs a program of the bundle until the test ends, or kill is called; a failed test shows the end of its output.
func start(t *testing.T, dir, program string, args ...string) (kill func()) {
	t.Helper()
	out, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.log", program, time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(filepath.Join(Bundle(t), "bin", program), args...)
	run.Stdout, run.Stderr = out, out
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
			t.Logf("the end of what %s wrote:\n%s", program, text[max(0, len(text)-4096):])
		}
	})
	return kill
}

// host is an address of loopback that no other process listens at or calls from, as all do at 127.0.0.1.
func host() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64|pid>>16&63, pid>>8&255, pid&255)
}

// address is a free "host:port"; nobody takes it in the moment until it is used.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
