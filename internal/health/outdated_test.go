package health

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// answering is a machine whose API server answers whoever asks.
type answering struct {
	runtime
	written time.Time // when its manifests were
	asked   int
}

func (a *answering) Livez(context.Context, change.Identity) error { a.asked++; return nil }

func (a *answering) Stat(_ context.Context, path string) (change.FileInfo, error) {
	if a.written.IsZero() {
		return change.FileInfo{}, errors.New("no such file")
	}
	return change.FileInfo{Path: path, ModTime: a.written}, nil
}

// The kubelet ends an API server whose manifest has changed, or whose etcd's, some moments later. Until then it answers.
func TestAnAPIServerThatIsToEndIsNotWhatIsWaitedFor(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(name string, since time.Duration, running bool) change.Container {
		return change.Container{Name: name, Component: name, Created: now.Add(since), Running: running}
	}
	const server = release.APIServer
	elsewhere := at(server, -time.Hour, true)
	elsewhere.Component = ""
	for name, c := range map[string]struct {
		containers []change.Container
		waits      string
	}{
		"the first":                       {[]change.Container{at(server, time.Second, true), at("etcd", time.Second, true)}, ""},
		"of the old manifest":             {[]change.Container{at(server, -time.Second, true)}, "kube-apiserver still runs"},
		"old and new":                     {[]change.Container{at(server, -time.Second, true), at(server, time.Second, true)}, "kube-apiserver still runs"},
		"ended and new":                   {[]change.Container{at(server, -time.Second, false), at(server, time.Second, true)}, ""},
		"beside an old etcd":              {[]change.Container{at(server, time.Second, true), at("etcd", -time.Second, true)}, "etcd still runs"},
		"a namesake's age":                {[]change.Container{elsewhere}, ""},
		"of a runtime that tells nothing": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answering{runtime: runtime{now: now, containers: c.containers}, written: now}
			wait := APIServer(&node.Node{Local: node.Local{Paths: node.DefaultPaths()}}, change.Identity{})
			err := wait.Check(t.Context(), a)
			if c.waits == "" {
				if err != nil || a.asked == 0 {
					t.Errorf("asked %d times; got %v", a.asked, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.waits) || a.asked > 0 {
				t.Fatalf("asked %d times; got %v, want %q", a.asked, err, c.waits)
			}
			a.now = a.now.Add(endedWithin) // a clock that was set back must not keep anybody waiting for ever
			if err := wait.Check(t.Context(), a); err != nil || a.asked != 1 {
				t.Errorf("later: asked %d times; got %v", a.asked, err)
			}
		})
	}
}

// A component without a manifest, as etcd that runs elsewhere, is nothing to wait for.
func TestNoManifestIsNotNewer(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := &answering{runtime: runtime{now: now, containers: []change.Container{{Name: "etcd", Component: "etcd", Running: true}}}}
	if err := APIServer(&node.Node{}, change.Identity{}).Check(t.Context(), a); err != nil {
		t.Error(err)
	}
}
