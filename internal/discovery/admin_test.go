package discovery_test

import (
	"strings"
	"testing"

	"kubeadm/internal/pki"
)

// A resumed join of a control plane reads the configuration with the admin.conf that it wrote,
// even if the token has expired. The kubelet still gets the token, if there is one.
func TestAdminConfFindsCluster(t *testing.T) {
	c := newCluster(t)
	c.tokens = nil
	cert, key := c.admin(t)
	m := newMachine()
	m.has(t, adminConf, c.access().WithCertificate(cert, key))
	flags := c.flags(c.server)
	flags.ControlPlane = true
	a := m.join(t, flags)
	if a.node == nil {
		t.Fatal(a.err)
	}
	if user := introduced(t, a); user.Token != token || user.ClientKeyData != nil ||
		strings.Contains(string(a.node.BootstrapKubeconfig), "client-key") {
		t.Errorf("with a token the kubelet is given %+v", user)
	}
	c.users = nil
	m.refused(t, flags, "the credentials in "+adminConf+" may not read", "move "+adminConf+" away")
	c.users = []string{"kubernetes-admin"}
	flags.Endpoint, flags.Token, flags.CACertHashes = "", "", nil
	a = m.join(t, flags)
	if a.node == nil {
		t.Fatal(a.err)
	}
	if user := introduced(t, a); string(user.ClientCertificateData) != string(cert) {
		t.Errorf("without a token the kubelet is given %+v", user)
	}
}

func TestAdminConfOfAnotherClusterFails(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	cert, key := other.admin(t)
	m := newMachine()
	m.has(t, adminConf, other.access().WithCertificate(cert, key))
	flags := c.flags(c.server)
	flags.ControlPlane = true
	m.refused(t, flags, adminConf+" is for a different cluster",
		pki.PinOf(other.ca.Certificate).String(), "kubeadm reset")
	other.toldNothing(t)
}
