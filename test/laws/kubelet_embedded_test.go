package laws

import (
	"strings"
	"testing"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// embedKubelet embeds a certificate and its key in kubelet.conf, as kubeadm did before v1.17. The
// kubelet has stored another one since, which it prefers.
func embedKubelet(t testing.TB, m *fake.World, pair []byte) {
	t.Helper()
	config, err := pki.ParseKubeconfig(m.Files[kubeletConf].Data)
	if err != nil {
		t.Fatal(err)
	}
	user, err := config.CurrentUser()
	if err != nil {
		t.Fatal(err)
	}
	user.ClientCertificate, user.ClientKey = "", ""
	user.ClientCertificateData, user.ClientKeyData = pair, pair
	data, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m.Files[kubeletConf] = memory.File{Data: data, Mode: 0o600}
}

// checkNamed checks that kubelet.conf names the file of the kubelet and embeds no certificate.
func checkNamed(t testing.TB, m *fake.World) {
	t.Helper()
	text := string(m.Files[kubeletConf].Data)
	if !strings.Contains(text, "client-certificate: "+rotatedCertificate) ||
		strings.Contains(text, "client-certificate-data") {
		t.Errorf("kubelet.conf is\n%s", text)
	}
}

// A kubelet whose kubelet.conf embeds an expired certificate runs with the stored one, until it is
// started again. Both commands that renew it end that, also after a kill at any change.
func TestExpiredEmbeddedCertificateIsReplacedByStoredOne(t *testing.T) {
	for _, s := range []subject{recoverSubject, renewKubeletSubject} {
		newMachine := func() *fake.World {
			m := s.machine(t)
			embedKubelet(t, m, m.Files[kubeletFile].Data)
			m.Files[kubeletFile] = memory.File{Data: issueKubelet(t, m, s.node), Mode: 0o600}
			return m
		}
		stored, err := localkubelet.ReadClientCert(t.Context(), newMachine(), node.DefaultPaths())
		if err != nil {
			t.Fatal(err)
		}
		if err := stored.Check(nil, newMachine().Now()); stored.File != rotatedCertificate ||
			err == nil || !strings.Contains(err.Error(), "does not embed the certificate") {
			t.Errorf("the kubelet uses %q: %v", stored.File, err)
		}
		whole := s.newRun(newMachine())
		whole.observe = newIssuingCluster(t, whole.machine).around
		out := whole.mustSucceed(t)
		checkKubelet(t, whole.machine, s.node)
		checkNamed(t, whole.machine)
		forEachFault(len(out.did), func(at *fault.World) {
			t.Run(s.name+"/"+faultName(at), func(t *testing.T) {
				t.Parallel()
				at.Crash = true
				r := s.newRun(newMachine())
				r.observe = newIssuingCluster(t, r.machine).around
				r.fault = at
				if first := r.execute(t); !first.crashed {
					t.Fatalf("the run did not get that far: %v", first.err)
				}
				r.rerun().mustSucceed(t)
				checkKubelet(t, r.machine, s.node)
				checkNamed(t, r.machine)
			})
		})
	}
}

// The old CA is only removed once the stored certificate is of the new one, which a replacement of
// the embedded one would hide.
func TestRotationReplacesStoredCertificateOfKubelet(t *testing.T) {
	w := newRotatingMachine(t)
	embedKubelet(t, w, w.Files[rotatedCertificate].Data)
	rotate(t, w, rotation.Trust, rotation.Sign)
	checkNamed(t, w)
	rotate(t, w, rotation.Finish)
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	ca, err := certstore.ReadCA(t.Context(), w, &node.Node{Local: node.Local{
		Paths: node.DefaultPaths()}}, profile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := localkubelet.ReadClientCert(t.Context(), w, node.DefaultPaths())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(ca.Certificate, w.Now()); err != nil {
		t.Errorf("after the rotation, the kubelet's certificate: %v", err)
	}
}

// An embedded certificate is the one in use if the stored one has expired.
func TestEmbeddedCertificateIsUsedOnceStoredOneHasExpired(t *testing.T) {
	m := expiredControlPlane(t)
	embedKubelet(t, m, issueKubelet(t, m, "cp1"))
	c, err := localkubelet.ReadClientCert(t.Context(), m, node.DefaultPaths())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(clusterCA(t).Certificate, m.Now().Add(time.Hour)); err != nil || c.File != "" {
		t.Errorf("the kubelet uses %q: %v", c.File, err)
	}
}
