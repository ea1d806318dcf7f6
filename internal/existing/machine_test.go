package existing

import (
	"cmp"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const (
	kubeletConf  = "/etc/kubernetes/kubelet.conf"
	apiManifest  = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	instanceConf = "/var/lib/kubelet/instance-config.yaml"
	rotated      = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

func TestReadMachine(t *testing.T) {
	endpoint := func(value string) string {
		return "metadata: {annotations: {" + manifest.EndpointAnnotation + ": '" + value + "'}}"
	}
	for name, c := range map[string]struct {
		files map[string]string
		alter func(*fake.World)
		want  node.Local
		err   string // part of the error
	}{
		"a worker": {want: node.Local{Role: node.Worker, Name: "node-7"}},
		"a control plane": {files: map[string]string{apiManifest: endpoint("192.0.2.10:7443")},
			want: node.Local{Role: node.ControlPlane, Name: "node-7", Address: "192.0.2.10",
				BindPort: 7443}},
		"certificates elsewhere": {files: map[string]string{apiManifest: endpoint("192.0.2.10:7443") +
			"\nspec: {containers: [{name: kube-apiserver, command: [kube-apiserver, --client-ca-file=/opt/pki/ca.crt]}]}"},
			want: node.Local{Role: node.ControlPlane, Name: "node-7", Address: "192.0.2.10", BindPort: 7443,
				Paths: node.Paths{Certificates: "/opt/pki"}}},
		"IPv6": {files: map[string]string{apiManifest: endpoint("[2001:db8::1]:6443")},
			want: node.Local{Role: node.ControlPlane, Name: "node-7", Address: "2001:db8::1",
				BindPort: 6443}},
		"a kubelet with a token": {files: map[string]string{kubeletConf: newTokenConfig(t)},
			want: node.Local{Role: node.Worker, Name: "cp1"}},
		"another user": {files: map[string]string{rotated: newClientPair(t, "another user")},
			want: node.Local{Role: node.Worker, Name: "cp1"}},
		"an instance configuration": {alter: func(w *fake.World) { w.Sockets = []string{"a", "b"} },
			files: map[string]string{instanceConf: "containerRuntimeEndpoint: unix:///run/crio.sock"},
			want:  node.Local{Role: node.Worker, Name: "node-7", CRISocket: "unix:///run/crio.sock"}},
		"no runtime": {alter: func(w *fake.World) { w.Sockets = nil },
			want: node.Local{Role: node.Worker, Name: "node-7", CRISocket: node.DefaultCRISocket}},
		"several runtimes": {alter: func(w *fake.World) { w.Sockets = []string{"a", "b"} },
			err: "several container runtimes run on this machine: a, b"},
		"a broken instance configuration": {files: map[string]string{instanceConf: "["},
			err: "reading " + instanceConf},
		"no node": {alter: func(w *fake.World) { delete(w.Files, kubeletConf) },
			err: "this machine is not a node of a cluster: " + kubeletConf + " does not exist"},
		"a broken kubeconfig": {files: map[string]string{kubeletConf: "x: 1"},
			err: "reading the name of this node from " + kubeletConf},
		"a certificate without its key": {files: map[string]string{rotated: "pem"},
			err: "reading the name of this node from " + kubeletConf},
		"a manifest without the annotation": {files: map[string]string{apiManifest: "{}"},
			err: "it has no annotation " + manifest.EndpointAnnotation},
		"an annotation without a port": {files: map[string]string{apiManifest: endpoint("192.0.2.10")},
			err: "annotation " + manifest.EndpointAnnotation + ": "},
		"an annotation with a name": {files: map[string]string{apiManifest: endpoint("cp1:6443")},
			err: "is not of the form IP:PORT: \"cp1:6443\""},
		"an annotation with a large port": {
			files: map[string]string{apiManifest: endpoint("192.0.2.10:65536")},
			err:   "is not of the form IP:PORT"},
		"a broken manifest": {files: map[string]string{apiManifest: "["},
			err: "reading " + apiManifest},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNodeMachine(t)
			for file, text := range c.files {
				w.Files[file] = memory.File{Data: []byte(text), Mode: 0o600}
			}
			if c.alter != nil {
				c.alter(w)
			}
			got, err := ReadMachine(t.Context(), w, node.Local{Paths: node.DefaultPaths()})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %s", err, c.err)
				}
				return
			}
			c.want.Paths.Certificates = cmp.Or(c.want.Paths.Certificates, "/etc/kubernetes/pki")
			if c.want.CRISocket == "" {
				c.want.CRISocket = w.Sockets[0]
			}
			if err != nil || got.Role != c.want.Role || got.Name != c.want.Name ||
				got.Address != c.want.Address || got.BindPort != c.want.BindPort ||
				got.CRISocket != c.want.CRISocket ||
				got.Paths.Certificates != c.want.Paths.Certificates || got.Hostname != "cp1" {
				t.Errorf("got %+v: %v", got, err)
			}
		})
	}
}

// newNodeMachine is a machine whose kubelet has registered the Node node-7, unlike its host name
// CP1.
func newNodeMachine(t *testing.T) *fake.World {
	t.Helper()
	config := newKubeconfig().WithToken("")
	if err := config.UseRotatedCertificate(rotated); err != nil {
		t.Fatal(err)
	}
	w := fake.New()
	w.Info.Hostname = "CP1"
	w.Files[kubeletConf] = memory.File{Data: []byte(encode(t, config)), Mode: 0o600}
	w.Files[rotated] = memory.File{Data: []byte(newClientPair(t, "system:node:node-7")),
		Mode: 0o600}
	return w
}

func newKubeconfig() pki.KubeconfigSpec {
	return pki.KubeconfigSpec{Server: "https://192.0.2.10:6443", Cluster: "kubernetes",
		User: "kubelet", CA: []byte("pem")}
}

func newTokenConfig(t *testing.T) string {
	t.Helper()
	return encode(t, newKubeconfig().WithToken("abcdef.0123456789abcdef"))
}

func encode(t *testing.T, config *pki.Kubeconfig) string {
	t.Helper()
	data, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// newClientPair returns a client certificate and its key, as the kubelet stores them.
func newClientPair(t *testing.T, user string) string {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	valid := pki.NewValidity(time.Now(), time.Hour)
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: "kubernetes", Validity: valid})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(rand.Reader, pki.ClientSpec(user, nil, valid), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(cert)) + string(text)
}
