package kube_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/kube"
)

func newEvent(kind, name, version string) string {
	return `{"type":"` + kind + `","object":{"metadata":{"name":"` + name + `","resourceVersion":"` + version + `"}}}` + "\n"
}

// A watch returns the version after which the next one continues, whatever ends it.
func TestWatchOfOddStreams(t *testing.T) {
	added := newEvent("ADDED", "a", "7")
	for name, c := range map[string]struct {
		stream, version, err string
		seen                 []string
	}{
		"bookmark":      {added + newEvent("BOOKMARK", "", "9"), "9", "", []string{"a"}},
		"empty":         {"", "5", "", nil},
		"cut":           {added + `{"type":"ADDED","obj`, "7", "unexpected EOF", []string{"a"}},
		"expired":       {added + `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}`, "", "", []string{"a"}},
		"error":         {`{"type":"ERROR","object":{"kind":"Status","code":500,"message":"bad\u001b[31m"}}`, "5", `bad`, nil},
		"no object":     {`{"type":"ADDED"}`, "5", "watching ConfigMap objects", nil},
		"null":          {`{"type":"ADDED","object":null}`, "5", "no resourceVersion", nil},
		"another text":  {"<html>\x1b[31m", "5", "watching ConfigMap objects", nil},
		"a large event": {added + `{"type":"` + strings.Repeat("x", 9<<20), "7", "too large", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, c.stream)
			}))
			t.Cleanup(s.Close)
			config, err := pki.KubeconfigSpec{Server: s.URL, Cluster: "c", User: "u", CA: pem.EncodeToMemory(
				&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}.WithToken("secret").Encode()
			if err != nil {
				t.Fatal(err)
			}
			var seen []string
			version, err := kube.New(nil).Watch(t.Context(), state.Watch{Version: "5", Timeout: time.Minute, OnStart: func() {},
				Query: state.Query{As: state.Identity{Config: config}, GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap")},
				OnEvent: func(o *unstructured.Unstructured, _ bool) bool {
					seen = append(seen, o.GetName())
					return true
				}})
			if version != c.version || !slices.Equal(seen, c.seen) {
				t.Errorf("version %q after %q: %v", version, seen, err)
			}
			if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\x1b")) {
				t.Errorf("the error is %q", err)
			}
		})
	}
}
