package laws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

const rotationAnnotation = "kubeadm.kubernetes.io/ca-rotation"

// readRotation returns the rotation that the cluster stores.
func readRotation(t *testing.T, w *fake.World) *rotation.State {
	t.Helper()
	r, err := rotation.Read(t.Context(), w, state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forgetSwitch leaves the state of a run that was killed before it stored when the last control
// plane node has switched.
func forgetSwitch(t *testing.T, w *fake.World) {
	t.Helper()
	r := readRotation(t, w)
	r.Switched = nil
	text, err := json.Marshal(r) // which is YAML
	if err == nil {
		err = w.PutObject(manifest.NewCARotation(string(text)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func mustFail(t *testing.T, r run, wanted ...string) outcome {
	t.Helper()
	out := r.execute(t)
	for _, text := range wanted {
		if out.err == nil || !strings.Contains(out.err.Error(), text) {
			t.Fatalf("%s: %v, wanted %q", r.name, out.err, text)
		}
	}
	return out
}

// The last stage begins only after it is known when the other CA has stopped to sign.
func TestRotationStoresSwitchFirst(t *testing.T) {
	w := newRotatingMachine(t)
	rotate(t, w, rotation.Trust, rotation.Sign)
	undone := w.Clone()
	forgetSwitch(t, w)
	finish := rotateCA(rotation.Finish, rotation.Options{})
	mustFail(t, finish.newRun(w), `the rotation is in stage "sign"`)
	rotate(t, w, rotation.Sign, rotation.Finish)
	checkRotated(t, w)

	rotate(t, undone, rotation.Undo)
	forgetSwitch(t, undone)
	rotate(t, undone, rotation.Undo)
	if r := readRotation(t, undone); r == nil || r.Stage != rotation.UndoSign ||
		r.Switched == nil {
		t.Fatalf("the rotation is %+v", r)
	}
	rotate(t, undone, rotation.Undo)
	if r := readRotation(t, undone); r != nil {
		t.Errorf("the rotation is %+v", r)
	}
}

// reportWorker does what the command on a worker does at last.
func reportWorker(t *testing.T, w *fake.World, s rotation.Stage) {
	t.Helper()
	n := &corev1.Node{}
	n.APIVersion, n.Kind, n.Name = "v1", "Node", "worker1"
	r := readRotation(t, w)
	text, err := json.Marshal(map[string]any{"id": r.ID, "stage": s, "switched": r.Switched})
	if err != nil {
		t.Fatal(err)
	}
	n.Annotations = map[string]string{rotationAnnotation: string(text)}
	if err := w.PutObject(n); err != nil {
		t.Fatal(err)
	}
}

// However little of the state of a completed rotation is removed, the command removes the rest.
func TestRotationCompletesWithSeveralNodes(t *testing.T) {
	before := newRotatingMachine(t)
	rotate(t, before, rotation.Trust)
	reportWorker(t, before, rotation.Trust)
	rotate(t, before, rotation.Sign)
	reportWorker(t, before, rotation.Sign)
	rotate(t, before, rotation.Finish)
	if readRotation(t, before) == nil {
		t.Fatal("the rotation is complete without the worker")
	}
	reportWorker(t, before, rotation.Finish)
	command := rotateCA(rotation.Finish, rotation.Options{})
	_, killed := command.newRun(before.Clone()).killedEverywhere(t)
	for _, r := range killed {
		t.Run(r.name, func(t *testing.T) {
			if out := r.rerun().execute(t); out.err != nil &&
				!strings.Contains(out.err.Error(), "no rotation is in progress") {
				t.Fatal(out.err)
			}
			for k, u := range r.machine.Objects {
				if strings.Contains(k.Name, "ca-rotation") ||
					u.GetAnnotations()[rotationAnnotation] != "" && k.Kind.Kind == "Node" {
					t.Errorf("%v is left: %v", k, u.GetAnnotations())
				}
			}
		})
	}
}

// lockWaiter changes the cluster when a run takes the lock, as another node that held it before.
type lockWaiter struct {
	world.World
	onLock func()
}

func (w *lockWaiter) Do(ctx context.Context, c change.Change) error {
	if _, ok := c.(change.MutateObject); ok && c.Target() == clusterLock {
		w.onLock()
	}
	return w.World.Do(ctx, c)
}

// What another node has done while this one waited for the lock counts.
func TestRotationOfAnotherNode(t *testing.T) {
	key := memory.Key{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(),
		Namespace: "kube-system", Name: "kubeadm-ca-rotation"}
	for _, s := range []rotation.Stage{rotation.Sign, rotation.Finish, rotation.Undo} {
		w := newRotatingMachine(t)
		rotate(t, w, rotation.Trust)
		if s == rotation.Finish {
			rotate(t, w, rotation.Sign)
			w.Clock = memory.NewTickingClock(w.Now().Add(2 * time.Hour))
		}
		r := rotateCA(s, rotation.Options{}).newRun(w)
		r.observe = func(below world.World) world.World {
			return &lockWaiter{below, func() { delete(w.Objects, key) }}
		}
		mustFail(t, r, "no rotation is in progress")
		if readRotation(t, w) != nil {
			t.Errorf("%s has started a rotation", s)
		}
	}
	other := newRotatingMachine(t)
	w := other.Clone()
	rotateCA(rotation.Trust, rotation.Options{Authorities: []string{"front-proxy"}}).
		newRun(other).mustSucceed(t)
	r := rotateCA(rotation.Trust, rotation.Options{Authorities: []string{"etcd"}}).newRun(w)
	r.observe = func(below world.World) world.World {
		return &lockWaiter{below, func() { w.Objects[key] = other.Objects[key] }}
	}
	mustFail(t, r, "--ca cannot add to it")
}

// putPod adds a Pod that runs since then, with a token that is valid that long, or the default.
func putPod(t *testing.T, w *fake.World, since time.Time, expiration *int64) {
	t.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "token",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.
				ServiceAccountTokenProjection{ExpirationSeconds: expiration}}}}}}}}}
	pod.APIVersion, pod.Kind, pod.Namespace, pod.Name = "v1", "Pod", "default", "app"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &metav1.Time{Time: since}
	if err := w.PutObject(pod); err != nil {
		t.Fatal(err)
	}
}

// podsRefused is a world whose API server does not list Pods.
type podsRefused struct{ world.World }

var errPodsRefused = errors.New("etcdserver: leader changed")

func (w podsRefused) List(ctx context.Context,
	q state.Query) ([]unstructured.Unstructured, error) {
	if q.GVK.Kind == "Pod" {
		return nil, world.Permanent(errPodsRefused)
	}
	return w.World.List(ctx, q)
}

// A stage that would cut off Pods lists them, also in a dry run. Only that can be ignored.
func TestRotationListsPods(t *testing.T) {
	w := newRotatingMachine(t)
	rotate(t, w, rotation.Trust)
	putPod(t, w, w.Now().Add(-time.Hour), nil)
	const listed = "1 Pods were started before they could trust the new CA: default/app"
	sign := rotateCA(rotation.Sign, rotation.Options{}).newRun(w)
	mustFail(t, sign.asDryRun(t), listed)
	mustFail(t, sign, listed)
	later := w.Clone()
	putPod(t, later, later.Now().Add(time.Minute), nil)
	rotateCA(rotation.Sign, rotation.Options{}).newRun(later).asDryRun(t).mustSucceed(t)
	root := later.Objects[memory.Key{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap").
		GroupKind(), Namespace: "default", Name: "kube-root-ca.crt"}]
	root.SetManagedFields(nil) // when it was written is not known
	mustFail(t, rotateCA(rotation.Sign, rotation.Options{}).newRun(later), listed)
	ignoring := rotateCA(rotation.Sign, rotation.Options{IgnoreRunningPods: true}).newRun(w)
	ignoring.observe = func(below world.World) world.World { return podsRefused{below} }
	mustFail(t, ignoring, errPodsRefused.Error())
	ignoring.observe = nil
	ignoring.mustSucceed(t)
	publishRootCA(t, w)
}

// oldTokenSecret is a Secret with a token that a key has signed.
func oldTokenSecret(t *testing.T, publicKey []byte) *corev1.Secret {
	t.Helper()
	key, err := pki.ParsePublicKey(publicKey)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(der)
	header := fmt.Sprintf(`{"kid":%q}`, base64.RawURLEncoding.EncodeToString(digest[:]))
	s := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{
		"token": []byte(base64.RawURLEncoding.EncodeToString([]byte(header)) + ".e30.")}}
	s.APIVersion, s.Kind, s.Namespace, s.Name = "v1", "Secret", "default", "forever"
	return s
}

// Tokens of the old key are listed for as long as they can be in use.
func TestRotationListsTokens(t *testing.T) {
	w := newRotatingMachine(t)
	oldKey := w.Files["/etc/kubernetes/pki/sa.pub"].Data
	rotate(t, w, rotation.Trust, rotation.Sign)
	switched := readRotation(t, w).Switched.Time
	two, week := int64(2*60*60), int64(7*24*60*60)
	for _, test := range []struct {
		expiration *int64
		after      time.Duration
		listed     bool
	}{
		{nil, 50 * time.Minute, true},
		{nil, time.Hour, false},
		{&two, time.Hour, true},
		{&two, 110 * time.Minute, false},
		{&week, 24 * time.Hour, true},
		{&week, 25 * time.Hour, false},
	} {
		m := w.Clone()
		putPod(t, m, switched.Add(-time.Hour), test.expiration)
		m.Clock = memory.NewTickingClock(switched.Add(test.after))
		finish := rotateCA(rotation.Finish, rotation.Options{}).newRun(m)
		if !test.listed {
			finish.mustSucceed(t)
			continue
		}
		if err := m.PutObject(oldTokenSecret(t, oldKey)); err != nil {
			t.Fatal(err)
		}
		mustFail(t, finish, "1 Pods may be using a token", "default/app", "default/forever")
		rotateCA(rotation.Finish, rotation.Options{IgnoreRunningPods: true}).newRun(m).
			mustSucceed(t)
	}
}

// A node whose components read other files is refused before anything is changed there.
func TestRotationRefusesOtherFiles(t *testing.T) {
	const pki = "/etc/kubernetes/pki/"
	for argument, component := range map[string]string{
		"--trusted-ca-file=" + pki + "etcd/ca.crt":                     "etcd",
		"--peer-trusted-ca-file=" + pki + "etcd/ca.crt":                "etcd",
		"--service-account-private-key-file=" + pki + "sa.key":         "kube-controller-manager",
		"--service-account-signing-key-file=" + pki + "sa.key":         "kube-apiserver",
		"--requestheader-client-ca-file=" + pki + "front-proxy-ca.crt": "kube-apiserver",
	} {
		w := newRotatingMachine(t)
		rotate(t, w, rotation.Trust)
		file := "/etc/kubernetes/manifests/" + component + ".yaml"
		name, _, _ := strings.Cut(argument, "=")
		text := string(w.Files[file].Data)
		if !strings.Contains(text, "- "+argument) {
			t.Fatalf("%s has no %s:\n%s", file, argument, text)
		}
		overwriteFile(w, file, []byte(strings.Replace(text, "- "+argument, "- "+name+"=/srv/own", 1)))
		out := mustFail(t, rotateCA(rotation.Sign, rotation.Options{}).newRun(w), name+" of ")
		if len(out.did) > 0 {
			t.Errorf("%s: the run has changed %v", name, describeChanges(out.did))
		}
	}
}

// embedKubeletPair embeds the client certificate of the kubelet in kubelet.conf.
func embedKubeletPair(t *testing.T, w *fake.World) {
	t.Helper()
	file := node.DefaultPaths().KubeletKubeconfig()
	config, err := pki.ParseKubeconfig(w.Files[file].Data)
	if err != nil {
		t.Fatal(err)
	}
	user, err := config.CurrentUser()
	if err != nil {
		t.Fatal(err)
	}
	user.ClientCertificate, user.ClientKey = "", ""
	user.ClientCertificateData = readKubeletPair(t, w)
	user.ClientKeyData = user.ClientCertificateData
	data, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	overwriteFile(w, file, data)
}

// Keys of a rotation that was given up before the cluster knew of it are never those of another one.
func TestKeysOfAbortedRotationAreNotUsed(t *testing.T) {
	w := newRotatingMachine(t)
	out := rotateCA(rotation.Trust, rotation.Options{}).newRun(w.Clone()).mustSucceed(t)
	stored := slices.IndexFunc(out.did, func(c change.Change) bool {
		return strings.HasSuffix(c.Target(), "/"+manifest.CARotation)
	})
	r := rotateCA(rotation.Trust, rotation.Options{}).newRun(w)
	r.fault = &fault.World{At: stored, Crash: true}
	if first := r.execute(t); !first.crashed || readRotation(t, w) != nil {
		t.Fatalf("the rotation has begun: %v", first.err)
	}
	left := map[string]string{}
	for _, a := range rotation.Authorities() {
		left[a.Name] = string(w.Files["/etc/kubernetes/pki/ca-rotation/new/"+a.PublicKey].Data)
	}
	rotate(t, w, rotation.Trust)
	for name, text := range readRotation(t, w).New {
		if text == "" || left[name] == "" || text == left[name] {
			t.Errorf("%s: after\n%q the new one is\n%q", name, left[name], text)
		}
	}
}

// A kubeconfig of the kubelet that is renewed in the middle of a rotation, or by its next stage,
// trusts both CAs.
func TestRotationKeepsBothCAsOfKubelet(t *testing.T) {
	before := newRotatingMachine(t)
	rotate(t, before, rotation.Trust)
	embedKubeletPair(t, before)
	replaced, signed := before.Clone(), before.Clone()
	r := rotateCA(rotation.Trust, rotation.Options{}).newRun(replaced)
	r.phases = []engine.Phase{{Name: "replace", Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		return localkubelet.ReplaceClientCert(ctx, e, n)
	}}}
	r.mustSucceed(t)
	rotate(t, signed, rotation.Sign)
	for name, w := range map[string]*fake.World{"replaced": replaced, "signed": signed} {
		want, err := pki.ParseCertificates(w.Files["/etc/kubernetes/pki/ca.crt"].Data)
		if err != nil || len(want) != 2 {
			t.Fatalf("ca.crt has %d certificates: %v", len(want), err)
		}
		c, err := localkubelet.ReadManagedClientCert(t.Context(), w, node.DefaultPaths())
		if err == nil {
			err = c.Check(want[0], w.Now()) // the first one signs
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		old := before.Files[node.DefaultPaths().KubeletKubeconfig()].Data
		if bytes.Equal(w.Files[c.Path].Data, old) {
			t.Errorf("%s: %s is the same", name, c.Path)
		}
		got, err := c.Config.EmbeddedCAs()
		if err != nil || !slices.EqualFunc(got, want, (*x509.Certificate).Equal) {
			t.Errorf("%s: kubelet.conf has %d CAs and ca.crt %d: %v", name, len(got), len(want), err)
		}
	}
}

// The new client certificate is in a file of its own, as the kubelet's own are.
func TestRotationLinksKubeletPair(t *testing.T) {
	w := newRotatingMachine(t)
	rotate(t, w, rotation.Trust)
	if link := w.Files[rotatedCertificate]; link.Mode.Type() == fs.ModeSymlink {
		t.Errorf("%s is replaced before the stage %q", rotatedCertificate, rotation.Sign)
	}
	rotate(t, w, rotation.Sign)
	link := w.Files[rotatedCertificate]
	if link.Mode.Type() != fs.ModeSymlink || !kubeletTimePattern.Match(link.Data) {
		t.Errorf("%s is %v, %q", rotatedCertificate, link.Mode, link.Data)
	}
	if file := w.Files[string(link.Data)]; file.Mode != 0o600 {
		t.Errorf("%s has mode %v", link.Data, file.Mode)
	}
	rotate(t, w, rotation.Sign)
	if again := w.Files[rotatedCertificate]; string(again.Data) != string(link.Data) {
		t.Errorf("a second run has replaced %s by %s", link.Data, again.Data)
	}
}

// stoppedKubelet is a machine whose kubelet does not run.
type stoppedKubelet struct{ world.World }

func (w stoppedKubelet) Service(context.Context, string) (state.Service, error) {
	return state.Service{Exists: true, Enabled: true}, nil
}

// A kubelet that was stopped is started.
func TestRotationStartsStoppedKubelet(t *testing.T) {
	r := rotateCA(rotation.Trust, rotation.Options{}).newRun(newRotatingMachine(t))
	r.observe = func(below world.World) world.World { return stoppedKubelet{below} }
	if !slices.ContainsFunc(r.mustSucceed(t).did, func(c change.Change) bool {
		s, ok := c.(change.SetService)
		return ok && s.Name == "kubelet" && s.Active
	}) {
		t.Error("the kubelet is not started")
	}
}

// A serving certificate of the CA that is being removed is reported, whichever that is.
func TestRotationReportsServingCertificate(t *testing.T) {
	const file = "/var/lib/kubelet/pki/kubelet-server-current.pem"
	w := newRotatingMachine(t)
	serving := readKubeletPair(t, w) // that of a client has the same issuer
	rotate(t, w, rotation.Trust)
	undone := w.Clone()
	rotate(t, undone, rotation.Sign)
	servingOfNew := readKubeletPair(t, undone)
	for _, test := range []struct {
		machine  *fake.World
		stage    rotation.Stage
		serving  []byte
		reported bool
	}{
		{w.Clone(), rotation.Sign, serving, true},
		{w.Clone(), rotation.Undo, serving, false},
		{undone.Clone(), rotation.Undo, serving, false},
		{undone.Clone(), rotation.Undo, servingOfNew, true},
	} {
		test.machine.Files[file] = memory.File{Data: test.serving, Mode: 0o600}
		out := rotateCA(test.stage, rotation.Options{}).newRun(test.machine).mustSucceed(t)
		if got := slices.ContainsFunc(out.events, func(e engine.Event) bool {
			return strings.HasPrefix(e.Text, file+" is signed by the CA that is being removed")
		}); got != test.reported {
			t.Errorf("%s: reported: %v", test.stage, got)
		}
	}
}
