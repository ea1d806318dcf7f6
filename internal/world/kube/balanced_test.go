package kube_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Behind a load balancer, a retry after a failure of one API server reaches another one.
func TestReadsLeaveFailedBackend(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"no leader of etcd": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"etcdserver: leader changed"}`)
		},
		"no etcd": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				w.WriteHeader(500)
				_, _ = io.WriteString(w, "[-]etcd failed: reason withheld\n")
				return
			}
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			broken := httptest.NewUnstartedServer(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					fail(w, r)
				}))
			broken.EnableHTTP2 = true // all requests share a connection, as to API servers
			broken.StartTLS()
			t.Cleanup(broken.Close)
			good := startServer(t, answer{200, object})
			address, _ := startFlakyProxy(t, good.Server, 1, func(c net.Conn) {
				backend, err := net.Dial("tcp", broken.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				go func() { _, _ = io.Copy(backend, c); backend.Close() }()
				go func() { _, _ = io.Copy(c, backend); c.Close() }()
			})
			data := good.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = "https://" + address })
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			if _, err := newCluster(&data).Object(world.WithRetry(ctx, bound),
				state.RefOf(object, newApply().As)); err != nil {
				t.Errorf("after %d requests to the broken server: %v", asked.Load(), err)
			}
		})
	}
}

// A server that is busy keeps its connection: there may be no other one, and a new connection is work for it.
// Not in parallel: the servers of tests have one CA, so that their clients share the idle connections that others close.
func TestBusyServerKeepsConnection(t *testing.T) {
	busy := newRejection(429, metav1.StatusReasonTooManyRequests)
	s := startServer(t, busy, busy, answer{200, object})
	address, connections := startFlakyProxy(t, s.Server, 0, nil)
	data := s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = "https://" + address })
	if _, err := newCluster(&data).Object(t.Context(),
		state.RefOf(object, newApply().As)); err != nil || connections.Load() != 1 {
		t.Errorf("%v with %d connections", err, connections.Load())
	}
}

// A read is not given up because the pauses that a busy server asks for fill its time limit.
func TestReadOutlastsAskedPauses(t *testing.T) {
	t.Parallel()
	busy := newRejection(429, metav1.StatusReasonTooManyRequests)
	s := startServer(t, busy, busy, busy, answer{200, object})
	s.retryAfter = 1
	data := s.kubeconfig(t)
	const limit = 2 * time.Second
	if _, err := newCluster(&data).Object(world.WithRetry(t.Context(), limit),
		state.RefOf(object, newApply().As)); err != nil || len(s.asked) != 4 {
		t.Errorf("%v after %q", err, s.asked)
	}
}

// A retry after the answer of a server that works, such as a conflict, needs no other server. Not in parallel either.
func TestConflictKeepsConnection(t *testing.T) {
	conflict := newRejection(409, metav1.StatusReasonConflict)
	s := startServer(t, conflict, conflict, answer{201, object})
	address, connections := startFlakyProxy(t, s.Server, 0, nil)
	data := s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = "https://" + address })
	if err := newCluster(&data).Do(t.Context(), newApply()); err != nil || connections.Load() != 1 {
		t.Errorf("%v with %d connections", err, connections.Load())
	}
}
