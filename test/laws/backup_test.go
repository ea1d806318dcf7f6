package laws

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const archivePath = "/backup/cluster.tar"

// sharedBackup is the backup of a cluster whose machines are gone.
var sharedBackup struct {
	sync.Once
	etcdsnapshot.Backup
	archive []byte
}

// newBackupMachine is a fresh machine with the archive. Its API server has the restored objects: the Nodes
// and Leases of the old control plane.
func newBackupMachine(t testing.TB) *fake.World {
	t.Helper()
	sharedBackup.Do(func() { makeBackup(t) })
	w := newInitMachine(t)
	w.Files[archivePath] = memory.File{Data: sharedBackup.archive, Mode: 0o600}
	made := metav1.NewTime(sharedBackup.Manifest.Time.Add(-time.Hour))
	for _, name := range []string{"old1", "old2"} {
		n := &unstructured.Unstructured{}
		n.SetGroupVersionKind(state.NodeKind)
		n.SetName(name)
		n.SetCreationTimestamp(made)
		n.SetLabels(map[string]string{"node-role.kubernetes.io/control-plane": ""})
		lease := newLease(corev1.NamespaceNodeLease, name)
		server := newLease("kube-system", "apiserver-"+name)
		server.SetLabels(map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver",
			corev1.LabelHostname: name})
		for _, u := range []*unstructured.Unstructured{n, lease, server} {
			if err := w.World.Do(t.Context(), change.ApplyObject{Object: u}); err != nil {
				t.Fatal(err)
			}
		}
	}
	addLeader(t, w, "kube-controller-manager", "old1_1", "5")
	return w
}

// addLeader adds a Lease for leader election that was last written at a revision.
func addLeader(t testing.TB, w *fake.World, component, holder, revision string) {
	t.Helper()
	u := newLease("kube-system", component)
	u.SetResourceVersion(revision)
	u.Object["spec"] = map[string]any{"holderIdentity": holder}
	if err := w.PutObject(u); err != nil {
		t.Fatal(err)
	}
}

// checkLeader fails unless that is the holder of the component's Lease; empty for a released one.
func checkLeader(t *testing.T, w *fake.World, component, want string) {
	t.Helper()
	u, err := w.Object(t.Context(), state.Ref{GVK: clusterlock.LeaseKind(), Namespace: "kube-system", Name: component})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity"); got != want {
		t.Errorf("the leader election Lease of %s is held by %q, want %q", component, got, want)
	}
}

func newLease(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterlock.LeaseKind())
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func makeBackup(t testing.TB) {
	old := initializedMachine(t)
	snapshot := "/snapshot.db"
	if err := old.World.Do(t.Context(), change.SaveSnapshot{Path: snapshot}); err != nil {
		t.Fatal(err)
	}
	info, err := old.ReadSnapshot(t.Context(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	m := etcdsnapshot.Manifest{Node: "old1", Time: old.Now(), Snapshot: info}
	for _, name := range pki.SharedFiles(true) {
		m.Files = append(m.Files, etcdsnapshot.ArchivedFile{Name: etcdsnapshot.PKIPrefix + name,
			Data: old.Files["/etc/kubernetes/pki/"+name].Data})
	}
	for object, key := range map[string]string{"kubeadm-config": "ClusterConfiguration",
		"kubelet-config": "kubelet", "kube-proxy": "config.conf"} {
		u, err := old.Object(t.Context(), state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			Namespace: "kube-system", Name: object})
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := unstructured.NestedString(u.Object, "data", key)
		m.Files = append(m.Files, etcdsnapshot.ArchivedFile{
			Name: etcdsnapshot.ConfigPrefix + object + ".yaml", Data: []byte(text)})
	}
	var b bytes.Buffer
	if err := etcdsnapshot.WriteArchive(t.Context(), &b, etcdsnapshot.Protection{}, m,
		bytes.NewReader(old.Files[snapshot].Data)); err != nil {
		t.Fatal(err)
	}
	sharedBackup.archive = b.Bytes()
	sharedBackup.Backup, err = etcdsnapshot.ReadBackup(t.Context(), archivePath,
		bytes.NewReader(b.Bytes()), etcdsnapshot.Key{})
	if err != nil {
		t.Fatal(err)
	}
}

func setUpBackup(t testing.TB, e *engine.Env) error {
	flags := config.NewInitFlags()
	flags.UploadCerts = true
	stored := func(object string) string {
		return string(sharedBackup.File(etcdsnapshot.ConfigPrefix + object + ".yaml"))
	}
	n, _, err := config.Rebuild(config.File{}, flags, config.Backup{
		Stored: config.StoredConfig{Cluster: stored("kubeadm-config"),
			Kubelet:   config.StoredComponent{Text: stored("kubelet-config")},
			KubeProxy: config.StoredComponent{Text: stored("kube-proxy")}},
		Snapshot: sharedBackup.Manifest.Snapshot.SHA256}, gatherFacts(t.Context(), e))
	if err == nil {
		err = keepValues(t.Context(), e, n)
	}
	if err != nil {
		return err
	}
	e.Local, e.Node = n.Local, engine.Resolved(n)
	e.Admin = workflow.InitAdmin(e.World, e.Local)
	return nil
}

// The rebuilt cluster has the CAs, the data and the configuration of the backup, and etcd never starts
// empty. What is left of the old control plane is named.
func TestInitFromBackup(t *testing.T) {
	r := findSubject("init from a backup").newRun(newBackupMachine(t))
	out := r.mustSucceed(t)
	for _, name := range pki.SharedFiles(true) {
		if !bytes.Equal(r.machine.Files["/etc/kubernetes/pki/"+name].Data,
			sharedBackup.File(etcdsnapshot.PKIPrefix+name)) {
			t.Errorf("%s is not that of the backup", name)
		}
	}
	if _, ok := r.machine.Files[memberDir+"/"+memory.RestoredFile]; !ok {
		t.Error("the data of etcd were not restored")
	}
	if !strings.Contains(string(r.machine.Files[etcdYAML].Data), "--initial-cluster-state=existing") {
		t.Errorf("the manifest of etcd is\n%s", r.machine.Files[etcdYAML].Data)
	}
	named := slices.ContainsFunc(out.events, func(e engine.Event) bool {
		return strings.Contains(e.Text, "kubectl delete node old1 old2")
	})
	if !named || len(oldObjects(r.machine)) != 6 {
		t.Errorf("the old control plane is named: %t; left are %v", named, oldObjects(r.machine))
	}
	for name := range r.machine.Files {
		if strings.HasPrefix(name, "/var/lib/etcd/kubeadm-restored") {
			t.Errorf("%s is left", name)
		}
	}
}

// The Lease of a leader that is gone must not delay this control plane. A Lease that was written after
// the restore has a holder that runs.
func TestInitFromBackupReleasesOldLeaders(t *testing.T) {
	r := findSubject("init from a backup").newRun(newBackupMachine(t))
	addLeader(t, r.machine, "kube-scheduler", "cp1_2", "1000000100")
	r.mustSucceed(t)
	checkLeader(t, r.machine, "kube-controller-manager", "")
	checkLeader(t, r.machine, "kube-scheduler", "cp1_2")
}

// oldObjects are those of the old control plane.
func oldObjects(m *fake.World) (names []string) {
	for key := range m.Objects {
		name := fmt.Sprint(key)
		if strings.Contains(name, "old") && !strings.Contains(name, "ConfigMap") {
			names = append(names, name)
		}
	}
	return names
}

// Only a refused connection shows that the old control plane is off. Anything else is said, with what is at stake.
func TestInitFromBackupWarnsOfUnknownOldControlPlane(t *testing.T) {
	const endpoint = "cluster.example:6443"
	for name, c := range map[string]struct {
		change func(*fake.World)
		warns  bool
	}{
		"refused": {func(*fake.World) {}, false},
		"unknown": {func(m *fake.World) { m.UnknownServers = []string{endpoint} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := findSubject("init from a backup").newRun(newBackupMachine(t))
			c.change(r.machine)
			warned := slices.ContainsFunc(r.mustSucceed(t).events, func(e engine.Event) bool {
				return e.Kind == engine.Warned && strings.Contains(e.Text, "still answers at "+endpoint)
			})
			if warned != c.warns {
				t.Errorf("warned: %t", warned)
			}
		})
	}
}

// Without a configuration in the backup, the endpoint of the user's file is that of the old control plane.
func TestInitFromBackupChecksEndpointOfFile(t *testing.T) {
	w := newBackupMachine(t)
	backup := sharedBackup.Backup
	backup.Files = slices.DeleteFunc(slices.Clone(backup.Files), func(f etcdsnapshot.ArchivedFile) bool {
		return f.Name == etcdsnapshot.ConfigPrefix+"kubeadm-config.yaml"
	})
	s := findSubject("init from a backup")
	s.phases = workflow.InitFromBackup(&backup, false)
	setUp := s.setUp
	s.setUp = func(t testing.TB, e *engine.Env) error {
		err := setUp(t, e)
		if n, failed := e.Node(t.Context()); failed == nil {
			n.Cluster.Backup.Endpoint = ""
		}
		return err
	}
	r := s.newRun(w)
	r.machine.RemoteCertificates = map[string]*x509.Certificate{"cluster.example:6443": {}}
	if out := r.execute(t); out.err == nil || !strings.Contains(out.err.Error(), "something still answers") {
		t.Errorf("the command ended with: %v", out.err)
	}
}

// Workers learn how to follow to another endpoint.
func TestInitFromBackupAtAnotherEndpoint(t *testing.T) {
	s := findSubject("init from a backup")
	setUp := s.setUp
	s.setUp = func(t testing.TB, e *engine.Env) error {
		err := setUp(t, e)
		if n, failed := e.Node(t.Context()); failed == nil {
			n.Cluster.Backup.Endpoint = "previous.example:6443"
		}
		return err
	}
	warned := slices.ContainsFunc(s.newRun(newBackupMachine(t)).mustSucceed(t).events, func(e engine.Event) bool {
		return e.Kind == engine.Warned && strings.Contains(e.Text, "kubeadm endpoint follow cluster.example:6443")
	})
	if !warned {
		t.Error("the command for workers is not named")
	}
}

func TestInitFromBackupRemovesOldControlPlane(t *testing.T) {
	s := findSubject("init from a backup")
	s.phases = workflow.InitFromBackup(&sharedBackup.Backup, true)
	r := s.newRun(newBackupMachine(t))
	r.mustSucceed(t)
	if left := oldObjects(r.machine); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// What would make two clusters of one, or replace what is there, is refused before anything changes.
func TestInitFromBackupIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fake.World)
		word   string
	}{
		"the old control plane answers": {func(m *fake.World) {
			m.RemoteCertificates = map[string]*x509.Certificate{"cluster.example:6443": {}}
		}, "something still answers at cluster.example:6443"},
		"another CA": {func(m *fake.World) {
			m.Files["/etc/kubernetes/pki/ca.key"] = memory.File{Data: []byte("other"), Mode: 0o600}
		}, "would replace others on this machine: /etc/kubernetes/pki/ca.key"},
		"data of etcd": {func(m *fake.World) {
			m.Files[path.Dir(memberDir)] = memory.File{Mode: fs.ModeDir | 0o700}
			m.Files[memberDir] = memory.File{Mode: fs.ModeDir | 0o700}
		}, "/var/lib/etcd is not empty"},
	} {
		t.Run(name, func(t *testing.T) {
			r := findSubject("init from a backup").newRun(newBackupMachine(t))
			c.change(r.machine)
			before := r.machine.Snapshot()
			out := r.execute(t)
			if out.err == nil || !strings.Contains(out.err.Error(), c.word) {
				t.Errorf("%q is not in %v", c.word, out.err)
			}
			if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
				t.Errorf("it changed the machine:\n%s", diff)
			}
		})
	}
}
