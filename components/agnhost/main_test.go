package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServeHostname(t *testing.T) {
	server := httptest.NewServer(newHostnameHandler("pod-1"))
	defer server.Close()
	for path, want := range map[string]string{"/": "pod-1", "/any": "pod-1", "/clientip": "127.0.0.1"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || strings.TrimSpace(string(body)) != want {
			t.Errorf("%s: got %q, %v", path, body, err)
		}
	}
}

func TestGetFailsUnlessStatusIsOK(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if err := getURL(t.Context(), []string{server.URL}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
	if err := getURL(t.Context(), nil); err == nil {
		t.Error("no address is accepted")
	}
}

func TestResolveFindsLoopback(t *testing.T) {
	if err := resolveName(t.Context(), []string{"127.0.0.1"}); err != nil {
		t.Error(err)
	}
	if err := resolveName(t.Context(), []string{"-timeout", "1ns", "no-such-name.invalid"}); err == nil {
		t.Error("a name that does not exist is resolved")
	}
}
