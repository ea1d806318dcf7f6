package reset_test

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"kubeadm/internal/phase/reset"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// giveName writes a kubelet.conf for a node.
func giveName(t *testing.T, s *scene, name string) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	v := pki.NewValidity(s.Now(), 24*time.Hour)
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: "kubernetes", Validity: v})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(rand.Reader, pki.ClientSpec("system:node:"+name, []string{"system:nodes"}, v), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := pki.KubeconfigSpec{Server: "https://192.0.2.9:6443", Cluster: "c", User: "u",
		CA: pki.EncodeCertificates(ca.Certificate)}.WithToken("")
	config.AuthInfos["u"].ClientCertificateData = pki.EncodeCertificates(cert)
	config.AuthInfos["u"].ClientKeyData = text
	data, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.Files["/etc/kubernetes/kubelet.conf"] = memory.File{Data: data, Mode: 0o600}
}

// A machine whose name was changed incompletely leaves neither of its Nodes, and does not count the
// other one. That of another machine stays.
func TestLeavingClusterDuringRename(t *testing.T) {
	const (
		replacement = "\n---\n" + `{apiVersion: v1, kind: Node, metadata: {name: rack7, annotations: {kubeadm.kubernetes.io/renamed-from: cp1}}}`
		foreign     = "\n---\n{apiVersion: v1, kind: Node, metadata: {name: rack7}}"
	)
	for name, c := range map[string]struct {
		objects string
		left    []string
	}{
		"both are deleted":       {ownNode + otherNode + replacement, []string{"other"}},
		"that of another stays":  {ownNode + otherNode + foreign, []string{"other", "rack7"}},
		"the only machine stays": {ownNode + replacement, []string{"cp1", "rack7"}},
	} {
		s := leaving(t, c.objects)
		giveName(t, s, "cp1")
		s.Files[s.e.Local.Paths.Journal()+"/renaming.json"] = memory.File{Mode: 0o600,
			Data: []byte(`{"original": "cp1", "other": "rack7", "to": "rack7"}`)}
		if err := reset.LeaveCluster.Run(t.Context(), s.e); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all, err := s.List(t.Context(), state.Query{GVK: state.NodeKind})
		var left []string
		for _, u := range all {
			left = append(left, u.GetName())
		}
		slices.Sort(left)
		if err != nil || !slices.Equal(left, c.left) {
			t.Errorf("%s: the cluster has the Nodes %v (%v)", name, left, err)
		}
	}
}
