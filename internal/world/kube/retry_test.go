package kube_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/kube"
)

// startFlakyProxy returns an address where the first connections are broken and later ones reach
// the server.
func startFlakyProxy(t *testing.T, server *httptest.Server, times int32,
	spoil func(net.Conn)) (address string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connections = &atomic.Int32{}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if connections.Add(1) <= times {
				spoil(client)
				continue
			}
			backend, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				client.Close()
				continue
			}
			go func() { _, _ = io.Copy(backend, client); backend.Close() }()
			go func() { _, _ = io.Copy(client, backend); client.Close() }()
		}
	}()
	return l.Addr().String(), connections
}

// Reads survive a load balancer with a failed backend and an API server that restarts.
func TestReadsRetryBrokenConnections(t *testing.T) {
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() }
	for name, spoil := range map[string]func(net.Conn){
		"reset":        reset,
		"closed":       func(c net.Conn) { c.Close() },
		"cut in hello": func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 5)); reset(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, answer{200, object})
			address, connections := startFlakyProxy(t, s.Server, 3, spoil)
			data := s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = "https://" + address })
			ctx := world.WithRetry(t.Context(), bound)
			if o, err := newCluster(&data).Object(ctx,
				state.RefOf(object, newApply().As)); err != nil || o.GetName() != "c" {
				t.Errorf("%v after %d connections", err, connections.Load())
			}
		})
	}
}

// Reads survive an API server that stops in the middle of an answer, such as one whose etcd has become unreachable.
func TestReadsRetryIncompleteAnswer(t *testing.T) {
	for _, body := range []string{hangs, cut} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, answer{200, body}, answer{200, object})
			data := s.kubeconfig(t)
			o, err := newCluster(&data).Object(world.WithRetry(t.Context(), bound), state.RefOf(object, newApply().As))
			if err != nil || o.GetName() != "c" {
				t.Error(err)
			}
		})
	}
}

func TestReadsWaitForStartingAPIServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, answer{200, object})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // connections are refused
	data := s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = "https://" + address })
	time.AfterFunc(time.Second, func() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		later := httptest.NewUnstartedServer(s.Config.Handler)
		later.Listener.Close()
		later.Listener, later.TLS = l, &tls.Config{Certificates: s.TLS.Certificates}
		later.StartTLS()
		t.Cleanup(later.Close)
	})
	k := newCluster(&data)
	if _, err := k.Object(t.Context(), state.RefOf(object, newApply().As)); err == nil ||
		!strings.Contains(err.Error(), "connection refused") ||
		!strings.Contains(strings.Join(problem.Hints(err), ""), "check that an API server is running at https://"+address) {
		t.Errorf("a read without a retry limit: %v", err)
	}
	if _, err := k.Object(world.WithRetry(t.Context(), bound),
		state.RefOf(object, newApply().As)); err != nil {
		t.Error(err)
	}
}

func TestReadsRetryWithoutEtcdLeader(t *testing.T) {
	for name, first := range map[string]answer{
		"etcd without a leader": {500,
			metav1.Status{Status: metav1.StatusFailure, Code: 500,
				Message: "etcdserver: leader changed"}},
		"etcd timed out": {500,
			metav1.Status{Status: metav1.StatusFailure, Code: 500,
				Message: "etcdserver: request timed out"}},
		"too many requests": newRejection(429, metav1.StatusReasonTooManyRequests),
		"bad gateway":       {502, "bad gateway"},
		"gateway timeout":   {504, "gateway timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, first, first, answer{200, object})
			data := s.kubeconfig(t)
			_, err := newCluster(&data).Object(world.WithRetry(t.Context(), bound),
				state.RefOf(object, newApply().As))
			if err != nil || len(s.asked) != 3 {
				t.Errorf("%v after %q", err, s.asked)
			}
		})
	}
}

// An API server that has just started serves before it has read the RBAC objects.
func TestStartingAPIServerRejectsUsers(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, k *kube.Cluster) error{
		"a read": func(ctx context.Context, k *kube.Cluster) error {
			_, err := k.Object(world.WithRetry(ctx, bound), state.RefOf(object, newApply().As))
			return err
		},
		"a write": func(ctx context.Context, k *kube.Cluster) error {
			return k.Do(ctx, newApply())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forbidden := newRejection(403, metav1.StatusReasonForbidden)
			s := startServer(t, forbidden, newRejection(401, metav1.StatusReasonUnauthorized),
				forbidden, answer{201, object})
			address, _ := startFlakyProxy(t, s.Server, 1, func(c net.Conn) { c.Close() })
			data := s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = "https://" + address })
			if err := do(t.Context(), newCluster(&data)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A command that finds such an API server as it begins has seen no outage: it asks for /readyz.
func TestUnreadyAPIServerRejectsUsers(t *testing.T) {
	t.Parallel()
	s := startServer(t, newRejection(403, metav1.StatusReasonForbidden),
		newRejection(401, metav1.StatusReasonUnauthorized), answer{200, object})
	s.readyz = []int{403, 500}
	data := s.kubeconfig(t)
	if _, err := newCluster(&data).Object(world.WithRetry(t.Context(), bound),
		state.RefOf(object, newApply().As)); err != nil {
		t.Error(err)
	}
	if len(s.asked) != 3 || len(s.readyz) != 0 {
		t.Errorf("it was asked for %q, and its readiness is still to be asked for: %d", s.asked,
			s.readyz)
	}
}

// Before it has read the ServiceCIDRs, an API server rejects every cluster IP. One that has been
// running for long is right.
func TestStartingAPIServerRejectsClusterIPs(t *testing.T) {
	for name, outages := range map[string]int32{"started": 1, "running": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(),
				"s", field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), "10.96.0.10",
					"the provided network does not match the current range")}).Status()
			invalid.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			missing := newRejection(404, metav1.StatusReasonNotFound)
			service := &corev1.Service{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"},
				Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.10"},
			}
			s := startServer(t, answer{422, invalid}, missing, missing, answer{201, service})
			address, _ := startFlakyProxy(t, s.Server, outages, func(c net.Conn) { c.Close() })
			data := s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = "https://" + address })
			apply := newApply()
			apply.Object = service
			err := newCluster(&data).Do(t.Context(), apply)
			if outages > 0 && err != nil {
				t.Error(err)
			}
			if outages == 0 && !apierrors.IsInvalid(err) {
				t.Errorf("error %v, want that of the API server", err)
			}
		})
	}
}

// Permanent errors are not retried.
func TestReadsDoNotRetryPermanentErrors(t *testing.T) {
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	s := startServer(t, answer{200, object})
	foreign := pki.EncodeCertificates(foreignCA(t))
	picky := httptest.NewUnstartedServer(nil)
	picky.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert,
		Certificates: s.TLS.Certificates}
	picky.StartTLS()
	t.Cleanup(picky.Close)
	for name, data := range map[string][]byte{
		"another CA": s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.CA = foreign }),
		"another name": s.kubeconfig(t,
			func(a *pki.KubeconfigSpec) {
				a.Server = strings.Replace(a.Server, "127.0.0.1",
					"localhost", 1)
			}),
		"plain HTTP": s.kubeconfig(t,
			func(a *pki.KubeconfigSpec) {
				a.Server = strings.Replace(plain.URL, "http:", "https:",
					1)
			}),
		"TLS alert": s.kubeconfig(t, func(a *pki.KubeconfigSpec) { a.Server = picky.URL }),
		"forbidden": startServer(t,
			newRejection(403, metav1.StatusReasonForbidden)).kubeconfig(t),
		"unauthorized": startServer(t,
			newRejection(401, metav1.StatusReasonUnauthorized)).kubeconfig(t),
		"not found":  startServer(t, newRejection(404, metav1.StatusReasonNotFound)).kubeconfig(t),
		"invalid":    startServer(t, newRejection(422, metav1.StatusReasonInvalid)).kubeconfig(t),
		"redirected": startServer(t, answer{307, ""}).kubeconfig(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := newCluster(&data).Object(world.WithRetry(t.Context(), bound),
				state.RefOf(object, newApply().As))
			if took := time.Since(start); err == nil || took > bound/2 {
				t.Errorf("%v after %s", err, took)
			}
		})
	}
}

func TestRetriesEndAtLimitAndWithContext(t *testing.T) {
	t.Parallel()
	s := startServer(t, answer{200, object})
	data := s.kubeconfig(t)
	s.Close()
	start := time.Now()
	_, err := newCluster(&data).Object(world.WithRetry(t.Context(), time.Second),
		state.RefOf(object, newApply().As))
	if took := time.Since(start); err == nil ||
		!strings.Contains(err.Error(), "connection refused") || took < time.Second ||
		took > bound/2 {
		t.Errorf("%v after %s", err, took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // an attempt must fit into it
	defer cancel()
	if _, err = newCluster(&data).Object(world.WithRetry(ctx, bound),
		state.RefOf(object, newApply().As)); err == nil ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}
