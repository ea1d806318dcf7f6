package laws

import (
	"context"
	"crypto/rand"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// subject is a command with a machine on which it succeeds.
type subject struct {
	name     string
	phases   []engine.Phase
	machine  func(t testing.TB) *fake.World // a new one at each call
	setUp    func(t testing.TB, e *engine.Env) error
	node     string   // the machine's name
	kubelets []string // files that the kubelet creates there
	restores bool     // a run that fails or is interrupted restores what it has changed
	repeats  bool     // some changes are made in each run: see withoutRepeated
	// replacesSome is set if only some static Pods are replaced
	replacesSome bool
}

// adminConf is the kubeconfig by which a control plane that runs join again finds the cluster.
const adminConf = "/etc/kubernetes/admin.conf"

// rotatedCertificate is the file with the kubelet's client certificate.
const rotatedCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// dryRunDir is where dry runs write copies of files.
const dryRunDir = "/dry-run"

// subjects are all commands that change a machine.
func subjects() []subject {
	return append([]subject{
		{name: "init", phases: workflow.Init, machine: newInitMachine, setUp: setUpInit,
			node: "cp1", kubelets: []string{rotatedCertificate}},
		{name: "join", phases: workflow.Join, machine: newWorkerMachine, setUp: setUpJoin,
			node: "worker1", kubelets: []string{rotatedCertificate,
				"/etc/kubernetes/kubelet.conf"}},
		{name: "join a control plane", phases: workflow.Join, machine: newControlPlaneMachine,
			setUp: setUpControlPlaneJoin, node: "cp2",
			kubelets: []string{rotatedCertificate, "/etc/kubernetes/kubelet.conf",
				"/var/lib/etcd/member"}},
		{name: "reset a control plane", phases: workflow.Reset, machine: usedControlPlane,
			setUp: setUpReset, node: "cp1"},
		{name: "reset a worker", phases: workflow.Reset, machine: usedWorker, setUp: setUpReset,
			node: "worker1"},
		{name: "reset one of three control planes", phases: workflow.Reset,
			machine: usedControlPlaneOfThree, setUp: setUpReset, node: "cp2"},
		{name: "init without root", phases: workflow.Init, machine: newRootlessMachine,
			setUp: setUpRootlessInit, node: "cp1", kubelets: []string{rotatedCertificate}},
		{name: "reset without root", phases: workflow.Reset, machine: usedRootlessControlPlane,
			setUp: setUpReset, node: "cp1"},
		{name: "join by a file", phases: workflow.Join, machine: newFileDiscoveryMachine,
			setUp: setUpJoinByFile, node: "worker1",
			kubelets: []string{rotatedCertificate, "/etc/kubernetes/kubelet.conf"}},
		{name: "init from a backup", phases: workflow.InitFromBackup(&sharedBackup.Backup, false),
			machine: newBackupMachine, setUp: setUpBackup, node: "cp1", kubelets: []string{rotatedCertificate}},
	}, slices.Concat(cleanSubjects(), externalCASubjects(),
		[]subject{newReplaceSubject()}, upgradeSubjects(),
		[]subject{reconfigure(changedConfig), changeEndpoint(newEndpoint),
			changeAddress(newMovingMachine, newAddress), keepNodeName(newRenamedMachine)})...)
}

// findSubject returns the subject of that name.
func findSubject(name string) subject {
	all := subjects()
	i := slices.IndexFunc(all, func(s subject) bool { return s.name == name })
	if i < 0 {
		panic("there is no subject " + name)
	}
	return all[i]
}

// forEachSubject tries a law on every subject.
func forEachSubject(t *testing.T, law func(t *testing.T, s subject)) {
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) { t.Parallel(); law(t, s) })
	}
}

func (s subject) paths() dryrun.Paths {
	p := node.DefaultPaths()
	all := dryrun.Paths{
		Node: s.node, Certificates: p.Certificates, KubeletConfig: p.KubeletConfig(),
		BootstrapKubeconfig: p.BootstrapKubeconfig(), KubeletKubeconfig: p.KubeletKubeconfig(),
		KubeletClientCert: rotatedCertificate,
	}
	if strings.HasPrefix(s.node, "cp") {
		all.APIServerManifest, all.EtcdManifest = p.Manifest(release.APIServer),
			p.Manifest(manifest.Etcd)
	}
	return all
}

// controllerNames are the controllers that have bindings in a new API server here.
var controllerNames = []string{"deployment-controller", "token-cleaner"}

// newInitMachine is a fresh machine for init.
func newInitMachine(t testing.TB) *fake.World {
	w := fake.New()
	for _, u := range []*unstructured.Unstructured{
		newControllerBinding("ClusterRoleBinding", "", controllerNames[0]),
		newControllerBinding("RoleBinding", "kube-system", controllerNames[1]),
	} {
		if err := w.World.Do(t.Context(), change.ApplyObject{Object: u}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// newControllerBinding is an API server's RBAC binding of a controller of kube-controller-manager.
func newControllerBinding(kind, namespace, controller string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "kube-system",
			"name": controller}},
	}}
	u.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
	u.SetNamespace(namespace)
	u.SetName("system:controller:" + controller)
	u.SetLabels(map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"})
	return u
}

// newWorkerMachine is a fresh machine beside a cluster that init has created.
func newWorkerMachine(t testing.TB) *fake.World {
	w := fake.New()
	w.Info.Hostname, w.NodeName = "worker1", "worker1"
	w.Interfaces = []state.Address{{IP: "192.0.2.20", Interface: "eth0", DefaultRoute: true}}
	w.Names = map[string][]string{"worker1": {"192.0.2.20"}}
	w.RemoteAPIServer = true
	w.Objects = initializedMachine(t).Objects
	w.Discovery = signedClusterInfo(t, w)
	return w
}

// discoveryFile is a kubeconfig for discovery, with credentials that the kubelet must not get.
const discoveryFile = "/srv/discovery.conf"

// newFileDiscoveryMachine is a worker's machine that has such a file.
func newFileDiscoveryMachine(t testing.TB) *fake.World {
	w := newWorkerMachine(t)
	w.Files[discoveryFile] = initializedMachine(t).Files[adminConf]
	w.Discovery = nil
	return w
}

// newControlPlaneMachine is a fresh machine beside a cluster with uploaded certificates.
func newControlPlaneMachine(t testing.TB) *fake.World {
	w := newWorkerMachine(t)
	w.Info.Hostname, w.NodeName = "cp2", "cp2"
	w.Interfaces = []state.Address{{IP: "192.0.2.30", Interface: "eth0", DefaultRoute: true}}
	w.Names = map[string][]string{"cp2": {"192.0.2.30"}}
	w.MemberList = []state.Member{{ID: 1, Name: "cp1",
		PeerURLs:   []string{"https://192.0.2.10:2380"},
		ClientURLs: []string{"https://192.0.2.10:2379"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "etcd-cp1", Namespace: "kube-system",
		Labels:      map[string]string{"component": "etcd", "tier": "control-plane"},
		Annotations: map[string]string{manifest.EtcdURLAnnotation: "https://192.0.2.10:2379"},
	}}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := w.Do(t.Context(), change.ApplyObject{Object: pod}); err != nil {
		t.Fatal(err)
	}
	return w
}

// initializedMachine is a machine on which init has created a cluster.
func initializedMachine(t testing.TB) *fake.World {
	t.Helper()
	sharedCluster.Do(func() {
		s := findSubject("init")
		sharedCluster.machine = s.machine(t)
		sharedCluster.key = s.newRun(sharedCluster.machine).mustSucceed(t).key
	})
	return sharedCluster.machine.Clone()
}

// sharedCluster is created once for all tests.
var sharedCluster struct {
	sync.Once
	machine *fake.World
	key     string // certificate key of the uploaded certificates
}

const joinToken = "abcdef.0123456789abcdef"

// signedClusterInfo is the data of cluster-info, signed with the token that join uses.
func signedClusterInfo(t testing.TB, beside *fake.World) map[string]string {
	t.Helper()
	ref := state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-public",
		Name: "cluster-info"}
	u, err := beside.Object(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := u.Object["data"].(map[string]any)[bootstrapapi.KubeConfigKey].(string)
	id, secret, err := node.ParseToken(joinToken)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := jws.ComputeDetachedSignature(text, id, secret)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{bootstrapapi.KubeConfigKey: text,
		bootstrapapi.JWSSignatureKeyPrefix + id: signature}
}

// usedControlPlane is a control plane in use, also by others than Kubernetes.
func usedControlPlane(t testing.TB) *fake.World {
	w := initializedMachine(t)
	addWorkload(w)
	w.Files["/var/lib/etcd/member"] = memory.File{Mode: fs.ModeDir | 0o700}
	w.Files["/var/lib/etcd/member/snap"] = memory.File{Data: []byte("data"), Mode: 0o600}
	w.Pods = append(w.Pods,
		state.Sandbox{ID: "etcd", Name: "etcd-cp1", Namespace: "kube-system", Component: "etcd"})
	return w
}

// usedControlPlaneOfThree is the second of three control planes.
func usedControlPlaneOfThree(t testing.TB) *fake.World {
	s := findSubject("join a control plane")
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	addWorkload(w)
	w.Pods = append(w.Pods,
		state.Sandbox{ID: "etcd", Name: "etcd-cp2", Namespace: "kube-system", Component: "etcd"})
	w.MemberList = append(w.MemberList, state.Member{
		ID: 9, Name: "cp3", PeerURLs: []string{"https://192.0.2.31:2380"},
		ClientURLs: []string{"https://192.0.2.31:2379"},
	})
	return w
}

// usedWorker is a worker in use.
func usedWorker(t testing.TB) *fake.World {
	s := findSubject("join")
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	addWorkload(w)
	return w
}

func addWorkload(w *fake.World) {
	w.Pods = []state.Sandbox{{ID: "1", Name: "web-1", Namespace: "default"}}
	w.MountList = []string{"/", "/var/lib/kubelet/pods/1/volumes/secret"}
	w.Files["/etc/cni/net.d/10-bridge.conflist"] = memory.File{Data: []byte("{}"), Mode: 0o644}
}

const initConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
controlPlaneEndpoint: cluster.example:6443
encryptionAlgorithm: ECDSA-P256
networking:
  podSubnet: 10.244.0.0/16
`

func setUpInit(t testing.TB, e *engine.Env) error {
	flags := config.NewInitFlags()
	flags.UploadCerts = true
	return setUpInitWith(t, e, flags, initConfig)
}

func setUpInitWith(t testing.TB, e *engine.Env, flags config.InitFlags, text string) error {
	ctx := t.Context()
	n, _, err := config.Init(config.File{Name: "laws.yaml", Data: []byte(text)}, flags,
		gatherFacts(ctx, e))
	if err == nil {
		err = keepValues(ctx, e, n)
	}
	if err != nil {
		return err
	}
	e.Local = n.Local
	e.Node = func(context.Context) (*node.Node, error) { return n, nil }
	e.Admin = workflow.InitAdmin(e.World, e.Local)
	return nil
}

// keepValues generates values, or reuses those of an interrupted run.
func keepValues(ctx context.Context, e *engine.Env, n *node.Node) (err error) {
	t := &n.Tokens[0]
	end := e.World.Now().Add(t.TTL)
	n.CertificateKey, err = e.Once(ctx, "certificate-key", func() (string, error) {
		key, err := pki.NewCertificateKey(rand.Reader)
		return key.Hex(), err
	})
	if err != nil {
		return err
	}
	expires, err := e.Once(ctx, "expires",
		func() (string, error) { return end.UTC().Format(time.RFC3339), nil })
	if err != nil {
		return err
	}
	if t.Expires, err = time.Parse(time.RFC3339, expires); err != nil {
		return err
	}
	token, err := e.Once(ctx, "token", func() (string, error) { return t.String(), nil })
	if err == nil {
		t.ID, t.Secret, err = node.ParseToken(token)
	}
	return err
}

func setUpJoin(t testing.TB, e *engine.Env) error {
	return setUpJoinWith(t, e, config.NewJoinFlags())
}

func setUpControlPlaneJoin(t testing.TB, e *engine.Env) error {
	flags := config.NewJoinFlags()
	initializedMachine(t)
	flags.ControlPlane, flags.CertificateKey = true, sharedCluster.key
	err := setUpJoinWith(t, e, flags)
	e.Admin = workflow.JoinAdmin(e.World, e.Local)
	return err
}

func setUpJoinWith(t testing.TB, e *engine.Env, flags config.JoinFlags) error {
	certs, err := pki.ParseCertificates(
		initializedMachine(t).Files["/etc/kubernetes/pki/ca.crt"].Data)
	if err != nil {
		return err
	}
	flags.Endpoint, flags.Token, flags.CACertHashes = "192.0.2.10:6443", joinToken,
		[]string{pki.PinOf(certs[0]).String()}
	if e.Local, _, err = config.Join(config.File{}, flags,
		gatherFacts(t.Context(), e)); err == nil {
		setUpDiscovery(e)
	}
	return err
}

// setUpDiscovery sets Env.Node, which discovers the cluster once.
func setUpDiscovery(e *engine.Env) {
	var mu sync.Mutex
	var found *node.Node
	e.Node = func(ctx context.Context) (n *node.Node, err error) {
		mu.Lock()
		defer mu.Unlock()
		if found == nil {
			found, err = discovery.Node(ctx, e)
		}
		return found, err
	}
}

func setUpJoinByFile(t testing.TB, e *engine.Env) (err error) {
	flags := config.NewJoinFlags()
	flags.DiscoveryFile, flags.Token = discoveryFile, joinToken
	if e.Local, _, err = config.Join(config.File{}, flags,
		gatherFacts(t.Context(), e)); err == nil {
		setUpDiscovery(e)
	}
	return err
}

func setUpReset(t testing.TB, e *engine.Env) (err error) {
	intent, _, err := config.Reset(config.File{}, config.NewResetFlags(), gatherFacts(t.Context(), e))
	if err != nil {
		return err
	}
	e.Intent, e.Local = &intent, intent.Local
	e.Node = func(context.Context) (*node.Node, error) { return &node.Node{Local: e.Local}, nil }
	e.Admin = engine.As(existing.Admin(e.Local, ""))
	return nil
}

func gatherFacts(ctx context.Context, e *engine.Env) config.Facts {
	host, _ := e.World.Host(ctx)
	addresses, _ := e.World.Addresses(ctx)
	f := config.Facts{Tool: e.Tool, Hostname: host.Hostname, Addresses: addresses,
		Random: rand.Reader}
	if _, err := e.World.Stat(ctx, adminConf); err == nil {
		f.AdminKubeconfig = adminConf
	}
	return f
}
