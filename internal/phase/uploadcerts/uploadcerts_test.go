package uploadcerts_test

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/uploadcerts"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const storedConfig = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-system, name: kubeadm-config}
data:
  ClusterConfiguration: |
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: ClusterConfiguration
    kubernetesVersion: v1.37.1
    networking: {serviceSubnet: 10.96.0.0/12}
    apiServer:
      extraArgs: [{name: audit-policy-file, value: /etc/audit/policy.yaml}]
      extraVolumes: [{name: audit, hostPath: /etc/audit, mountPath: /etc/audit}]
`

// run runs a phase on a control plane node with that policy, whose configuration names no file.
func run(t *testing.T, phase engine.Phase, only string, edit func(w *fake.World, n *node.Node)) (*fake.World, error) {
	t.Helper()
	w := fake.New()
	w.RemoteAPIServer = true
	if err := w.AddObjects(storedConfig); err != nil {
		t.Fatal(err)
	}
	w.Files["/etc/audit/policy.yaml"] = memory.File{Data: []byte("a policy"), Mode: 0o600}
	n := &node.Node{Local: node.Local{Role: node.ControlPlane, UploadCerts: true, CertificateKey: strings.Repeat("5e", 32),
		Paths: node.DefaultPaths()}}
	n.Cluster.Version, n.Cluster.ServiceSubnet = "v1.37.1", "10.96.0.0/12"
	putCertificates(t, w)
	edit(w, n)
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Env{World: w, Local: n.Local, Tool: tool, Node: engine.Resolved(n),
		Admin: engine.As(state.Identity{}), Emit: func(engine.Event) {},
		Rand: func(string) io.Reader { return rand.Reader },
		Once: func(_ context.Context, _ string, make func() (string, error)) (string, error) { return make() }})
	return w, engine.Run(t.Context(), e, []engine.Phase{phase}, engine.Selection{Only: only})
}

func isUploaded(w *fake.World, name string) bool {
	for k := range w.Objects {
		if k.Kind.Kind == "Secret" && k.Name == name {
			return true
		}
	}
	return false
}

// putCertificates writes the shared certificates and keys.
func putCertificates(t *testing.T, w *fake.World) {
	t.Helper()
	put := func(name string, data []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		w.Files["/etc/kubernetes/pki/"+name] = memory.File{Data: data, Mode: 0o600}
	}
	for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca", "sa"} {
		key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		private, err := pki.EncodeKey(key)
		put(base+".key", private, err)
		if base == "sa" {
			public, err := pki.EncodePublicKey(key.Public())
			put("sa.pub", public, err)
			continue
		}
		ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: base, Validity: pki.NewValidity(w.Now(), time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		put(base+".crt", pki.EncodeCertificates(ca.Certificate), nil)
	}
}

func TestUploadedFiles(t *testing.T) {
	named := func(_ *fake.World, n *node.Node) {
		n.Cluster.APIServer = node.Component{
			Args:    []node.Arg{{Name: "audit-policy-file", Value: "/etc/audit/policy.yaml"}},
			Volumes: []node.Volume{{Name: "audit", HostPath: "/etc/audit", MountPath: "/etc/audit"}}}
	}
	for name, c := range map[string]struct {
		phase        engine.Phase
		only         string
		edit         func(w *fake.World, n *node.Node)
		files, certs bool
	}{
		"init":                    {uploadcerts.Phase, "", named, true, true},
		"init without files":      {uploadcerts.Phase, "", func(*fake.World, *node.Node) {}, false, true},
		"the phase alone":         {uploadcerts.Phase, "upload-certs", func(*fake.World, *node.Node) {}, true, true},
		"after a reconfiguration": {uploadcerts.Reconfigured, "", named, true, true},
		"without --upload-certs":  {uploadcerts.Reconfigured, "", func(_ *fake.World, n *node.Node) { n.UploadCerts = false }, false, false},
		"only files of another CA": {uploadcerts.Reconfigured, "", func(w *fake.World, n *node.Node) {
			named(w, n)
			delete(w.Files, "/etc/kubernetes/pki/ca.key")
		}, true, false},
	} {
		w, err := run(t, c.phase, c.only, c.edit)
		if files, certs := isUploaded(w, "kubeadm-files"), isUploaded(w, "kubeadm-certs"); err != nil ||
			files != c.files || certs != c.certs {
			t.Errorf("%s: uploaded files %t, certificates %t; %v", name, files, certs, err)
		}
	}
}
