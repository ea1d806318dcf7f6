package laws

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// newRotatingMachine is the only control plane of a cluster whose Pods run.
func newRotatingMachine(t testing.TB) *fake.World {
	w := renewedMachine(t)
	issueKubeletCertificate(t, w, w)
	file := node.DefaultPaths().KubeletKubeconfig()
	kubeconfig, err := pki.ParseKubeconfig(w.Files[file].Data)
	if err == nil {
		err = kubeconfig.UseRotatedCertificate(rotatedCertificate)
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := kubeconfig.Encode()
	if err != nil {
		t.Fatal(err)
	}
	overwriteFile(w, file, data)
	w.MemberList = []state.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.10:2380"},
		ClientURLs: []string{"https://192.0.2.10:2379"}}}
	w.Files["/var/lib/etcd/member"] = memory.File{Mode: fs.ModeDir | 0o700}
	if _, err := w.Containers(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for k, o := range w.Objects {
		if k.Kind.Kind == "Deployment" {
			o.Object["status"] = map[string]any{"replicas": int64(2), "updatedReplicas": int64(2),
				"availableReplicas": int64(2)}
		}
	}
	return w
}

// rotateCA returns the command of a stage.
func rotateCA(s rotation.Stage, o rotation.Options) subject {
	return subject{name: "rotate-ca " + string(s), phases: workflow.RotateCA(s, o), node: "cp1",
		repeats: true, setUp: func(t testing.TB, e *engine.Env) error {
			return setUpUpgradeNodeWith(t, e, config.UpgradeFlags{})
		}}
}

// rotate runs commands of a rotation, and what the controllers of the cluster do after each.
func rotate(t testing.TB, w *fake.World, commands ...rotation.Stage) {
	t.Helper()
	for _, s := range commands {
		w.Clock = memory.NewTickingClock(w.Now().Add(2 * time.Hour))
		rotateCA(s, rotation.Options{}).newRun(w).mustSucceed(t)
		publishRootCA(t, w)
	}
}

// publishRootCA writes what kube-controller-manager publishes.
func publishRootCA(t testing.TB, w *fake.World) {
	t.Helper()
	c := &corev1.ConfigMap{Data: map[string]string{
		"ca.crt": string(w.Files["/etc/kubernetes/pki/ca.crt"].Data)}}
	c.APIVersion, c.Kind, c.Namespace, c.Name = "v1", "ConfigMap", "default", "kube-root-ca.crt"
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager",
		Time: &metav1.Time{Time: w.Now()}}}
	if err := w.PutObject(c); err != nil {
		t.Fatal(err)
	}
}

// rotationSteps are commands, and those that come before them.
func rotationSteps() map[string][]rotation.Stage {
	const trust, sign, finish, undo = rotation.Trust, rotation.Sign, rotation.Finish,
		rotation.Undo
	return map[string][]rotation.Stage{
		"trust":                    {trust},
		"sign":                     {trust, sign},
		"finish":                   {trust, sign, finish},
		"undo after trust":         {trust, undo},
		"undo after sign":          {trust, sign, undo},
		"undo after sign and undo": {trust, sign, undo, undo},
	}
}

// Wherever a stage is killed, every component can be started with the files that are there, and the
// same command completes the stage.
func TestRotationResumesAtEveryCrashPoint(t *testing.T) {
	for name, steps := range rotationSteps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newRotatingMachine(t)
			last := steps[len(steps)-1]
			rotate(t, before, steps[:len(steps)-1]...)
			command := rotateCA(last, rotation.Options{})
			before.Clock = memory.NewTickingClock(before.Now().Add(2 * time.Hour))
			whole := command.newRun(before.Clone())
			_, killed := whole.killedEverywhere(t)
			want := describeRotated(t, whole.machine)
			checkRotated(t, whole.machine)
			for _, first := range killed {
				t.Run(first.name, func(t *testing.T) {
					checkRotated(t, first.machine)
					r := first.rerun()
					if last == rotation.Undo || last == rotation.Finish {
						// The killed run may have ended but for its last message, or begun the next step.
						if out := r.execute(t); out.err != nil &&
							!strings.Contains(out.err.Error(), "no rotation is in progress") {
							t.Fatal(out.err)
						}
						checkRotated(t, r.machine)
						if name == "undo after sign" {
							return // the second run may be the second step
						}
					} else {
						r.mustSucceed(t)
					}
					checkRotated(t, r.machine)
					if got := describeRotated(t, r.machine); got != want {
						t.Errorf("the machine is\n%s\nand not\n%s", got, want)
					}
				})
			}
		})
	}
}

// A finished rotation, done or undone, leaves the same files and objects as were there before, but
// for the keys.
func TestFinishedRotationLeavesNoTrace(t *testing.T) {
	for _, steps := range [][]rotation.Stage{
		{rotation.Trust, rotation.Sign, rotation.Finish},
		{rotation.Trust, rotation.Undo},
		{rotation.Trust, rotation.Sign, rotation.Undo, rotation.Undo},
	} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			w := newRotatingMachine(t)
			before := w.Clone()
			rotate(t, w, steps...)
			checkRotated(t, w)
			isNew := steps[len(steps)-1] == rotation.Finish
			for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "etcd/ca.crt",
				"etcd/ca.key", "sa.pub", "sa.key"} {
				file := "/etc/kubernetes/pki/" + name
				if bytes.Equal(w.Files[file].Data, before.Files[file].Data) == isNew {
					t.Errorf("%s: new: %v", name, isNew)
				}
			}
			manifests := func(m *fake.World) string {
				return string(m.Files["/etc/kubernetes/manifests/kube-controller-manager.yaml"].Data)
			}
			if manifests(w) != manifests(before) {
				t.Errorf("the manifest is\n%s\nand was\n%s", manifests(w), manifests(before))
			}
			if got, want := listNames(w), listNames(before); !slices.Equal(got, want) {
				t.Errorf("there are\n%s\nand were\n%s", strings.Join(got, "\n"),
					strings.Join(want, "\n"))
			}
		})
	}
}

// readKubeletPair reads the client certificate of the kubelet and its key.
func readKubeletPair(t *testing.T, w *fake.World) []byte {
	t.Helper()
	data, err := w.ReadFile(t.Context(), rotatedCertificate)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// listNames lists the files and objects that kubeadm keeps. Backups, earlier client certificates of
// the kubelet and uploaded certificates, which expire, are left out.
func listNames(w *fake.World) (names []string) {
	for name := range w.Files {
		if !strings.HasPrefix(name, "/etc/kubernetes/tmp") && !kubeletTimePattern.MatchString(name) {
			names = append(names, name)
		}
	}
	for k := range w.Objects {
		if k.Name != "kubeadm-certs" && k.Name != "kube-root-ca.crt" {
			names = append(names, fmt.Sprint(k))
		}
	}
	slices.Sort(names)
	return names
}

// A dry run of each stage tells what the stage does, and changes nothing.
func TestRotationDryRun(t *testing.T) {
	for name, steps := range rotationSteps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRotatingMachine(t)
			rotate(t, w, steps[:len(steps)-1]...)
			w.Clock = memory.NewTickingClock(w.Now().Add(2 * time.Hour))
			r := rotateCA(steps[len(steps)-1], rotation.Options{}).newRun(w)
			stopClock(w)
			snapshot := w.Snapshot()
			w.Clock = memory.NewTickingClock(w.Now())
			told := r.asDryRun(t)
			shown := describeEvents(told.mustSucceed(t))
			maps.DeleteFunc(w.Files, func(name string, _ memory.File) bool {
				return strings.HasPrefix(name, dryRunDir)
			})
			if diff := cmp.Diff(snapshot, w.Snapshot()); diff != "" {
				t.Error("the dry run has changed something:", diff)
			}
			if did := describeEvents(r.mustSucceed(t)); !slices.Equal(did, shown) {
				t.Errorf("announced\n%s\ndone\n%s", strings.Join(shown, "\n"), strings.Join(did, "\n"))
			}
		})
	}
}

// describeEvents names the changes that a run reports, each once: in a dry run containers that were
// removed stay so.
func describeEvents(out outcome) (all []string) {
	for _, e := range out.events {
		if e.Kind == engine.Did && e.Change.Target() != clusterLock {
			if name := describeChanges([]change.Change{e.Change})[0]; !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// checkRotated checks what must hold at any time: each key matches its certificate, the CAs on the
// machine verify what they are needed for, and kube-controller-manager reads one certificate.
func checkRotated(t *testing.T, w *fake.World) {
	t.Helper()
	ctx, paths := t.Context(), node.DefaultPaths()
	if got := listMismatchedKeys(t, w); len(got) > 0 {
		t.Errorf("keys that do not match their certificates: %v", got)
	}
	for _, c := range pki.Renewables() {
		issuer, _ := pki.ProfileOf(c.Issuer)
		cert, err := certstore.ReadRenewable(ctx, w, paths, c)
		if err != nil {
			t.Fatal(err)
		}
		checkVerifies(t, c.Name, cert, w.Files[paths.Cert(issuer.Base)].Data)
	}
	serving, err := pki.ParseCertificates(w.Files[paths.Cert("apiserver")].Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pki.KubeconfigProfiles() {
		kubeconfig, err := pki.ParseKubeconfig(w.Files[paths.Kubeconfig(p.File)].Data)
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := kubeconfig.CurrentCluster()
		if err != nil {
			t.Fatal(err)
		}
		checkVerifies(t, "the API server with "+p.File, serving[0],
			cluster.CertificateAuthorityData)
	}
	client, err := pki.ParseCertificates(readKubeletPair(t, w))
	if err != nil {
		t.Fatal(err)
	}
	checkVerifies(t, "the kubelet", client[0], w.Files[paths.Cert("ca")].Data)
	for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		checkPair(t, w, paths.Cert(base), paths.Key(base))
	}
	key, err := pki.ParseKey(w.Files[paths.Certificate("sa.key")].Data)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := pki.ContainsPublicKeyOf(w.Files[paths.Certificate("sa.pub")].Data,
		key); !ok || err != nil {
		t.Errorf("sa.pub does not have the public key of sa.key: %v", err)
	}
	var files []string
	for line := range strings.Lines(string(w.Files[paths.Manifest("kube-controller-manager")].Data)) {
		if _, value, ok := strings.Cut(strings.TrimSpace(line), "--cluster-signing-"); ok {
			_, file, _ := strings.Cut(value, "=")
			files = append(files, file)
		}
	}
	slices.Sort(files)
	if len(files) != 2 {
		t.Fatalf("kube-controller-manager signs with %v", files)
	}
	checkPair(t, w, files[0], files[1])
	if signing, err := pki.ParseCertificates(w.Files[files[0]].Data); err != nil ||
		len(signing) != 1 {
		t.Errorf("%s has %d certificates: %v", files[0], len(signing), err)
	}
	info := string(signedClusterInfoText(t, w))
	kubeconfig, err := pki.ParseKubeconfig([]byte(info))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kubeconfig.DiscoveryCluster()
	if err != nil {
		t.Fatal(err)
	}
	checkVerifies(t, "the API server with cluster-info", serving[0],
		cluster.CertificateAuthorityData)
}

func signedClusterInfoText(t *testing.T, w *fake.World) string {
	t.Helper()
	u := w.Objects[memory.Key{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(),
		Namespace: "kube-public", Name: "cluster-info"}]
	text, _, err := unstructured.NestedString(u.Object, "data", bootstrapapi.KubeConfigKey)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkPair checks that the first certificate of a file belongs to a key.
func checkPair(t *testing.T, w *fake.World, cert, key string) {
	t.Helper()
	ca, err := pki.StoredPair{Certificate: w.Files[cert].Data, Key: w.Files[key].Data}.ParseCA()
	if err != nil || ca.Key == nil || !pki.IsKeyOf(ca.Key, ca.Certificate.PublicKey) {
		t.Errorf("%s does not match %s: %v", key, cert, err)
	}
}

// checkVerifies checks that one of the CAs has signed the certificate.
func checkVerifies(t *testing.T, what string, cert *x509.Certificate, bundle []byte) {
	t.Helper()
	cas, err := pki.ParseCertificates(bundle)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if !slices.ContainsFunc(cas, func(ca *x509.Certificate) bool {
		return cert.CheckSignatureFrom(ca) == nil
	}) {
		t.Errorf("%s: none of %d CAs has signed the certificate", what, len(cas))
	}
}

// describeRotated describes the machine by the certificates that each file has, without keys and
// names that are generated in each run.
func describeRotated(t *testing.T, w *fake.World) string {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.Files)) {
		if strings.HasPrefix(name, "/etc/kubernetes/tmp/") || kubeletTimePattern.MatchString(name) {
			continue
		}
		data, err := w.ReadFile(t.Context(), name)
		if err != nil && !w.Files[name].Mode.IsDir() {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %v %d PEM blocks", name, w.Files[name].Mode,
			bytes.Count(data, []byte("-----BEGIN")))
		if strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&b, "\n%s", data)
		}
		b.WriteString("\n")
	}
	for _, k := range slices.SortedFunc(maps.Keys(w.Objects), func(a, b memory.Key) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}) {
		if k.Kind.Kind == "Secret" || k.Kind.Kind == "Lease" {
			continue
		}
		fmt.Fprintf(&b, "%v\n", k)
	}
	return b.String()
}

// The kubelet of a control plane node may accept clients by another file than ca.crt.
func TestRotationWritesClientCAFileOfUser(t *testing.T) {
	const file, own = "/srv/client-cas.crt", "/etc/kubernetes/pki/front-proxy-ca.crt"
	w := newRotatingMachine(t)
	read := func(name string) string { return string(w.Files[name].Data) }
	config := node.DefaultPaths().KubeletConfig()
	overwriteFile(w, config, []byte(strings.Replace(read(config), "/etc/kubernetes/pki/ca.crt", file, 1)))
	before, user := read("/etc/kubernetes/pki/ca.crt"), read(own)
	w.Files[file] = memory.File{Data: []byte(before + user), Mode: 0o644}
	rotate(t, w, rotation.Trust)
	if want := read("/etc/kubernetes/pki/ca.crt") + user; !strings.Contains(want, before) || read(file) != want {
		t.Errorf("after trust the kubelet accepts\n%s\nand not\n%s", read(file), want)
	}
	rotate(t, w, rotation.Sign, rotation.Finish)
	if want := read("/etc/kubernetes/pki/ca.crt") + user; strings.Contains(want, before) || read(file) != want {
		t.Errorf("after finish the kubelet accepts\n%s\nand not\n%s", read(file), want)
	}
}

// A control plane node that joined with the keys of the other side signs with them until it follows.
// Only from then on all sign with the same CA, and a worker has to see to its certificate again.
func TestSwitchIsForgottenWhenNodeChangesSides(t *testing.T) {
	for name, test := range map[string]struct {
		steps []rotation.Stage // before the node with other keys follows
		again rotation.Stage
		isNew bool // its keys are the new ones
	}{
		"sign": {[]rotation.Stage{rotation.Trust, rotation.Sign}, rotation.Sign, false},
		"undo": {[]rotation.Stage{rotation.Trust, rotation.Sign, rotation.Undo},
			rotation.Undo, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRotatingMachine(t)
			rotate(t, w, test.steps...)
			before := readRotation(t, w)
			worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker1", Annotations: map[string]string{
				"kubeadm.kubernetes.io/ca-rotation": fmt.Sprintf(`{"id": %q, "stage": %q, "switched": %q}`,
					before.ID, before.Stage, before.Switched.UTC().Format(time.RFC3339))}}}
			worker.SetGroupVersionKind(state.NodeKind)
			if err := w.PutObject(worker); err != nil {
				t.Fatal(err)
			}
			if got := readStage(t, w, before, "worker1"); got != before.Stage {
				t.Fatalf("the worker is in the stage %q", got)
			}
			side := "/etc/kubernetes/pki/ca-rotation/old/"
			if test.isNew {
				side = "/etc/kubernetes/pki/ca-rotation/new/"
			}
			overwriteFile(w, "/etc/kubernetes/pki/sa.key", w.Files[side+"sa.key"].Data)
			rotate(t, w, rotation.Trust) // as in its documentation: it first gets all keys
			if now := readRotation(t, w); name == "sign" && now.Switched != nil {
				t.Errorf("all sign with the same CA since %s", now.Switched)
			}
			w.Clock = memory.NewTickingClock(w.Now().Add(2 * time.Hour))
			rotateCA(test.again, rotation.Options{}).newRun(w).mustSucceed(t)
			after := readRotation(t, w)
			if after.Stage != before.Stage || !after.Switched.After(before.Switched.Time) {
				t.Errorf("in the stage %q since %s, before in %q since %s", after.Stage, after.Switched,
					before.Stage, before.Switched)
			}
			if got := readStage(t, w, after, "worker1"); got != rotation.Trust {
				t.Errorf("the worker is in the stage %q", got)
			}
		})
	}
}

func readStage(t *testing.T, w *fake.World, r *rotation.State, name string) rotation.Stage {
	t.Helper()
	all, err := r.ReadProgress(t.Context(), w, state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if n.Name == name {
			return n.Stage
		}
	}
	return ""
}
