package scale

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
)

// podsPerNode is the number of Pods on each node.
const podsPerNode = 10

// filler writes objects into etcd as an API server does, which is much faster than through one.
type filler struct {
	client  *clientv3.Client
	encoder runtime.Encoder
	puts    []clientv3.Op
	version string                        // of the kubelets
	adapt   func(i int, o runtime.Object) // changes the objects of a node before they are written; may be nil
}

// connectEtcd returns a client that is closed when the test ends.
func connectEtcd(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func newFiller(t *testing.T, client *clientv3.Client, version string) *filler {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, certv1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	return &filler{client: client, encoder: protobuf.NewSerializer(types, types), version: version}
}

// addNodes adds the worker nodes from the first number up to, but without, the last one, with their
// Leases and Pods.
func (f *filler) addNodes(t *testing.T, first, last int) {
	t.Helper()
	for i := first; i < last; i++ {
		n := newNode(i, f.version)
		f.putAdapted(t, i, "minions/"+n.Name, n)
		f.putAdapted(t, i, "leases/"+corev1.NamespaceNodeLease+"/"+n.Name, newLease(n.Name))
		issued := newServingRequest(t, n.Name)
		issued.Name = "issued-" + n.Name
		issued.Status = certv1.CertificateSigningRequestStatus{Certificate: bytes.Repeat([]byte("x"), 1200),
			Conditions: []certv1.CertificateSigningRequestCondition{{Type: certv1.CertificateApproved, Status: "True"}}}
		f.put(t, "certificatesigningrequests/"+issued.Name, issued)
		for j := range podsPerNode {
			p := newPod(n.Name, i*podsPerNode+j)
			f.putAdapted(t, i, "pods/"+p.Namespace+"/"+p.Name, p)
		}
	}
	f.flush(t)
}

// putNodes writes the Nodes again, without what belongs to them.
func (f *filler) putNodes(t *testing.T, first, last int) {
	t.Helper()
	for i := first; i < last; i++ {
		n := newNode(i, f.version)
		f.putAdapted(t, i, "minions/"+n.Name, n)
	}
	f.flush(t)
}

// addPendingRequests adds requests of kubelets for serving certificates.
func (f *filler) addPendingRequests(t *testing.T, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		pending := newServingRequest(t, nodeName(i))
		f.put(t, "certificatesigningrequests/"+pending.Name, pending)
	}
	f.flush(t)
}

func (f *filler) putAdapted(t *testing.T, i int, key string, o runtime.Object) {
	t.Helper()
	if f.adapt != nil {
		f.adapt(i, o)
	}
	f.put(t, key, o)
}

func (f *filler) put(t *testing.T, key string, o runtime.Object) {
	t.Helper()
	var data bytes.Buffer
	if err := f.encoder.Encode(o, &data); err != nil {
		t.Fatal(err)
	}
	f.puts = append(f.puts, clientv3.OpPut("/registry/"+key, data.String()))
	if len(f.puts) == 100 { // etcd takes 128 in one transaction
		f.flush(t)
	}
}

func (f *filler) flush(t *testing.T) {
	t.Helper()
	if _, err := f.client.Txn(t.Context()).Then(f.puts...).Commit(); err != nil {
		t.Fatal(err)
	}
	f.puts = f.puts[:0]
}

// newMeta returns metadata as that of objects in use: with what their writers have recorded.
func newMeta(namespace, name string, number int) metav1.ObjectMeta {
	var fields strings.Builder
	for i := range 30 {
		fmt.Fprintf(&fields, `"f:field-%d":{"k:{\"type\":\"Some\"}":{".":{}}},`, i)
	}
	now := metav1.NewTime(time.Now().Add(-time.Hour))
	return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: now,
		UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", number)),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update",
			APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(
				`{` + strings.TrimSuffix(fields.String(), ",") + `}`)}},
	}
}

// nodeAddress is an address at which nothing listens.
func nodeAddress(i int) string { return fmt.Sprintf("127.250.%d.%d", i/256, i%256) }

func nodeName(i int) string { return fmt.Sprintf("worker-%04d", i) }

// newNode returns a Node with the conditions, addresses and 50 images that a kubelet reports.
func newNode(i int, version string) *corev1.Node {
	name := nodeName(i)
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: newMeta("", name, i)}
	n.Labels = map[string]string{corev1.LabelHostname: name, corev1.LabelArchStable: "amd64",
		corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: "zone-a",
		corev1.LabelTopologyRegion: "region-1", corev1.LabelInstanceTypeStable: "m5.large"}
	n.Annotations = map[string]string{"node.alpha.kubernetes.io/ttl": "0",
		"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	n.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256)
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: "True", corev1.NodeMemoryPressure: "False",
		corev1.NodeDiskPressure: "False", corev1.NodePIDPressure: "False"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind,
			Status: status, LastHeartbeatTime: n.CreationTimestamp, Reason: "KubeletHasNo" + string(kind),
			LastTransitionTime: n.CreationTimestamp, Message: "kubelet has sufficient resources available"})
	}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress(i)},
		{Type: corev1.NodeHostName, Address: name}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux",
		Architecture: "amd64", ContainerRuntimeVersion: "containerd://2.2.0", KernelVersion: "6.12.0",
		OSImage: "Debian GNU/Linux 13", MachineID: string(n.UID), SystemUUID: string(n.UID)}
	for image := range 50 {
		repository := fmt.Sprintf("registry.example.com/team/service-%d", image)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 26,
			Names: []string{repository + "@sha256:" + strings.Repeat("0123456789abcdef", 4),
				repository + ":v1.2.3"}})
	}
	return n
}

// newServingRequest returns the pending request of a kubelet for a serving certificate with its name.
func newServingRequest(t *testing.T, node string) *certv1.CertificateSigningRequest {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	user := "system:node:" + node
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{node},
		Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: newMeta("", "pending-"+node, 0),
		Spec: certv1.CertificateSigningRequestSpec{Username: user, Groups: []string{"system:nodes"},
			SignerName: certv1.KubeletServingSignerName, Usages: []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})},
	}
}

func newLease(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: newMeta(corev1.NamespaceNodeLease, node, 0),
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: new(int32(40)),
			RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
}

// newPod returns a running Pod of a Deployment, with a service account token.
func newPod(node string, i int) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: newMeta("default", fmt.Sprintf("service-5d78c9869d-%06d", i), i)}
	p.Labels = map[string]string{"app": "service", "pod-template-hash": "5d78c9869d"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet",
		Name: "service-5d78c9869d", UID: p.UID, Controller: new(true)}}
	p.Spec = corev1.PodSpec{NodeName: node, ServiceAccountName: "default",
		Volumes: []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
					ExpirationSeconds: new(int64(3607))}}}}}}},
		Containers: []corev1.Container{{Name: "service", Image: "registry.example.com/team/service:v1.2.3",
			Env:          []corev1.EnvVar{{Name: "MODE", Value: "production"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets"}}}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.64.%d.%d", i/256%256, i%256),
		StartTime: &p.CreationTimestamp}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled,
		corev1.PodInitialized, corev1.ContainersReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: "True",
			LastTransitionTime: p.CreationTimestamp})
	}
	return p
}
