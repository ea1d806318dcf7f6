package cli

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/problem"
	"kubeadm/internal/world/memory"
)

// What is in use is only shown with --served, beside what is on disk.
func TestServedCertificates(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	s.world.Files["/var/lib/kubelet/pki/kubelet.crt"] = memory.File{Mode: 0o644,
		Data: s.world.Files["/etc/kubernetes/pki/apiserver.crt"].Data}
	show := func(args ...string) (found expirations) {
		t.Helper()
		if err := s.run(t.Context(), append([]string{"certs", "check-expiration", "-o", "json"},
			args...)...); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(s.out.Bytes(), &found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if show(); strings.Contains(s.out.String(), "served") || strings.Contains(s.out.String(), "kubelet-server") {
		t.Errorf("without --served: %s", &s.out)
	}
	old := s.certificate(t, "apiserver")
	s.world.OldCertificates = map[string]*x509.Certificate{"kube-apiserver": old}
	if err := s.run(t.Context(), "certs", "renew", "all"); err != nil {
		t.Fatal(err)
	}
	current := map[string]bool{}
	found := show("--served")
	for _, one := range found.Served {
		current[one.Component+" "+one.File] = one.IsCurrent
		if one.Component == "kube-apiserver" && one.Serial != fmt.Sprintf("%x", old.SerialNumber) {
			t.Errorf("kube-apiserver: %+v", one)
		}
	}
	for of, want := range map[string]bool{
		"etcd /etc/kubernetes/pki/etcd/server.crt":                        true,
		"etcd /etc/kubernetes/pki/etcd/peer.crt":                          true,
		"kube-apiserver /etc/kubernetes/pki/apiserver.crt":                false,
		"kube-controller-manager /etc/kubernetes/controller-manager.conf": false,
		"kube-scheduler /etc/kubernetes/scheduler.conf":                   false,
	} {
		if got, ok := current[of]; !ok || got != want {
			t.Errorf("%s is current: %v (found: %v), want %v", of, got, ok, want)
		}
	}
	var names []string
	for _, other := range found.Others {
		names = append(names, other.Name)
	}
	if strings.Join(names, " ") != "kubelet-client kubelet-server" {
		t.Errorf("others: %v", names)
	}
	if err := s.run(t.Context(), "certs", "check-expiration", "--served"); err != nil ||
		!strings.Contains(s.out.String(), "no: it serves a different one") {
		t.Errorf("%v\n%s", err, &s.out)
	}

	// kube-scheduler logs in with a certificate that is no longer on disk
	unknown := s.run(t.Context(), "certs", "check-expiration", "--served", "--within", "1d")
	if problem.ExitCode(unknown) != 1 || !strings.Contains(unknown.Error(), "cannot tell when the certificate in use expires: kube-controller-manager (it was started before the file was written), kube-scheduler (") ||
		!strings.Contains(strings.Join(problem.Hints(unknown), " "), "renew all --restart") {
		t.Errorf("got %v, %q", unknown, problem.Hints(unknown))
	}

	// the certificate on disk is valid, the served one expires
	s.world.Clock = memory.NewTickingClock(old.NotAfter.Add(-time.Hour))
	if err := s.run(t.Context(), "certs", "renew", "all"); err != nil {
		t.Fatal(err)
	}
	err := s.run(t.Context(), "certs", "check-expiration", "--served", "--within", "1d")
	if problem.ExitCode(err) != problem.ExitFound || !strings.Contains(err.Error(), "kube-apiserver at 192.0.2.10:6443") {
		t.Errorf("got %v", err)
	}
}

// A kubelet's serving certificate is not renewed with its client certificate.
func TestHintsForKubeletServer(t *testing.T) {
	soon := expirations{Others: []expiration{{Name: kubeletServer, Date: &metav1.Time{}}}}
	hints := strings.Join(problem.Hints(soon.checkWithin(time.Hour)), "\n")
	if strings.Contains(hints, "renew kubelet.conf") || !strings.Contains(hints, "kubelet.crt") ||
		!strings.Contains(hints, "approve-kubelet-serving") {
		t.Errorf("got %s", hints)
	}
}
