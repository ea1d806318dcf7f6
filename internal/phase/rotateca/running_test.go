package rotateca

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/world/fake"
)

// newPod returns a running Pod that was started at a time, with a token that is valid for a number of
// seconds; with 0 it has no token.
func newPod(name string, started time.Time, tokenSeconds int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name}}
	pod.SetGroupVersionKind(podKind)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &metav1.Time{Time: started}
	if tokenSeconds != 0 {
		pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					ExpirationSeconds: &tokenSeconds}}}}}}}
	}
	return pod
}

func TestHowLongPodUsesToken(t *testing.T) {
	const rereads = 10 * time.Minute // how long the Pod may take to read the file again
	for seconds, want := range map[int64]time.Duration{
		0:         0, // no token
		3607:      3607*time.Second*8/10 + rereads,
		86400:     86400*time.Second*8/10 + rereads,
		365 * 864: 24*time.Hour + rereads, // the kubelet replaces it after a day
		1 << 60:   24*time.Hour + rereads,
		-5:        time.Second*8/10 + rereads,
	} {
		if got := refreshTime(newPod("a", time.Time{}, seconds)); got != want {
			t.Errorf("a token of %d s: got %s, want %s", seconds, got, want)
		}
	}
	unset := newPod("a", time.Time{}, 1)
	unset.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.ExpirationSeconds = nil
	if got := refreshTime(unset); got != time.Hour*8/10+rereads {
		t.Errorf("a token without a time, which is valid for an hour: %s", got)
	}
}

// finish is refused while a Pod may use a token of the old key, and says how long that can be.
func TestTokensOfRemovedKey(t *testing.T) {
	now := fake.New().Now()
	before, after := now.Add(-3*time.Hour), now.Add(-time.Minute)
	for name, c := range map[string]struct {
		switched time.Time
		pod      *corev1.Pod
		edit     func(*corev1.Pod)
		wait     string // that the hint names; empty if the Pod does not matter
	}{
		"started before, token replaced since": {switched: now.Add(-2 * time.Hour), pod: newPod("a", before, 3600)},
		"started before, token still in use":   {switched: now.Add(-30 * time.Minute), pod: newPod("a", before, 3600), wait: "28m0s"},
		"a long token":                         {switched: now.Add(-2 * time.Hour), pod: newPod("a", before, 1<<40), wait: "22h10m0s"},
		"started after the switch":             {switched: now.Add(-30 * time.Minute), pod: newPod("a", after, 3600)},
		"start unknown": {switched: now.Add(-30 * time.Minute), pod: newPod("a", after, 3600), wait: "28m0s",
			edit: func(p *corev1.Pod) { p.Status.StartTime = nil }},
		"without a token": {switched: after, pod: newPod("a", before, 0)},
		"completed": {switched: after, pod: newPod("a", before, 3600),
			edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		"being deleted": {switched: after, pod: newPod("a", before, 3600),
			edit: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }},
	} {
		w := fake.New()
		w.RemoteAPIServer = true
		w.Clock = func() time.Time { return now }
		if c.edit != nil {
			c.edit(c.pod)
		}
		if err := w.PutObject(c.pod); err != nil {
			t.Fatal(err)
		}
		_, public := newServiceAccountKey(t)
		m := newTokenRotation(w, public)
		m.Switched = &metav1.Time{Time: c.switched}
		found, err := m.checkTokens(t.Context(), rotation.Finish)
		if err != nil || len(found) > 1 || (len(found) == 1) != (c.wait != "") {
			t.Errorf("%s: %v, %v", name, found, err)
			continue
		}
		if len(found) == 1 && (!strings.Contains(found[0].Error(), "apps/a") ||
			!strings.Contains(strings.Join(problem.Hints(found[0]), "\n"), "or wait "+c.wait+":")) {
			t.Errorf("%s: %v, %q; want a wait of %s", name, found[0], problem.Hints(found[0]), c.wait)
		}
	}
}

// newTokenRotation is a rotation of the service account keys from a public key to another.
func newTokenRotation(w *fake.World, old string) machine {
	return machine{node: &node.Node{}, e: engine.New(engine.Env{World: w}), State: &rotation.State{
		ID: "a", Stage: rotation.Sign, Authorities: []string{rotation.ServiceAccountAuthority},
		Old: map[string]string{rotation.ServiceAccountAuthority: old}}}
}

// A Secret with a token of the old key is named: such a token does not expire.
func TestTokenSecretsOfRemovedKey(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	oldID, public := newServiceAccountKey(t)
	newID, _ := newServiceAccountKey(t)
	header := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) + ".e30.c2ln" }
	for name, token := range map[string]string{
		"of-old-key": header(`{"alg":"ES256","kid":"` + oldID + `"}`),
		"of-new-key": header(`{"alg":"ES256","kid":"` + newID + `"}`),
		"without-id": header(`{"alg":"ES256"}`), "no-json": header(`{`), "no-token": "x", "empty": "",
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name},
			Type: corev1.SecretTypeServiceAccountToken,
			Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)}}
		s.SetGroupVersionKind(secretKind)
		if err := w.PutObject(s); err != nil {
			t.Fatal(err)
		}
	}
	got, err := newTokenRotation(w, public).listTokenSecrets(t.Context(), rotation.Finish)
	if err != nil || strings.Join(got, " ") != "apps/of-old-key" {
		t.Errorf("got %q, %v", got, err)
	}
}

// sign is refused while Pods run that had no chance to trust the new CA: those that were started
// before kube-root-ca.crt of their namespace had both. Pods of the addons are restarted anyway.
func TestPodsThatDoNotTrustNewCA(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	now := w.Now()
	addon := newPod("kube-proxy-1", now.Add(-time.Hour), 3600)
	addon.Namespace = metav1.NamespaceSystem
	addon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "kube-proxy"}}
	elsewhere := newPod("c", now, 3600)
	elsewhere.Namespace = "unknown" // when its ConfigMap was written is not known
	for _, pod := range []*corev1.Pod{newPod("a", now.Add(-time.Hour), 3600), newPod("b", now, 3600), addon,
		elsewhere, newPod("d", now.Add(-time.Hour), 0)} {
		if err := w.PutObject(pod); err != nil {
			t.Fatal(err)
		}
	}
	m := machine{e: engine.New(engine.Env{World: w})}
	found, err := m.checkPods(t.Context(), map[string]time.Time{"apps": now.Add(-time.Minute),
		metav1.NamespaceSystem: now.Add(-time.Minute)})
	if err != nil || found == nil || !strings.HasSuffix(found.Error(), ": apps/a, unknown/c") {
		t.Errorf("%v, %v", found, err)
	}
}

func TestLongListOfPodsIsCut(t *testing.T) {
	var names []string
	for i := range 25 {
		names = append(names, fmt.Sprintf("apps/%d", i))
	}
	if err := newPodsError(names[:20], "wait"); strings.Contains(err.Error(), "more") {
		t.Error(err)
	}
	if err := newPodsError(names, "wait"); !strings.HasPrefix(err.Error(), "25 Pods wait: apps/0, ") ||
		!strings.HasSuffix(err.Error(), "apps/19 and 5 more") {
		t.Error(err)
	}
	if err := newPodsError(nil, "wait"); err != nil {
		t.Error(err)
	}
}

// newServiceAccountKey returns the ID of a new key, as in the header of its tokens, and its public key
// in PEM form.
func newServiceAccountKey(t *testing.T) (id, public string) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodePublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if id, err = keyID(key.Public()); err != nil {
		t.Fatal(err)
	}
	return id, string(text)
}
