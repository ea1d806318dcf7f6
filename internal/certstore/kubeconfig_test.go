package certstore_test

import (
	"strings"
	"testing"

	"kubeadm/internal/certstore"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// An administrator's kubeconfig may name the CA by its path, relative to the kubeconfig.
func TestReadAdmin(t *testing.T) {
	const config = `{apiVersion: v1, kind: Config, current-context: x,
  contexts: [{name: x, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443", certificate-authority: pki/ca.crt}}],
  users: [{name: u, user: {client-certificate: gone.crt, client-key: gone.key}}]}`
	w := fake.New()
	w.Files["/srv/admin.conf"] = memory.File{Data: []byte(config), Mode: 0o600}
	if _, err := certstore.ReadAdmin(t.Context(), w, "/srv/admin.conf"); err == nil ||
		!strings.Contains(err.Error(), "/srv/pki/ca.crt") {
		t.Errorf("without the CA: %v", err)
	}
	w.Files["/srv/pki/ca.crt"] = memory.File{Data: []byte("a CA"), Mode: 0o644}
	admin, err := certstore.ReadAdmin(t.Context(), w, "/srv/admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := admin.CurrentCluster()
	if err != nil || string(cluster.CertificateAuthorityData) != "a CA" {
		t.Errorf("got %+v, %v", cluster, err)
	}
}
