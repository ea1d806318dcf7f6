package fake

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// ExistingCluster is a cluster that kubeadm created before a test.
type ExistingCluster struct {
	Version       string   // of the control plane
	Kubelet       string   // version of all kubelets
	EtcdTag       string   // empty for external etcd
	CoreDNSTag    string   // empty if CoreDNS is not deployed
	ControlPlanes []string // names of Nodes
	Workers       []string
}

// AddCluster makes this machine a control plane of a cluster whose API server accepts every
// identity.
func (w *World) AddCluster(c ExistingCluster) error {
	w.RemoteAPIServer = true
	w.Files["/etc/kubernetes/admin.conf"] = memory.File{Data: []byte("{}"), Mode: 0o600}
	w.Files["/etc/kubernetes/manifests"] = memory.File{Mode: fs.ModeDir | 0o700}
	components := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	var documents []string
	add := func(format string, args ...any) {
		documents = append(documents, fmt.Sprintf(format, args...))
	}
	for _, name := range components {
		w.Files["/etc/kubernetes/manifests/"+name+".yaml"] = memory.File{Data: []byte("{}"),
			Mode: 0o600}
		add(`{apiVersion: coordination.k8s.io/v1, kind: Lease,
  metadata: {name: %s, namespace: kube-system},
  spec: {holderIdentity: %s_1, renewTime: %q}}`, name, c.ControlPlanes[0],
			w.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	pod := func(component, node, tag string) {
		add(`{apiVersion: v1, kind: Pod, metadata: {name: %s-%s, namespace: kube-system,
  labels: {component: %s, tier: control-plane}},
  spec: {nodeName: %s, containers: [{name: %s, image: "registry.k8s.io/%s:%s"}]}}`,
			component, node, component, node, component, component, tag)
	}
	node := func(name, labels string) {
		add(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}},
  status: {nodeInfo: {kubeletVersion: %q}, conditions: [{type: Ready, status: "True"}]}}`,
			name, labels, c.Kubelet)
	}
	for _, name := range c.ControlPlanes {
		node(name, `node-role.kubernetes.io/control-plane: ""`)
		for _, component := range components {
			pod(component, name, c.Version)
		}
		if c.EtcdTag != "" {
			pod("etcd", name, c.EtcdTag)
		}
	}
	for _, name := range c.Workers {
		node(name, "")
	}
	configMap := func(name, key, text string) {
		add(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: kube-system},
  data: {%q: %q}}`, name, key, text)
	}
	configMap("kubeadm-config", "ClusterConfiguration", "apiVersion: kubeadm.k8s.io/v1beta4\n"+
		"kind: ClusterConfiguration\nkubernetesVersion: "+c.Version+"\n")
	configMap("kubelet-config", "kubelet", "apiVersion: kubelet.config.k8s.io/v1beta1\n"+
		"kind: KubeletConfiguration\n")
	configMap("kube-proxy", "config.conf", "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"+
		"kind: KubeProxyConfiguration\n")
	if c.CoreDNSTag != "" {
		configMap("coredns", "Corefile", ".:53 {\n    errors\n    forward . /etc/resolv.conf\n}\n")
		add(`{apiVersion: apps/v1, kind: Deployment,
  metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}},
  spec: {selector: {matchLabels: {k8s-app: kube-dns}}, template: {
    metadata: {labels: {k8s-app: kube-dns}}, spec: {containers: [
      {name: coredns, image: "registry.k8s.io/coredns/coredns:%s"}]}}}}`, c.CoreDNSTag)
	}
	return w.AddObjects(strings.Join(documents, "\n---\n"))
}

// AddObjects adds the objects of YAML documents to the cluster, or replaces those of the same name.
// A document with "deleted: true" deletes the object.
func (w *World) AddObjects(documents string) error {
	for document := range strings.SplitSeq("\n"+documents, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			return fmt.Errorf("%w in\n%s", err, document)
		}
		ref := state.Ref{GVK: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
		key := memory.Key{Kind: ref.GVK.GroupKind(), Namespace: ref.Namespace, Name: ref.Name}
		if o.Object["deleted"] == true {
			delete(w.Objects, key)
			continue
		}
		w.Objects[key] = o
	}
	return nil
}

// AllObjects are copies of the objects of the cluster as they would be sent to a real one.
func (w *World) AllObjects() (all []state.Object) {
	for _, o := range w.Objects {
		o = o.DeepCopy()
		o.SetUID("")
		all = append(all, o)
	}
	return all
}

// TryCreate returns what Refused has for the kind, if the API server answers and accepts the
// identity.
func (w *World) TryCreate(ctx context.Context, o state.Object, as state.Identity) error {
	if err := w.checkAccess(ctx, as); err != nil {
		return err
	}
	return w.Refused[o.GetObjectKind().GroupVersionKind().Kind]
}
