package rotateca

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// forgetSwitch stores that not all control plane nodes sign with the CA of a stage, if this one does
// not: one that joined with the keys of the other side. Until it has changed sides, its components
// may have signed tokens, and certificates of kubelets that had reached the stage.
func (m machine) forgetSwitch(ctx context.Context, s rotation.Stage) error {
	if m.Switched == nil || s != rotation.Sign && s != rotation.UndoSign {
		return nil
	}
	signs, err := m.signsWithOther(ctx, s)
	if err != nil || !signs {
		return err
	}
	m.e.Say("this node still signs with the %s keys: once it has caught up, run this on each worker "+
		"once more: kubeadm certs rotate-ca %s", sideName(!s.UsesNew()), s.Command())
	m.Switched = nil
	store, err := m.NewStoreChange(m.as)
	if err != nil {
		return err
	}
	return m.e.Do(ctx, store)
}

// signsWithOther reports whether this node has a key in use that is not of the side that signs in a
// stage.
func (m machine) signsWithOther(ctx context.Context, s rotation.Stage) (bool, error) {
	for _, a := range rotation.Authorities() {
		if !m.Replaces(a.Name) {
			continue
		}
		files := []string{m.node.Paths.Certificate(a.Key)}
		if a.Name == rotation.ClusterAuthority {
			_, key := m.node.Paths.RotationSigner()
			files = append(files, key)
		}
		for _, file := range files {
			exists, err := state.Exists(ctx, m.e.World, file)
			if err != nil {
				return false, err
			}
			if !exists {
				continue
			}
			_, err = readKey(ctx, m.e.World, a, m.active(s)[a.Name], file)
			if errors.Is(err, errKeyMissing) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// checkKubeletIssuers is an error if the CA that is to be removed has signed the client certificate
// that a worker's kubelet was given last, as far as the cluster still has its request:
// kube-controller-manager deletes one an hour after it was signed. Certificates that were signed
// before Switched are the matter of ReadProgress. A control plane node signs the certificate of its
// kubelet itself in each stage.
func (m machine) checkKubeletIssuers(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	newest := map[string]*x509.Certificate{}
	_, err := m.e.List(ctx, state.Query{As: m.as, GVK: certificatesv1.SchemeGroupVersion.
		WithKind("CertificateSigningRequest"), FieldSelector: "spec.signerName=" +
		certificatesv1.KubeAPIServerClientKubeletSignerName,
		Fields: []string{"spec.signerName", "status.certificate"},
		Keep: func(u *unstructured.Unstructured) bool {
			var csr certificatesv1.CertificateSigningRequest
			if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &csr) != nil {
				return false // it has no certificate of a kubelet
			}
			certs, err := pki.ParseCertificates(csr.Status.Certificate)
			if err != nil || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
				return false
			}
			name := certs[0].Subject.CommonName
			if last := newest[name]; last == nil || certs[0].NotBefore.After(last.NotBefore) {
				newest[name] = certs[0]
			}
			return false
		}})
	if err != nil {
		return err
	}
	old, err := m.listOldKubelets(ctx, newest, s)
	if err != nil {
		return err
	}
	if len(old) == 0 {
		return nil
	}
	slices.Sort(old)
	return problem.New(fmt.Errorf("the kubelets of these nodes have client certificates from the "+
		"CA that is about to be removed: %s", strings.Join(old, ", ")), "run this on each of them once "+
		"more: kubeadm certs rotate-ca "+m.Stage.Command())
}

// listOldKubelets returns the workers whose newest certificate, by user, is from the CA that a stage removes. It reads no
// Nodes if there is no such certificate.
func (m machine) listOldKubelets(ctx context.Context, newest map[string]*x509.Certificate, s rotation.Stage) (old []string, err error) {
	maps.DeleteFunc(newest, func(_ string, cert *x509.Certificate) bool { return !m.needsRenewal(cert, s) })
	if len(newest) == 0 {
		return nil, nil
	}
	nodes, err := m.ReadProgress(ctx, m.e.Reader(), m.as)
	for _, n := range nodes {
		if !n.ControlPlane && newest["system:node:"+n.Name] != nil {
			old = append(old, untrusted.Line(n.Name))
		}
	}
	return old, err
}
