package kubeletserving_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/kubeletserving"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/kube"
)

// server is an API server that has certificate signing requests only.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	changed *sync.Cond
	events  []*certv1.CertificateSigningRequest // of version i+1
	asked   map[string]int                      // "list", "watch" and "approve"
	refusal int                                 // status with which watches are refused
	ignored bool                                // watches get no events
	oldest  int                                 // version from which a watch is possible
	cuts    int                                 // how often connections were cut
}

const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func startServer(t *testing.T) *server {
	s := &server{asked: map[string]int{}}
	s.changed = sync.NewCond(&s.mu)
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) put(csr *certv1.CertificateSigningRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	csr = csr.DeepCopy()
	s.events = append(s.events, csr)
	csr.ResourceVersion = strconv.Itoa(len(s.events))
	s.changed.Broadcast()
}

// cut closes all connections.
func (s *server) cut() {
	s.mu.Lock()
	s.cuts++
	s.changed.Broadcast()
	s.mu.Unlock()
	s.CloseClientConnections()
}

func (s *server) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func (s *server) latest() map[string]*certv1.CertificateSigningRequest {
	all := map[string]*certv1.CertificateSigningRequest{}
	for _, csr := range s.events {
		all[csr.Name] = csr
	}
	return all
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name := strings.Split(strings.TrimPrefix(r.URL.Path, requestsPath+"/"), "/")[0]
	switch {
	case r.URL.Path == requestsPath && r.FormValue("watch") == "true":
		s.serveWatch(w, r)
	case r.URL.Path == requestsPath:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked["list"]++
		list := certv1.CertificateSigningRequestList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(s.events))}}
		for _, csr := range s.latest() {
			list.Items = append(list.Items, *csr)
		}
		_ = json.NewEncoder(w).Encode(list)
	case r.Method == http.MethodPut:
		var csr certv1.CertificateSigningRequest
		_ = json.NewDecoder(r.Body).Decode(&csr)
		s.put(&csr)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked["approve"]++
		_ = json.NewEncoder(w).Encode(csr)
	case strings.HasPrefix(r.URL.Path, requestsPath):
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.latest()[name])
	}
}

func (s *server) serveWatch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked["watch"]++
	since, _ := strconv.Atoi(r.FormValue("resourceVersion"))
	code := s.refusal
	if since < s.oldest {
		code = http.StatusGone
	}
	if code != 0 {
		reasons := map[int]metav1.StatusReason{410: metav1.StatusReasonExpired, 403: metav1.StatusReasonForbidden}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Reason: reasons[code], Code: int32(code), Message: "refused by the test"})
		return
	}
	w.(http.Flusher).Flush()
	stop := context.AfterFunc(r.Context(), s.changed.Broadcast)
	defer stop()
	for cuts := s.cuts; r.Context().Err() == nil && s.cuts == cuts; s.changed.Wait() {
		for ; since < len(s.events) && !s.ignored; since++ {
			for range 2 { // a client has to bear with an event that comes again
				_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": s.events[since]})
			}
		}
		w.(http.Flusher).Flush()
	}
}

// watchScene has its certificate signing requests in a server.
type watchScene struct {
	*scene
	server *server
	k      *kube.Cluster
	as     state.Identity
	mu     sync.Mutex
	said   []string
}

func (s *watchScene) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	if q.GVK.Kind != "CertificateSigningRequest" {
		return s.World.List(ctx, q)
	}
	q.As = s.as
	return s.k.List(ctx, q)
}

func (s *watchScene) Watch(ctx context.Context, w state.Watch) (string, error) {
	w.As = s.as
	return s.k.Watch(ctx, w)
}

func (s *watchScene) Do(ctx context.Context, c change.Change) error {
	m := c.(change.MutateObject)
	m.As = s.as
	return s.k.Do(ctx, m)
}

func (s *watchScene) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if ref.GVK.Kind != "CertificateSigningRequest" {
		return s.World.Object(ctx, ref)
	}
	ref.As = s.as
	return s.k.Object(ctx, ref)
}

func (s *watchScene) Await(ctx context.Context, c world.Condition) error {
	return world.Poll(ctx, s, c)
}
func (s *watchScene) Now() time.Time { return time.Now() }

// startWatch starts the command, which the test ends as Ctrl-C does, and waits for its first look.
func startWatch(t *testing.T, prepare func(*watchScene)) *watchScene {
	t.Helper()
	s := &watchScene{scene: newScene(t), server: startServer(t)}
	s.k = kube.New(nil) // reads no files
	config, err := pki.KubeconfigSpec{Server: s.server.URL, Cluster: "c", User: "u",
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})}.WithToken("secret").Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.as = state.Identity{Config: config}
	if prepare != nil {
		prepare(s)
	}
	e := engine.New(engine.Env{World: s, Admin: s.e.Admin, Emit: func(e engine.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, string(e.Kind)+": "+e.Text)
	}})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- engine.Run(ctx, e, []engine.Phase{kubeletserving.Watch(node.AllowedNames{})}, engine.Selection{})
	}()
	t.Cleanup(func() {
		end()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the watch ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the command does not end")
		}
	})
	s.wait(t, "the first watch", func() bool { return s.server.count("watch") > 0 })
	return s
}

func (s *watchScene) wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited for %s; it was asked for %v, and it says\n%s", what, s.server.asked, s.output())
		}
	}
}

func (s *watchScene) waitForApproval(t *testing.T, name string) {
	t.Helper()
	s.wait(t, "the approval of "+name, func() bool {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		return len(s.server.latest()[name].Status.Conditions) > 0
	})
}

func (s *watchScene) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

func (s *watchScene) checkSaid(t *testing.T, text string, times int) {
	t.Helper()
	if got := strings.Count(s.output(), text); got != times {
		t.Errorf("it says %d times instead of %d %q:\n%s", got, times, text, s.output())
	}
}

// A request is approved as its event arrives, once, and without a list.
func TestWatchApprovesAtOnce(t *testing.T) {
	t.Parallel()
	s := startWatch(t, nil)
	time.Sleep(time.Second) // no requests of others have to be decided together with it
	for _, name := range []string{"csr-1", "csr-2"} {
		s.server.put(request(t, name, nil))
		s.waitForApproval(t, name)
	}
	forged := request(t, "forged", nil)
	forged.Spec.Username = "jane"
	s.server.put(forged)
	s.wait(t, "the refusal", func() bool { return strings.Contains(s.output(), "forged of user") })
	s.server.put(forged) // some change of it
	s.server.put(request(t, "csr-3", nil))
	s.waitForApproval(t, "csr-3")
	if lists, approvals := s.server.count("list"), s.server.count("approve"); lists != 1 || approvals != 3 {
		t.Errorf("%d lists and %d approvals", lists, approvals)
	}
	s.checkSaid(t, "approving csr-1 of", 1)
	s.checkSaid(t, "approving csr-3 of", 1)
	s.checkSaid(t, "is not approved", 1)
}

// Requests are listed again where the API server no longer has the changes since the last version.
func TestWatchListsAgainWhenVersionIsGone(t *testing.T) {
	t.Parallel()
	s := startWatch(t, nil)
	s.server.mu.Lock()
	s.server.ignored, s.server.oldest = true, 1
	s.server.mu.Unlock()
	s.server.put(request(t, "csr-1", nil))
	s.server.cut()
	s.waitForApproval(t, "csr-1")
	if lists := s.server.count("list"); lists != 2 {
		t.Errorf("%d lists", lists)
	}
	s.checkSaid(t, "refused by the test", 0)
}

// Without a list, a watch goes on after a connection was cut, with what happened in between.
func TestWatchGoesOnAfterCut(t *testing.T) {
	t.Parallel()
	s := startWatch(t, nil)
	s.server.mu.Lock()
	s.server.refusal = http.StatusServiceUnavailable
	s.server.mu.Unlock()
	s.server.cut()
	s.server.put(request(t, "csr-1", nil))
	s.wait(t, "watches", func() bool { return s.server.count("watch") > 3 })
	s.server.mu.Lock()
	s.server.refusal = 0
	s.server.mu.Unlock()
	s.waitForApproval(t, "csr-1")
	if lists := s.server.count("list"); lists != 1 {
		t.Errorf("%d lists", lists)
	}
	if named := strings.Count(s.output(), "kubeadm keeps trying"); named < 1 || named > 2 { // the cut, and the outage
		t.Errorf("it names failures %d times:\n%s", named, s.output())
	}
}

// A user who may not watch requests lists them, and is told so once.
func TestForbiddenWatchIsReplacedByLists(t *testing.T) {
	t.Parallel()
	s := startWatch(t, func(s *watchScene) { s.server.refusal = http.StatusForbidden })
	s.server.put(request(t, "csr-1", nil))
	s.waitForApproval(t, "csr-1")
	s.wait(t, "other lists", func() bool { return s.server.count("list") > 3 })
	s.checkSaid(t, "now and then until the user may watch them", 1)
	s.checkSaid(t, "keeps trying", 0)
}

// A connection that stays open without any event does not hide requests.
func TestSilentWatchEnds(t *testing.T) {
	t.Parallel()
	s := startWatch(t, func(s *watchScene) { s.server.ignored, s.k.WatchSilence = true, 3*time.Second })
	s.server.put(request(t, "csr-1", nil))
	s.waitForApproval(t, "csr-1")
	s.checkSaid(t, "keeps trying", 0)
}

// Requests that arrive together are decided together: one decision per request would take as long as the pauses between decisions.
func TestWatchDecidesTogether(t *testing.T) {
	t.Parallel()
	s := startWatch(t, nil)
	begun := time.Now()
	const count = 20
	for i := range count {
		s.server.put(request(t, fmt.Sprintf("csr-%d", i), nil))
	}
	for i := range count {
		s.waitForApproval(t, fmt.Sprintf("csr-%d", i))
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("it takes %s", took)
	}
	if approvals := s.server.count("approve"); approvals != count {
		t.Errorf("%d approvals", approvals)
	}
}

// Where watches fail and lists do not, as behind some proxies, requests are listed, and the failure is reported once.
func TestBrokenWatchIsReplacedByLists(t *testing.T) {
	t.Parallel()
	s := startWatch(t, func(s *watchScene) { s.server.refusal = http.StatusMethodNotAllowed })
	s.server.put(request(t, "csr-1", nil))
	s.waitForApproval(t, "csr-1")
	s.checkSaid(t, "keeps trying", 1)
}
