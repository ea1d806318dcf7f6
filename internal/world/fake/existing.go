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
	for _, name := range []string{"admin.conf", "kubelet.conf"} {
		w.Files["/etc/kubernetes/"+name] = memory.File{Data: []byte(kubeconfig), Mode: 0o600}
	}
	w.Files["/var/lib/kubelet/config.yaml"] = memory.File{Mode: 0o644, Data: []byte(
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")}
	w.Services["kubelet"] = state.Service{Exists: true, Enabled: true, Active: true}
	w.Files["/etc/kubernetes/manifests"] = memory.File{Mode: fs.ModeDir | 0o700}
	components := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	var documents []string
	add := func(format string, args ...any) {
		documents = append(documents, fmt.Sprintf(format, args...))
	}
	w.addManifests(c)
	for _, name := range components {
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
			w.addMember(name)
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
	add(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,
  metadata: {name: "kubeadm:cluster-admins"},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "kubeadm:cluster-admins"}]}`)
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

// kubeconfig has a user without credentials: the simulated API server needs none.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://192.0.2.10:6443"}}]
users: [{name: u, user: {}}]
contexts: [{name: u@c, context: {cluster: c, user: u}}]
current-context: u@c
`

// addManifests writes the manifests of static Pods, with the fields that kubeadm reads.
func (w *World) addManifests(c ExistingCluster) {
	tags := map[string]string{"kube-apiserver": c.Version, "kube-controller-manager": c.Version,
		"kube-scheduler": c.Version}
	if c.EtcdTag != "" {
		tags["etcd"] = c.EtcdTag
	}
	for name, tag := range tags {
		w.Files["/etc/kubernetes/manifests/"+name+".yaml"] = memory.File{Mode: 0o600,
			Data: fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: kube-system
  labels: {component: %[1]s, tier: control-plane}
  annotations: {kubeadm.kubernetes.io/%[1]s.advertise-address.endpoint: "192.0.2.10:6443"}
spec:
  containers:
  - name: %[1]s
    image: registry.k8s.io/%[1]s:%[2]s
    command: [%[1]s]
`, name, tag)}
	}
}

// addMember adds the etcd member of a control plane node. The first is this machine.
func (w *World) addMember(node string) {
	id := len(w.MemberList)
	url := func(port int) []string {
		return []string{fmt.Sprintf("https://192.0.2.%d:%d", 10+id, port)}
	}
	w.MemberList = append(w.MemberList, state.Member{ID: uint64(id + 1), Name: node,
		PeerURLs: url(2380), ClientURLs: url(2379)})
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
		if err := w.PutObject(o); err != nil {
			return err
		}
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
