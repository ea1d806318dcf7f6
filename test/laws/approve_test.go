package laws

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"sync"
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

// approveSubject approves the requests of two kubelets for serving certificates. It changes the
// cluster alone and keeps no journal, so not every law applies to it.
func approveSubject() subject {
	return subject{name: "approve serving certificates", phases: workflow.ApproveKubeletServing(node.AllowedNames{}),
		machine: newServingRequests, setUp: setUpReset, node: "cp1"}
}

// Wherever an approval is killed, the same command goes on, and a dry run approves nothing.
func TestApprovalResumesAtEveryCrashPoint(t *testing.T) {
	s := approveSubject()
	whole := s.newRun(s.machine(t))
	out := whole.mustSucceed(t)
	if len(out.did) != 2 {
		t.Fatalf("did %v", describeChanges(out.did))
	}
	want := whole.machine.Snapshot()
	if again := whole.rerun().mustSucceed(t); len(again.did) > 0 {
		t.Errorf("the second run did %v", describeChanges(again.did))
	}
	forEachFault(len(out.did), func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			at.Crash = true
			r := s.newRun(s.machine(t))
			r.fault = at
			if first := r.execute(t); !first.crashed {
				t.Fatalf("the run did not get that far: %v", first.err)
			}
			r.rerun().mustSucceed(t)
			if diff := diffLines(want, r.machine.Snapshot()); diff != "" {
				t.Errorf("the cluster differs (-uninterrupted +resumed):\n%s", diff)
			}
		})
	})
	dry := s.newRun(s.machine(t))
	before := dry.machine.Snapshot()
	dry.asDryRun(t).mustSucceed(t)
	if diff := diffLines(before, dry.machine.Snapshot()); diff != "" {
		t.Errorf("the dry run changed the cluster:\n%s", diff)
	}
}

// newServingRequests is a control plane whose kubelets have requested serving certificates.
func newServingRequests(t testing.TB) *fake.World {
	w := usedControlPlane(t)
	for _, name := range []string{"worker1", "worker2"} {
		addObjects(t, w, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %[1]s},
  status: {addresses: [{type: Hostname, address: %[1]s}]}}`, name))
		addObjects(t, w, fmt.Sprintf(`{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest,
  metadata: {name: csr-of-%[1]s, uid: of-%[1]s},
  spec: {signerName: kubernetes.io/kubelet-serving, username: "system:node:%[1]s",
    groups: ["system:nodes"], usages: [digital signature, server auth], request: %[2]s}}`,
			name, servingRequests()[name]))
	}
	return w
}

// servingRequests are certificate requests of two kubelets, in base64. They are created once, as
// all copies of a machine must be equal.
var servingRequests = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, name := range []string{"worker1", "worker2"} {
		key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
		if err != nil {
			panic(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
			DNSNames: []string{name},
		}, key)
		if err != nil {
			panic(err)
		}
		all[name] = base64.StdEncoding.EncodeToString(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	}
	return all
})
