package fake

import (
	"crypto/rand"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// CompleteInit adds what the kubelet, a Pod network and the controllers of a healthy cluster write after init
// of the control plane node cp1.
func (w *World) CompleteInit() error {
	client, err := w.issueKubeletClient()
	if err != nil {
		return err
	}
	w.Files["/var/lib/kubelet/pki/kubelet-client-current.pem"] = memory.File{Mode: 0o600, Data: client}
	w.Files["/etc/cni/net.d/10-pods.conflist"] = memory.File{Mode: 0o644,
		Data: []byte(`{"plugins": [{"type": "ptp"}]}`)}
	w.Files["/etc/cni/net.d"] = memory.File{Mode: fs.ModeDir | 0o755}
	w.CRI.SandboxImage = "registry.k8s.io/pause:3.10.2"
	w.Files["/proc/filesystems"] = memory.File{Data: []byte("nodev\toverlay\n"), Mode: 0o444}
	w.MemberList = []state.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.10:2380"},
		ClientURLs: []string{"https://192.0.2.10:2379"}}}
	w.LinkList = []state.Link{{Name: "eth0", MTU: 1500}, {Name: "veth1", MTU: 1500}}
	var documents []string
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		documents = append(documents, `{apiVersion: v1, kind: Pod, metadata: {name: `+component+`-cp1,
  namespace: kube-system, labels: {component: `+component+`, tier: control-plane}},
  spec: {nodeName: cp1, containers: [{name: c, image: "registry.k8s.io/`+component+`:v1.37.1"}]}}`,
			`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: `+component+`, namespace: kube-system},
  spec: {holderIdentity: cp1_1, renewTime: "`+w.Now().UTC().Format("2006-01-02T15:04:05.000000Z")+`"}}`)
	}
	if err := w.AddObjects(strings.Join(documents, "\n---\n")); err != nil {
		return err
	}
	w.FindObject("Node", "cp1").Object["status"] = map[string]any{
		"nodeInfo":   map[string]any{"kubeletVersion": "v1.37.1"},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		"addresses":  []any{map[string]any{"type": "InternalIP", "address": "192.0.2.10"}},
	}
	w.FindObject("Deployment", "coredns").Object["status"] = map[string]any{"availableReplicas": int64(2)}
	w.Discovery = map[string]string{}
	for key, value := range w.FindObject("ConfigMap", "cluster-info").Object["data"].(map[string]any) {
		w.Discovery[key] = value.(string)
	}
	return nil
}

// issueKubeletClient returns a client certificate of the kubelet by the CA of the cluster, and its key.
func (w *World) issueKubeletClient() ([]byte, error) {
	ca, err := pki.StoredPair{Certificate: w.Files["/etc/kubernetes/pki/ca.crt"].Data,
		Key: w.Files["/etc/kubernetes/pki/ca.key"].Data}.ParseCA()
	if err != nil {
		return nil, err
	}
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	cert, err := ca.Issue(rand.Reader, pki.ClientSpec("system:node:cp1", []string{"system:nodes"},
		pki.NewValidity(w.Now(), 365*24*time.Hour)), key.Public())
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	return slices.Concat(pki.EncodeCertificates(cert), text), err
}

// FindObject returns the object of a kind and name, in any namespace, or nil.
func (w *World) FindObject(kind, name string) *unstructured.Unstructured {
	for key, o := range w.Objects {
		if key.Kind.Kind == kind && key.Name == name {
			return o
		}
	}
	return nil
}
