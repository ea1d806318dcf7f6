package plane

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/kube"
)

// APIServer is a kube-apiserver process with its own etcd.
type APIServer struct {
	Server string // its URL
	Etcd   *Etcd
	Admin  state.Identity
	CA     []byte // PEM

	dir string
	ca  pki.CA
}

// StartAPIServer starts etcd and an API server, with more arguments, and waits until it is healthy.
func StartAPIServer(t *testing.T, args ...string) *APIServer {
	t.Helper()
	e := StartEtcd(t)
	a := &APIServer{Etcd: e, dir: e.dir, ca: e.cas[pki.ClusterCA]}
	a.CA = pki.EncodeCertificates(a.ca.Certificate)
	in := func(file string) string { return filepath.Join(e.dir, file) }
	serving := freeAddress(t)
	a.Server = "https://" + serving
	startProgram(t, e.dir, "kube-apiserver", append(args,
		"--bind-address="+loopbackAddress(), "--advertise-address="+loopbackAddress(),
		"--secure-port="+serving[len(loopbackAddress()+":"):],
		"--endpoint-reconciler-type=none",
		"--etcd-servers="+e.Via.Endpoints[0], "--etcd-cafile="+in("etcd/ca.crt"),
		"--etcd-certfile="+in("apiserver-etcd-client.crt"),
		"--etcd-keyfile="+in("apiserver-etcd-client.key"),
		"--client-ca-file="+in("ca.crt"), "--tls-cert-file="+in("apiserver.crt"),
		"--tls-private-key-file="+in("apiserver.key"),
		"--service-account-issuer=https://plane.example",
		"--service-account-key-file="+in("ca.key"),
		"--service-account-signing-key-file="+in("ca.key"),
		"--service-cluster-ip-range=10.96.0.0/12",
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--enable-bootstrap-token-auth=true")...)
	a.Admin = a.Identity(t, "admin", "system:masters")
	waitFor(t, "kube-apiserver", func(ctx context.Context) error {
		return kube.New(os.ReadFile).Livez(ctx, a.Admin)
	})
	return a
}

// Identity writes a kubeconfig with a client certificate for a user.
func (a *APIServer) Identity(t *testing.T, user string, groups ...string) state.Identity {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.ca.Issue(rand.Reader, pki.ClientSpec(user, groups, newValidity()), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	access := pki.KubeconfigSpec{Server: a.Server, Cluster: "plane", User: user, CA: a.CA}
	data, err := access.WithCertificate(pki.EncodeCertificates(cert), pem).Encode()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(a.dir, user+".conf", data)
	return state.Identity{Kubeconfig: filepath.Join(a.dir, user+".conf")}
}

// Apply puts the objects into the cluster, with the service account that Pods of kube-system need.
func (a *APIServer) Apply(t *testing.T, objects ...state.Object) {
	t.Helper()
	account := &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: metav1.NamespaceSystem},
	}
	k := kube.New(os.ReadFile)
	for _, o := range append([]state.Object{account}, objects...) {
		if err := k.Do(t.Context(), change.ApplyObject{Object: o, As: a.Admin}); err != nil {
			t.Fatal(err)
		}
		node, ok := o.(*unstructured.Unstructured)
		if !ok || node.GetKind() != "Node" {
			continue
		}
		// An API server does not take the status with the object.
		patch, err := json.Marshal(map[string]any{"status": node.Object["status"]})
		if err != nil {
			t.Fatal(err)
		}
		kubectl := exec.Command(filepath.Join(BundleDir(t), "bin", "kubectl"),
			"--kubeconfig="+a.Admin.Kubeconfig, "patch", "node", node.GetName(),
			"--subresource=status", "--type=merge", "--patch="+string(patch))
		if said, err := kubectl.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
}
