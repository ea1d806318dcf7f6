package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// network is a machine whose network answers as a test wants it.
type network struct {
	*fake.World
	proxy   string
	answer  state.Response
	fetched int
}

func (n *network) Proxy(context.Context, string) (string, error) { return n.proxy, nil }

func (n *network) Fetch(context.Context, state.Request) (state.Response, error) {
	n.fetched++
	if n.answer.Status == 0 {
		return n.answer, errors.New("connection refused")
	}
	return n.answer, nil
}

func TestVersionLabelLookup(t *testing.T) {
	const url = "https://dl.k8s.io/release/stable-1.txt"
	known := func() *network {
		w := fake.New()
		w.Names["dl.k8s.io"] = []string{"192.0.2.80"}
		return &network{World: w, answer: state.Response{Status: 200, Body: []byte("v1.37.1\n")}}
	}
	if text, err := FetchVersion(t.Context(), known())(url); err != nil || text != "v1.37.1\n" {
		t.Errorf("got %q, %v", text, err)
	}

	nameless := known()
	delete(nameless.Names, "dl.k8s.io")
	if _, err := FetchVersion(t.Context(), nameless)(url); err == nil || nameless.fetched != 0 {
		t.Errorf("a name that does not resolve is asked for: %v", err)
	}

	behind := known()
	delete(behind.Names, "dl.k8s.io")
	behind.proxy = "http://proxy:3128"
	if _, err := FetchVersion(t.Context(), behind)(url); err != nil {
		t.Errorf("behind a proxy names need not resolve: %v", err)
	}

	absent := known()
	absent.answer = state.Response{Status: 404}
	if _, err := FetchVersion(t.Context(), absent)(url); err == nil ||
		!strings.Contains(err.Error(), "status 404") {
		t.Errorf("got %v, want the status", err)
	}
}
