package laws

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// issuingCluster issues what kubelets request, unless requests wait for approval. It records whether a valid
// certificate was ever missing.
type issuingCluster struct {
	world.World
	t        testing.TB
	machine  *fake.World
	approves bool
	missing  bool
}

func newIssuingCluster(t testing.TB, m *fake.World) *issuingCluster {
	return &issuingCluster{t: t, machine: m, approves: true}
}

func (w *issuingCluster) around(below world.World) world.World {
	w.World = below
	return w
}

func (w *issuingCluster) Do(ctx context.Context, c change.Change) error {
	err := w.World.Do(ctx, c)
	client, readErr := localkubelet.ReadClientCert(ctx, w.machine, node.DefaultPaths())
	w.missing = w.missing || readErr != nil || client == nil || client.Check(nil, w.machine.Now()) != nil
	applied, _ := c.(change.ApplyObject)
	csr, ok := applied.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || err != nil || !w.approves {
		return err
	}
	csr = csr.DeepCopy()
	asked, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		w.t.Fatal(err)
	}
	cert, err := clusterCA(w.t).Issue(rand.Reader, pki.ClientSpec(asked.Subject.CommonName, asked.Subject.Organization,
		pki.NewValidity(w.machine.Now(), 365*24*time.Hour)), asked.PublicKey)
	if err != nil {
		w.t.Fatal(err)
	}
	csr.Status.Certificate = pki.EncodeCertificates(cert)
	return w.machine.PutObject(csr)
}

// A certificate that is valid is not given up before the new one is issued, wherever the command is killed.
func TestValidKubeletCertificateIsKeptUntilTheNewOneIsIssued(t *testing.T) {
	start := func(approves bool) (run, *issuingCluster) {
		m := renewKubeletSubject.machine(t)
		m.Services["kubelet"] = state.Service{Exists: true, Enabled: true, Active: true, Since: m.Now()}
		m.Files[kubeletFile] = memory.File{Data: issueKubelet(t, m, "worker1"), Mode: 0o600}
		r := renewKubeletSubject.newRun(m)
		cluster := newIssuingCluster(t, m)
		cluster.approves, r.observe = approves, cluster.around
		return r, cluster
	}
	r, cluster := start(false)
	before, err := r.machine.ReadFile(t.Context(), rotatedCertificate)
	if err != nil {
		t.Fatal(err)
	}
	out := r.execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "it is not approved yet") {
		t.Errorf("without approval: %v", out.err)
	}
	after, err := r.machine.ReadFile(t.Context(), rotatedCertificate)
	if err != nil || !bytes.Equal(before, after) || cluster.missing || !r.machine.Services["kubelet"].Active {
		t.Errorf("without approval the kubelet has lost its certificate: %v, %v", err, describeChanges(out.did))
	}
	r, cluster = start(true)
	out = r.mustSucceed(t)
	checkKubelet(t, r.machine, "worker1")
	if after, err = r.machine.ReadFile(t.Context(), rotatedCertificate); err != nil || bytes.Equal(before, after) || cluster.missing {
		t.Errorf("the certificate was not replaced, or missing meanwhile: %v", err)
	}
	forEachFault(len(out.did), func(at *fault.World) {
		at.Crash = true
		r, cluster := start(true)
		r.fault = at
		if first := r.execute(t); !first.crashed || cluster.missing {
			t.Errorf("%s: crashed %t, certificate missing %t", faultName(at), first.crashed, cluster.missing)
		}
		r.rerun().mustSucceed(t)
		checkKubelet(t, r.machine, "worker1")
	})
}
