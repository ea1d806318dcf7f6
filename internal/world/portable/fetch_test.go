package portable

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"kubeadm/internal/state"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// startTLSServer starts a server with a certificate of its own on loopback.
func startTLSServer(t *testing.T, h http.HandlerFunc) (url string, ca []byte) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestFetchVerifiesServers(t *testing.T) {
	url, ca := startTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("it sent credentials")
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	})
	for _, req := range []state.Request{{URL: url, CA: ca}, {URL: url, Loopback: true}} {
		got, err := Machine{}.Fetch(t.Context(), req)
		if err != nil || got.Status != http.StatusTeapot || string(got.Body) != "short and stout" {
			t.Errorf("got %+v and %v", got, err)
		}
	}
	for says, req := range map[string]state.Request{
		"failed to verify certificate": {URL: url},
		"no PEM certificate":           {URL: url, CA: []byte("nonsense")},
		"reading the client":           {URL: url, CA: ca, Cert: []byte("nonsense")},
		"not an address of this":       {URL: "https://192.0.2.77:10257/healthz", Loopback: true},
		"must be verified":             {URL: "https://cp.example:10257/healthz", Loopback: true},
		"not an http or https URL":     {URL: "file:///etc/kubernetes/admin.conf"},
	} {
		if _, err := (Machine{}).Fetch(t.Context(), req); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%+v: got %v, want %q in it", req.URL, err, says)
		}
	}
}

func TestFetchLimitsSizeAndRedirects(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	url, ca := startTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = w.Write(make([]byte, bodyLimit+1))
		case "/full":
			_, _ = w.Write(make([]byte, bodyLimit))
		case "/away":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/on":
			http.Redirect(w, r, "/full", http.StatusFound)
		}
	})
	for path, says := range map[string]string{"/long": "longer than",
		"/away": "redirected from https"} {
		_, err := Machine{}.Fetch(t.Context(),
			state.Request{URL: strings.Replace(url, "://", "://user:password@", 1) + path +
				"?signature", CA: ca})
		if err == nil || !strings.Contains(err.Error(), says) ||
			errors.Is(err, state.ErrRedirected) != (path == "/away") {
			t.Errorf("%s: got %v, want %q in it", path, err, says)
		}
		if strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "signature") {
			t.Errorf("the error shows a secret of the URL: %v", err)
		}
	}
	for _, path := range []string{"/full", "/on"} {
		got, err := Machine{}.Fetch(t.Context(), state.Request{URL: url + path, CA: ca})
		if err != nil || len(got.Body) != bodyLimit {
			t.Errorf("%s: got %d bytes and %v", path, len(got.Body), err)
		}
	}
	got, err := Machine{}.Fetch(t.Context(), state.Request{URL: url + "/away", Loopback: true})
	if err != nil || got.Status != http.StatusFound {
		t.Errorf("a redirected health check: got %d and %v, want the redirect", got.Status, err)
	}
}

func TestClusterInfo(t *testing.T) {
	url, ca := startTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimSuffix(r.URL.Path, clusterInfoPath) {
		case "":
			_, _ = io.WriteString(w,
				`{"kind":"ConfigMap","apiVersion":"v1","data":{"kubeconfig":"text","jws-kubeconfig-abcdef":"signature"}}`)
		case "/absent":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"configmaps \"cluster-info\" not found","reason":"NotFound","code":404}`)
		case "/closed":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`)
		case "/proxy":
			w.WriteHeader(http.StatusBadGateway)
		case "/other":
			_, _ = io.WriteString(w, `{"kind":"Pod"}`)
		case "/away":
			http.Redirect(w, r, clusterInfoPath, http.StatusFound)
		}
	})
	wrong := newOtherCA(t)
	for _, ca := range [][]byte{ca, nil} {
		got, err := Machine{}.ClusterInfo(t.Context(), url, ca)
		if err != nil || got["kubeconfig"] != "text" ||
			got["jws-kubeconfig-abcdef"] != "signature" {
			t.Errorf("got %v and %v", got, err)
		}
	}
	if _, err := (Machine{}).ClusterInfo(t.Context(), url+"/absent",
		ca); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
	if _, err := (Machine{}).ClusterInfo(t.Context(), url+"/closed",
		ca); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want forbidden", err)
	}
	for _, c := range []struct {
		server string
		ca     []byte
		says   string
	}{
		{url, wrong, "failed to verify certificate"},
		{url, []byte("nonsense"), "no PEM certificate"},
		{url + "/proxy", ca, "502 Bad Gateway"},
		{url + "/other", ca, "other than the ConfigMap"},
		{url + "/away", ca, state.ErrRedirected.Error()},
		{url + "/nothing", ca, "reading cluster-info"},
		{strings.Replace(url, "https", "http", 1), nil, "not an https URL"},
		{"127.0.0.1:6443", nil, ""},
	} {
		if _, err := (Machine{}).ClusterInfo(t.Context(), c.server, c.ca); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q in it", c.server, err, c.says)
		}
	}
}

// newOtherCA is not the CA of the server.
func newOtherCA(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(nil, cert, cert, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
