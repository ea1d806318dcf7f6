package kube_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/change"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

const collection = "/api/v1/namespaces/kube-system/configmaps"

func TestWritesRetryTransientErrors(t *testing.T) {
	for name, first := range map[string]answer{
		"overloaded":        newRejection(429, metav1.StatusReasonTooManyRequests),
		"starting":          newRejection(503, metav1.StatusReasonServiceUnavailable),
		"broken":            newRejection(500, metav1.StatusReasonInternalError),
		"proxy":             {502, "bad gateway"},
		"namespace missing": newRejection(404, metav1.StatusReasonNotFound),
		"conflict":          newRejection(409, metav1.StatusReasonConflict),
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, first, first, answer{201, object})
			data := s.kubeconfig(t)
			if err := newCluster(&data).Do(t.Context(), newApply()); err != nil {
				t.Fatal(err)
			}
			if want := slices.Repeat([]string{"POST " + collection}, 3); !slices.Equal(s.asked,
				want) {
				t.Errorf("asked %q", s.asked)
			}
			if s.agent != "kubeadm/v1.37.1" {
				t.Errorf("user agent is %q", s.agent)
			}
		})
	}
}

// TestRetryAfterIsObeyed: a server that asks for a pause gets one.
func TestRetryAfterIsObeyed(t *testing.T) {
	busy := newRejection(429, metav1.StatusReasonTooManyRequests)
	s := startServer(t, busy, busy, answer{201, object})
	s.retryAfter = 1
	data, start := s.kubeconfig(t), time.Now()
	if err := newCluster(&data).Do(t.Context(), newApply()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*time.Second || len(s.asked) != 3 {
		t.Errorf("%d requests in %s", len(s.asked), took)
	}
}

func TestWritesDoNotRetryRejections(t *testing.T) {
	for name, c := range map[string]struct {
		refusal answer
		hint    string
	}{
		"forbidden": {newRejection(403, metav1.StatusReasonForbidden),
			"--kubeconfig to an administrator's kubeconfig"},
		"unauthorized": {newRejection(401, metav1.StatusReasonUnauthorized), "may have expired"},
		"bad request":  {newRejection(400, metav1.StatusReasonBadRequest), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, c.refusal)
			data := s.kubeconfig(t)
			err := newCluster(&data).Do(t.Context(), newApply())
			if len(s.asked) != 1 {
				t.Errorf("asked %q", s.asked)
			}
			wantError(t, err, "applying ConfigMap kube-system/c at "+s.URL+": the server", c.hint)
		})
	}
}

func TestInvalidCreateReturnsError(t *testing.T) {
	s := startServer(t, newRejection(422, metav1.StatusReasonInvalid),
		newRejection(404, metav1.StatusReasonNotFound))
	data := s.kubeconfig(t)
	err := newCluster(&data).Do(t.Context(), newApply())
	if !apierrors.IsInvalid(err) || len(s.asked) != 2 {
		t.Errorf("%v after %q", err, s.asked)
	}
}

func TestConflictReadsAgain(t *testing.T) {
	exists, old := newRejection(409, metav1.StatusReasonAlreadyExists), object.DeepCopy()
	old.Data = map[string]string{"a": "0"}
	s := startServer(t, exists, answer{200, old}, newRejection(409, metav1.StatusReasonConflict),
		exists, answer{200, old}, answer{200, object})
	data := s.kubeconfig(t)
	if err := newCluster(&data).Do(t.Context(), newApply()); err != nil {
		t.Fatal(err)
	}
	once := []string{"POST " + collection, "GET " + collection + "/c", "PUT " + collection + "/c"}
	if want := append(once, once...); !slices.Equal(s.asked, want) {
		t.Errorf("asked %q", s.asked)
	}
}

func TestWritesEndAtTimeout(t *testing.T) {
	s := startServer(t, newRejection(503, metav1.StatusReasonServiceUnavailable))
	data := s.kubeconfig(t)
	k := newCluster(&data)
	// A busy machine may not get an answer within a short timeout.
	var err error
	for k.Timeout = time.Second; k.Timeout < bound; k.Timeout *= 4 {
		if err = k.Do(t.Context(), newApply()); strings.Contains(err.Error(), "the server says") {
			break
		}
	}
	wantError(t, err, "waited "+k.Timeout.String()+
		" for the API server: applying ConfigMap kube-system/c at "+s.URL, "")
}

func TestLabelWaitsForKubeletRegistration(t *testing.T) {
	bare := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	known := bare.DeepCopy()
	known.Labels = map[string]string{corev1.LabelHostname: "n"}
	s := startServer(t, newRejection(404, metav1.StatusReasonNotFound), answer{200, bare},
		answer{200, known}, answer{200, known})
	data := s.kubeconfig(t)
	err := newCluster(&data).Do(t.Context(),
		change.LabelAndTaintNode{Name: "n", Labels: map[string]string{"a": ""}, As: newApply().As})
	get := "GET /api/v1/nodes/n"
	if want := []string{get, get, get, "PATCH /api/v1/nodes/n"}; err != nil ||
		!slices.Equal(s.asked, want) {
		t.Errorf("%v after %q", err, s.asked)
	}
}

func TestReadsRetryBusyServerOnly(t *testing.T) {
	s := startServer(t, newRejection(503, metav1.StatusReasonServiceUnavailable),
		answer{200, object})
	data := s.kubeconfig(t)
	k := newCluster(&data)
	ref := state.RefOf(object, newApply().As)
	if o, err := k.Object(t.Context(), ref); err != nil || o.GetName() != "c" {
		t.Errorf("%v, %v", o, err)
	}
	s.Close()
	start := time.Now()
	_, err := k.Object(t.Context(), ref)
	wantError(t, err, "reading ConfigMap kube-system/c at "+s.URL+": connection refused",
		"check that an API server is running at "+s.URL+" and that this machine can reach it; on that machine, run: kubeadm doctor")
	if took := time.Since(start); took >= bound {
		t.Errorf("it took %s", took)
	}
}

func TestLivez(t *testing.T) {
	s := startServer(t, answer{200, "ok"},
		answer{500, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/x failed: reason withheld\n"})
	data := s.kubeconfig(t)
	k := newCluster(&data)
	if err := k.Livez(t.Context(), newApply().As); err != nil {
		t.Error(err)
	}
	err := k.Livez(t.Context(), newApply().As)
	wantError(t, err, "500 Internal Server Error; these checks fail: etcd, poststarthook/x",
		"")
	if len(s.asked) != 2 || s.asked[0] != "GET /livez" {
		t.Errorf("asked %q", s.asked)
	}
	s.Close()
	wantError(t, k.Livez(t.Context(), newApply().As), "at "+s.URL+": connection refused",
		"check that an API server is running at "+s.URL+" and that this machine can reach it; on that machine, run: kubeadm doctor")
}

// The end of a log is asked for, and no more of it is kept, whatever the server sends.
func TestPodLog(t *testing.T) {
	s := startServer(t, answer{200, strings.Repeat("line\n", state.PodLogLimit)})
	data := s.kubeconfig(t)
	log, err := newCluster(&data).PodLog(t.Context(), state.PodLog{Namespace: "kube-system", Pod: "p", Container: "c",
		Previous: true, Lines: 5, As: newApply().As})
	if err != nil || len(log) != state.PodLogLimit || !strings.HasPrefix(strings.Trim(log, "\""), "line") {
		t.Errorf("read %d bytes, %v", len(log), err)
	}
	if len(s.asked) != 1 || !strings.HasPrefix(s.asked[0], "GET /api/v1/namespaces/kube-system/pods/p/log") {
		t.Errorf("asked %q", s.asked)
	}
}

func TestLivezOfRefusedUser(t *testing.T) {
	s := startServer(t, answer{401, "Unauthorized"}, answer{403, "Forbidden"})
	data := s.kubeconfig(t)
	k := newCluster(&data)
	if err := k.Livez(t.Context(), newApply().As); !apierrors.IsUnauthorized(err) {
		t.Error(err)
	}
	if err := k.Livez(t.Context(), newApply().As); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if len(s.asked) != 2 {
		t.Errorf("asked %q", s.asked)
	}
	data = []byte("damaged")
	if _, ok := errors.AsType[state.KubeconfigError](k.Livez(t.Context(), newApply().As)); !ok {
		t.Error("the kubeconfig is not named as the cause")
	}
}

func TestIdentities(t *testing.T) {
	s, other := startServer(t, answer{200, object}), startServer(t, answer{200, object})
	data := s.kubeconfig(t)
	k := newCluster(&data)
	for _, as := range []state.Identity{
		{Kubeconfig: admin},
		{Config: s.kubeconfig(t)},
		{Config: s.kubeconfig(t,
			func(a *pki.KubeconfigSpec) { a.Server = "https://192.0.2.1:6443" }), Server: s.URL},
	} {
		if _, err := k.Object(t.Context(), state.RefOf(object, as)); err != nil {
			t.Errorf("%+v: %v", as.Kubeconfig, err)
		}
	}
	data = other.kubeconfig(t)
	if _, err := k.Object(t.Context(), state.RefOf(object, newApply().As)); err != nil ||
		len(other.asked) != 1 || len(s.asked) != 3 {
		t.Errorf("a changed kubeconfig should be read again: %v, %q, %q", err, s.asked, other.asked)
	}
}

func TestUnusableKubeconfigs(t *testing.T) {
	s := startServer(t, answer{200, object})
	foreign := pki.EncodeCertificates(foreignCA(t))
	skipping := strings.Replace(string(s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.CA = nil })),
		"server:", "insecure-skip-tls-verify: true\n    server:", 1)
	for name, c := range map[string]struct {
		data       []byte
		text, hint string
	}{
		"no file":    {nil, admin + ": file does not exist", "--kubeconfig"},
		"empty file": {[]byte("\n"), "the kubeconfig " + admin + " is empty", "--kubeconfig"},
		"not YAML":   {[]byte("{"), "using " + admin, "--kubeconfig"},
		"no context": {[]byte("apiVersion: v1\nkind: Config\n"),
			"using " + admin + ": the kubeconfig is empty: it has no clusters", "--kubeconfig"},
		"no TLS": {s.kubeconfig(t,
			func(a *pki.KubeconfigSpec) { a.Server = "http://127.0.0.1:1"; a.CA = nil }),
			"is not an https URL", "--kubeconfig"},
		"not verifying": {[]byte(skipping), "insecure-skip-tls-verify", "--kubeconfig"},
		"no current context": {editedKubeconfig(t, s,
			func(k *pki.Kubeconfig) { k.CurrentContext = "" }),
			`kubeconfig has no current context: set current-context to one of its contexts, "u@c"`,
			"--kubeconfig"},
		"undefined context": {editedKubeconfig(t, s,
			func(k *pki.Kubeconfig) { k.CurrentContext = "gone" }), `current-context "gone" of the kubeconfig does not exist`,
			"--kubeconfig"},
		"undefined user": {editedKubeconfig(t, s,
			func(k *pki.Kubeconfig) { delete(k.AuthInfos, "u") }),
			`refers to user "u", which does not exist`, "--kubeconfig"},
		"no server": {editedKubeconfig(t, s,
			func(k *pki.Kubeconfig) { k.Clusters["c"].Server = "" }),
			`cluster "c" of the kubeconfig has no server`, "--kubeconfig"},
		"CA in a file that does not exist": {editedKubeconfig(t, s, func(k *pki.Kubeconfig) {
			k.Clusters["c"].CertificateAuthorityData, k.Clusters["c"].CertificateAuthority = nil,
				"sub/ca.crt"
		}), "its certificate-authority is the file /etc/kubernetes/sub/ca.crt, which does not exist", "--kubeconfig"},
		"certificate without its key": {editedKubeconfig(t, s, func(k *pki.Kubeconfig) {
			k.AuthInfos["u"] = &api.AuthInfo{ClientCertificateData: foreign}
		}), "client certificate without its key", "--kubeconfig"},
		"certificate that has expired": {editedKubeconfig(t, s,
			func(k *pki.Kubeconfig) { k.AuthInfos["u"] = expiredUser(t) }),
			"has expired: it is valid from", "certs renew"},
		"foreign CA": {s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.CA = foreign }),
			"certificate signed by unknown authority", "another cluster"},
		"foreign name": {s.kubeconfig(t,
			func(a *pki.KubeconfigSpec) {
				a.Server = strings.Replace(a.Server, "127.0.0.1",
					"localhost", 1)
			}),
			"not localhost", "apiServer.certSANs"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			wantError(t, newCluster(&c.data).Do(t.Context(), newApply()), c.text, c.hint)
			if took := time.Since(start); took >= bound {
				t.Errorf("it took %s", took)
			}
		})
	}
	if len(s.asked) != 0 {
		t.Errorf("asked %q", s.asked)
	}
}

func TestErrorsDoNotSuggestEnvironmentVariables(t *testing.T) {
	for _, text := range []string{"", "{}", "apiVersion: v1\nkind: Config\n",
		"apiVersion: v1\nkind: Config\ncurrent-context: x\n"} {
		data := []byte(text)
		if err := newCluster(&data).Do(t.Context(), newApply()); err == nil ||
			strings.Contains(err.Error(), "KUBERNETES_MASTER") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestInsecureServerNeedsPermission(t *testing.T) {
	s := startServer(t, answer{200, object})
	data := editedKubeconfig(t, s, func(k *pki.Kubeconfig) {
		k.Clusters["c"].CertificateAuthorityData, k.Clusters["c"].InsecureSkipTLSVerify = nil, true
	})
	k, as := newCluster(&data), state.Identity{Kubeconfig: admin}
	if _, err := k.Object(t.Context(), state.RefOf(object, as)); err == nil || len(s.asked) != 0 {
		t.Errorf("got %v after %q: the server was not verified without permission", err, s.asked)
	}
	as.AllowInsecure = true
	if _, err := k.Object(t.Context(), state.RefOf(object, as)); err != nil {
		t.Error(err)
	}
}

func TestExpiredCertificateWithToken(t *testing.T) {
	s := startServer(t, answer{200, object})
	data := editedKubeconfig(t, s, func(k *pki.Kubeconfig) {
		k.AuthInfos["u"] = expiredUser(t)
		k.AuthInfos["u"].Token = "a token that the server may know"
	})
	if _, err := newCluster(&data).Object(t.Context(),
		state.RefOf(object, state.Identity{Kubeconfig: admin})); err != nil {
		t.Error(err)
	}
}

// editedKubeconfig returns a changed kubeconfig of the server.
func editedKubeconfig(t *testing.T, s *scripted, edit func(*pki.Kubeconfig)) []byte {
	t.Helper()
	config, err := pki.ParseKubeconfig(s.kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	edit(config)
	data, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// expiredUser returns a user whose client certificate has expired.
func expiredUser(t *testing.T) *api.AuthInfo {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca, err := pki.NewCA(rand.Reader, key,
		pki.Spec{CommonName: "u",
			Validity: pki.Validity{NotBefore: now.Add(-48 * time.Hour),
				NotAfter: now.Add(-24 * time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &api.AuthInfo{ClientCertificateData: pki.EncodeCertificates(ca.Certificate),
		ClientKeyData: text}
}

func TestUnknownKindsAndChanges(t *testing.T) {
	s := startServer(t, answer{200, object})
	data := s.kubeconfig(t)
	k := newCluster(&data)
	_, err := k.List(t.Context(),
		state.Query{GVK: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"},
			As: newApply().As})
	wantError(t, err, `kind "K" of group "g"`, "")
	_, err = k.Object(t.Context(),
		state.Ref{GVK: state.NodeKind, Namespace: "n", Name: "x", As: newApply().As})
	wantError(t, err, "a Node is not namespaced", "")
	wantError(t, k.Do(t.Context(), change.PullImage{}), "change.PullImage", "")
	if len(s.asked) != 0 {
		t.Errorf("asked %q", s.asked)
	}
}

func wantError(t *testing.T, err error, text, hint string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v\ndoes not contain %q", err, text)
	}
	if hints := strings.Join(problem.Hints(err), "\n"); !strings.Contains(hints, hint) ||
		hint == "" && hints != "" {
		t.Errorf("hints of %v\nare %q, not %q", err, hints, hint)
	}
}
