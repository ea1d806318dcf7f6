package manifest_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

func TestTokenExpiration(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	for _, tc := range []struct {
		token node.BootstrapToken
		want  string
	}{
		{node.BootstrapToken{TTL: time.Hour}, "2030-01-02T03:04:05Z"},
		{node.BootstrapToken{TTL: time.Hour, Expires: now}, "2030-01-02T02:04:05Z"},
		{node.BootstrapToken{}, ""},
	} {
		if got := string(manifest.NewTokenSecret(tc.token,
			now).Data["expiration"]); got != tc.want {
			t.Errorf("%+v expires %q, want %q", tc.token, got, tc.want)
		}
	}
}

func TestCertsOwner(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	owner := manifest.NewCertsOwner("abcdef", "0123456789abcdef", now)
	if got := string(owner.Data["expiration"]); got != "2030-01-02T05:04:05Z" {
		t.Errorf("expires %s", got)
	}
	for key := range owner.Data {
		if strings.HasPrefix(key, "usage-") || key == "auth-extra-groups" {
			t.Errorf("the token serves for %s", key)
		}
	}
	owner.UID = "1234"
	certs := manifest.NewCertsSecret(map[string][]byte{"ca.crt": {1}, "ca.key": nil}, owner)
	if len(certs.OwnerReferences) != 1 || len(certs.Data) != 2 {
		t.Fatalf("%+v", certs)
	}
	ref := certs.OwnerReferences[0]
	if ref.Kind != "Secret" || ref.APIVersion != "v1" || ref.Name != "bootstrap-token-abcdef" ||
		ref.UID != "1234" ||
		!*ref.Controller || !*ref.BlockOwnerDeletion || certs.Namespace != metav1.NamespaceSystem {
		t.Errorf("%+v", ref)
	}
}

func TestClusterInfoNeedsACluster(t *testing.T) {
	if _, err := manifest.ClusterInfo(&pki.Kubeconfig{}); err == nil {
		t.Error("a kubeconfig without a cluster is published")
	}
}

func TestClusterAdmins(t *testing.T) {
	text := string(must(manifest.YAML(manifest.ClusterAdmins()))(t))
	for _, want := range []string{"kind: ClusterRoleBinding\n", "  name: cluster-admin\n",
		"- kind: Group\n  name: kubeadm:cluster-admins\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
