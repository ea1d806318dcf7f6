package cli

import (
	"strings"
	"testing"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/memory"
)

// Without a file the kubeconfig of a user has the endpoint of the cluster, as admin.conf says.
func TestUserKubeconfigHasEndpointOfCluster(t *testing.T) {
	const admin = "/etc/kubernetes/admin.conf"
	for name, c := range map[string]struct {
		server string
		edit   func(k *pki.Kubeconfig)
		want   string // empty for the address of this machine
	}{
		"the endpoint of the cluster": {server: "https://lb.example:8443", want: "https://lb.example:8443"},
		"this machine alone":          {server: "https://127.0.0.1:6443"},
		"no TLS":                      {server: "http://lb.example:8443"},
		"another CA": {server: "https://lb.example:8443", edit: func(k *pki.Kubeconfig) {
			for _, cluster := range k.Clusters {
				cluster.CertificateAuthorityData = nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.initCluster(t)
			k, err := pki.ParseKubeconfig(s.world.Files[admin].Data)
			if err != nil {
				t.Fatal(err)
			}
			own, err := k.CurrentCluster()
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if want == "" {
				want = own.Server
			}
			k.SetServer(c.server)
			if c.edit != nil {
				c.edit(k)
			}
			text, err := k.Encode()
			if err != nil {
				t.Fatal(err)
			}
			s.world.Files[admin] = memory.File{Data: text, Mode: 0o600}
			s.out.Reset()
			if err := s.run(t.Context(), "kubeconfig", "user", "--client-name", "jane"); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(s.out.String(), "server: "+want+"\n") {
				t.Errorf("no %s in %s", want, s.out.String())
			}
		})
	}
}

// With an external etcd its certificates are elsewhere: the configuration says where.
func TestUploadWithoutFileOfExternalEtcdHasHint(t *testing.T) {
	other := newTestMachine(t)
	other.initCluster(t)
	s := newTestMachine(t)
	for name, from := range map[string]string{"/e/ca.crt": "etcd/ca.crt",
		"/e/c.crt": "apiserver-etcd-client.crt", "/e/c.key": "apiserver-etcd-client.key"} {
		s.world.Files[name] = other.world.Files["/etc/kubernetes/pki/"+from]
	}
	s.world.Files["/init.yaml"] = memory.File{Mode: 0o644, Data: []byte(`apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
etcd: {external: {endpoints: ["https://192.0.2.50:2379"], caFile: /e/ca.crt, certFile: /e/c.crt, keyFile: /e/c.key}}
`)}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml", "--skip-phases", "preflight"); err != nil {
		t.Fatal(err)
	}
	err := s.run(t.Context(), "init", "phase", "upload-certs", "--upload-certs")
	if hints := strings.Join(problem.Hints(err), "\n"); err == nil ||
		!strings.Contains(hints, "with an external etcd, set --config") {
		t.Errorf("%v, %q", err, hints)
	}
}
