package kube_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/kube"
)

const admin = "/etc/kubernetes/admin.conf"

var object = &corev1.ConfigMap{
	TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
	ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"},
	Data:       map[string]string{"a": "1"},
}

// scripted is an API server with prepared responses, one after the other. The last one is
// repeated. It is ready, unless the test says otherwise.
type scripted struct {
	*httptest.Server
	mu         sync.Mutex
	readyz     []int    // the next answers of /readyz; 200 if there is none
	asked      []string // "METHOD path" of all other requests
	agent      string
	retryAfter int // seconds; 0 for no such header
}

type answer struct {
	code int
	body any
}

// Bodies of answers that have begun: one that does not end, and one that ends too early.
const (
	hangs = "an answer that does not end"
	cut   = "an answer that is not complete"
)

func newRejection(code int, reason metav1.StatusReason) answer {
	return answer{code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code),
		Message: "the server says " + string(reason),
	}}
}

func startServer(t *testing.T, answers ...answer) *scripted {
	t.Helper()
	s := &scripted{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if r.URL.Path == "/readyz" {
			code := http.StatusOK
			if len(s.readyz) > 0 {
				code, s.readyz = s.readyz[0], s.readyz[1:]
			}
			s.mu.Unlock()
			w.WriteHeader(code)
			return
		}
		now := answers[min(len(s.asked), len(answers)-1)]
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		s.agent = r.UserAgent()
		s.mu.Unlock()
		if now.body == hangs || now.body == cut {
			w.Header().Set("Content-Type", "application/json") // as every answer of an API server has
			w.WriteHeader(now.code)
			_, _ = w.Write([]byte("{"))
			w.(http.Flusher).Flush()
			if now.body == hangs {
				<-r.Context().Done()
			}
			return
		}
		if text, ok := now.body.(string); ok {
			w.WriteHeader(now.code)
			_, _ = w.Write([]byte(text))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if s.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(s.retryAfter))
		}
		w.WriteHeader(now.code)
		_ = json.NewEncoder(w).Encode(now.body)
	}))
	t.Cleanup(s.Close)
	return s
}

// kubeconfig returns a kubeconfig for the server with a token.
func (s *scripted) kubeconfig(t *testing.T, edit ...func(*pki.KubeconfigSpec)) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	a := pki.KubeconfigSpec{Server: s.URL, Cluster: "c", User: "u", CA: ca}
	for _, e := range edit {
		e(&a)
	}
	data, err := a.WithToken("secret").Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bound is long enough for a few requests on a busy machine.
const bound = time.Minute

// newCluster returns a Cluster that reads admin.conf from data.
func newCluster(data *[]byte) *kube.Cluster {
	k := kube.New(func(path string) ([]byte, error) {
		if path != admin || *data == nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return *data, nil
	})
	k.Timeout = bound
	k.UserAgent = "kubeadm/v1.37.1"
	return k
}

func newApply() change.ApplyObject {
	return change.ApplyObject{Object: object, As: state.Identity{Kubeconfig: admin}}
}

func foreignCA(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{
		CommonName: "foreign",
		Validity: pki.Validity{NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca.Certificate
}
