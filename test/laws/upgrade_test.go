package laws

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const (
	oldVersion = "v1.36.3"
	newVersion = "v1.37.1"
)

func upgradeSubjects() []subject {
	return []subject{
		{name: "upgrade apply", phases: workflow.UpgradeApply, machine: newOldControlPlane,
			setUp: setUpUpgradeApply, node: "cp1", restores: true, repeats: true},
		{name: "upgrade node of a control plane", phases: workflow.UpgradeNode,
			machine: newLaterControlPlane, setUp: setUpStaticPodUpgrade, node: "cp1", restores: true,
			repeats: true},
		{name: "upgrade node of a worker", phases: workflow.UpgradeNode, machine: newOldWorker,
			setUp: setUpUpgradeNode, node: "worker1", repeats: true},
	}
}

// withoutRepeated leaves out what a command repeats in each run: it locks the cluster, makes
// backups of what it is about to replace, and like upstream's kubeadm renews certificates,
// whatever an earlier run has renewed. A snapshot of etcd would be outdated in the next run.
func (s subject) withoutRepeated(all []change.Change) []change.Change {
	if !s.repeats {
		return all
	}
	paths := node.DefaultPaths()
	repeated := []string{clusterLock}
	for _, c := range pki.Renewables() {
		if c.File != "" {
			repeated = append(repeated, change.FileTarget(paths.Kubeconfig(c.File)))
			continue
		}
		repeated = append(repeated, change.FileTarget(paths.Key(c.Base)),
			change.FileTarget(paths.Cert(c.Base)))
	}
	return slices.DeleteFunc(slices.Clone(all),
		func(c change.Change) bool {
			// In the time between two runs the kubelet may have replaced a Pod itself.
			_, isRemoval := c.(change.RemoveContainers)
			return isRemoval && s.replacesSome || slices.Contains(repeated, c.Target()) ||
				ownBackup.MatchString(c.Target())
		})
}

// ownBackup matches the targets of backups that each run makes again. Of manifests, that is the
// directory: the next run writes to that of a killed one only if a component was being replaced.
var ownBackup = regexp.MustCompile(`/kubeadm-(backup-etcd|kubelet-config|kubelet-env)-|` +
	`/kubeadm-backup-manifests-[\d-]+$`)

// describe describes the machine after runs of the command, without the backups of a command that
// makes them in each run.
func (s subject) describe(t testing.TB, m *fake.World, key string) string {
	t.Helper()
	if s.repeats {
		m = m.Clone()
		maps.DeleteFunc(m.Files, func(name string, _ memory.File) bool {
			return backupTimePattern.MatchString(name)
		})
	}
	return describeMachine(t, m, key)
}

// upgraded are the machines of upgrades, created once for all tests. Their clocks stand still, so
// that all copies start at the same time.
var upgraded struct {
	controlPlane, worker sync.Once

	first     *fake.World // the only control plane of its cluster
	later     *fake.World // another control plane of its cluster has been upgraded
	oldWorker *fake.World
}

// newOldControlPlane is a control plane of the previous minor version.
func newOldControlPlane(t testing.TB) *fake.World {
	createOldControlPlanes(t)
	return withFastClock(upgraded.first.Clone())
}

// newLaterControlPlane is the same machine after the upgrade of another control plane node, which
// has left the add-ons to this one.
func newLaterControlPlane(t testing.TB) *fake.World {
	createOldControlPlanes(t)
	return withFastClock(upgraded.later.Clone())
}

func createOldControlPlanes(t testing.TB) {
	t.Helper()
	upgraded.controlPlane.Do(func() {
		s := subject{name: "init", phases: workflow.Init, node: "cp1",
			setUp: func(t testing.TB, e *engine.Env) error {
				return setUpInitWith(t, e, config.NewInitFlags(),
					strings.Replace(initConfig, newVersion, oldVersion, 1))
			}}
		w := newInitMachine(t)
		w.Kubelet = oldVersion
		s.newRun(w).mustSucceed(t)
		issueKubeletCertificate(t, w, w)
		w.MemberList = []state.Member{{ID: 1, Name: "cp1",
			PeerURLs:   []string{"https://192.0.2.10:2380"},
			ClientURLs: []string{"https://192.0.2.10:2379"}}}
		w.Files["/var/lib/etcd/member"] = memory.File{Mode: fs.ModeDir | 0o700}
		useOlderImages(t, w)
		addMirrorPods(t, w, oldVersion, "cp1")
		nodeKey := memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}
		w.Objects[nodeKey].Object["status"] = map[string]any{
			"nodeInfo":   map[string]any{"kubeletVersion": oldVersion},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}
		for _, component := range []string{release.ControllerManager, release.Scheduler} {
			// Runs are hours apart: the leader must have renewed its Lease before each of them.
			addObjects(t, w, fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease,
  metadata: {name: %s, namespace: kube-system},
  spec: {holderIdentity: cp1_1, renewTime: %q}}`, component,
				w.Now().Add(24*time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")))
		}
		stopClock(w)
		upgraded.first = w

		other := withFastClock(w.Clone())
		r := upgradeSubjects()[0].newRun(other)
		r.sel.Skip = []string{"addon"}
		r.mustSucceed(t)
		upgraded.later = w.Clone()
		stopClock(upgraded.later)
		upgraded.later.Objects = other.Objects
		addMirrorPods(t, upgraded.later, newVersion, "cp2")
	})
}

// useOlderImages gives etcd and CoreDNS images of an older release.
func useOlderImages(t testing.TB, w *fake.World) {
	t.Helper()
	target, err := release.ParseTarget(oldVersion)
	if err != nil {
		t.Fatal(err)
	}
	file := node.DefaultPaths().Manifest(manifest.Etcd)
	images := release.Images{Target: target}
	overwriteFile(w, file, bytes.ReplaceAll(w.Files[file].Data, []byte(images.EtcdTag()),
		[]byte("3.6.5-0")))
	for key, o := range w.Objects {
		if key.Kind.Kind == "Deployment" && key.Name == "coredns" {
			text, err := o.MarshalJSON()
			if err == nil {
				err = o.UnmarshalJSON(bytes.ReplaceAll(text, []byte(images.CoreDNSTag()),
					[]byte("v1.13.1")))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// issueKubeletCertificate issues the client certificate of a machine's kubelet, which the simulated
// kubelet leaves empty.
func issueKubeletCertificate(t testing.TB, w, with *fake.World) {
	t.Helper()
	ca := pki.CA{}
	certs, err := pki.ParseCertificates(with.Files["/etc/kubernetes/pki/ca.crt"].Data)
	if err == nil {
		ca.Certificate = certs[0]
		ca.Key, err = pki.ParseKey(with.Files["/etc/kubernetes/pki/ca.key"].Data)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(rand.Reader, pki.ClientSpec("system:node:"+w.NodeName,
		[]string{"system:nodes"}, pki.NewValidity(w.Now(), 365*24*time.Hour)), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	w.Files[rotatedCertificate] = memory.File{
		Data: append(pki.EncodeCertificates(cert), text...), Mode: 0o600}
}

// addMirrorPods adds the Pods of the control plane of a node.
func addMirrorPods(t testing.TB, w *fake.World, version, node string) {
	for _, component := range manifest.Components() {
		addObjects(t, w, fmt.Sprintf(`{apiVersion: v1, kind: Pod,
  metadata: {name: %[1]s-%[2]s, namespace: kube-system,
    labels: {component: %[1]s, tier: control-plane}},
  spec: {nodeName: %[2]s, containers: [{name: %[1]s, image: "registry.k8s.io/%[1]s:%[3]s"}]}}`,
			component, node, version))
	}
}

func addObjects(t testing.TB, w *fake.World, text string) {
	t.Helper()
	if err := w.AddObjects(text); err != nil {
		t.Fatal(err)
	}
}

// newOldWorker is a worker that an old kubeadm has joined to the cluster: it has no instance
// configuration, and its kubelet has flags that were removed since.
func newOldWorker(t testing.TB) *fake.World {
	upgraded.worker.Do(func() {
		s := findSubject("join")
		w := s.machine(t)
		s.newRun(w).mustSucceed(t)
		issueKubeletCertificate(t, w, initializedMachine(t))
		paths := node.DefaultPaths()
		overwriteFile(w, paths.KubeletFlags(), []byte(`KUBELET_KUBEADM_ARGS="`+
			`--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock `+
			`--pod-infra-container-image=registry.example/sandbox:3.10 --v=2"`+"\n"))
		overwriteFile(w, paths.KubeletConfig(),
			append(w.Files[paths.KubeletConfig()].Data, []byte("maxPods: 50\n")...))
		delete(w.Files, paths.KubeletInstanceConfig())
		stopClock(w)
		upgraded.oldWorker = w
	})
	return upgraded.oldWorker.Clone()
}

func stopClock(w *fake.World) {
	now := w.Now()
	w.Clock = func() time.Time { return now }
}

func setUpUpgradeApply(t testing.TB, e *engine.Env) error {
	flags := config.NewUpgradeFlags()
	flags.Version, flags.Yes = newVersion, true
	intent, _, err := config.UpgradeApply(config.File{}, flags)
	if err != nil {
		return err
	}
	return setUpUpgrade(t, e, intent)
}

func setUpUpgradeNode(t testing.TB, e *engine.Env) error {
	return setUpUpgradeNodeWith(t, e, config.NewUpgradeFlags())
}

// setUpStaticPodUpgrade does not touch etcd and certificates.
func setUpStaticPodUpgrade(t testing.TB, e *engine.Env) error {
	return setUpUpgradeNodeWith(t, e, config.UpgradeFlags{})
}

func setUpUpgradeNodeWith(t testing.TB, e *engine.Env, flags config.UpgradeFlags) error {
	intent, _, err := config.UpgradeNode(config.File{}, flags)
	if err != nil {
		return err
	}
	return setUpUpgrade(t, e, intent)
}

func setUpUpgrade(t testing.TB, e *engine.Env, intent node.Upgrade) (err error) {
	ctx := t.Context()
	e.Local = intent.Local
	here, err := existing.Open(ctx, e, existing.Options{RemoveTemporary: true})
	if err != nil {
		return err
	}
	intent.Local, e.Local, e.Admin = here.Local, here.Local, engine.As(here.As)
	var target release.Target
	if intent.Version != "" {
		if target, err = release.ParseTarget(intent.Version); err != nil {
			return err
		}
	}
	n, _, err := existing.ReadNode(ctx, e.Reader(), here.As, here.Local, target)
	if err != nil {
		return err
	}
	e.Local, e.Node, e.Intent = n.Local, engine.Resolved(n), upgrade.Intent{Upgrade: intent}
	return nil
}

// The same command resumes, also if a newer kubeadm was installed in between: it must not take a node
// whose static Pods have the version of the cluster for one that "upgrade apply" has yet to precede.
func TestUpgradeNodeResumesWithNewerKubeadm(t *testing.T) {
	s := upgradeSubjects()[1]
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		again := r.rerun()
		again.setUp = func(t testing.TB, e *engine.Env) (err error) {
			if e.Tool, err = release.ParseTool("v1.38.0"); err != nil {
				return err
			}
			return s.setUp(t, e)
		}
		again.mustSucceed(t)
	})
}

// "upgrade node" does not undo an "upgrade apply" that was killed on the same machine, before the cluster stored its version.
func TestUpgradeNodeKeepsKilledApply(t *testing.T) {
	s := upgradeSubjects()[0]
	file := node.DefaultPaths().Manifest(release.APIServer)
	var refused atomic.Int32
	t.Cleanup(func() {
		if refused.Load() == 0 {
			t.Error("it is refused nowhere")
		}
	})
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		isNew := func() bool {
			return strings.Contains(string(r.machine.Files[file].Data), release.APIServer+":"+newVersion)
		}
		if !isNew() {
			return
		}
		addMirrorPods(t, r.machine, newVersion, "cp1")
		again := r.rerun()
		again.name, again.phases, again.setUp = "upgrade node", workflow.UpgradeNode, setUpUpgradeNode
		out := again.execute(t)
		if !isNew() {
			t.Errorf("the previous API server runs again: %v", out.err)
		}
		switch {
		case out.err == nil: // the cluster stores the new version already
		case strings.Contains(out.err.Error(), `"kubeadm upgrade apply" did not finish`):
			refused.Add(1)
		default:
			t.Errorf("it fails otherwise: %v", out.err)
		}
	})
}
