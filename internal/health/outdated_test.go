package health

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// answering is a machine whose API server always answers.
type answering struct {
	simulatedRuntime
	written time.Time // modification time of its manifests
	asked   int
}

func (a *answering) Livez(context.Context, state.Identity) error { a.asked++; return nil }

func (a *answering) Stat(_ context.Context, path string) (state.FileInfo, error) {
	if a.written.IsZero() {
		return state.FileInfo{}, errors.New("no such file")
	}
	return state.FileInfo{Path: path, ModTime: a.written}, nil
}

// The kubelet restarts an API server some moments after its manifest, or etcd's, has changed.
// Until then it answers.
func TestOutdatedAPIServer(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(name string, since time.Duration, running bool) state.Container {
		return state.Container{Name: name, Component: name, Created: now.Add(since),
			Running: running}
	}
	const server = release.APIServer
	elsewhere := at(server, -time.Hour, true)
	elsewhere.Component = ""
	for name, c := range map[string]struct {
		containers []state.Container
		waits      string
	}{
		"the first": {[]state.Container{at(server, time.Second, true),
			at("etcd", time.Second, true)}, ""},
		"of the old manifest": {[]state.Container{at(server, -time.Second, true)},
			"kube-apiserver is still running"},
		"old and new": {[]state.Container{at(server, -time.Second, true),
			at(server, time.Second, true)}, "kube-apiserver is still running"},
		"ended and new": {[]state.Container{at(server, -time.Second, false),
			at(server, time.Second, true)}, ""},
		"beside an old etcd": {[]state.Container{at(server, time.Second, true),
			at("etcd", -time.Second, true)}, "etcd is still running"},
		"a namesake's age":                {[]state.Container{elsewhere}, ""},
		"of a runtime that tells nothing": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answering{simulatedRuntime: simulatedRuntime{now: now, containers: c.containers}, written: now}
			wait := APIServer(&node.Node{Local: node.Local{Paths: node.DefaultPaths()}},
				state.Identity{})
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
			// a clock that was set back must not make the wait time out
			a.now = a.now.Add(restartTimeout)
			if err := wait.Check(t.Context(), a); err != nil || a.asked != 1 {
				t.Errorf("later: asked %d times; got %v", a.asked, err)
			}
		})
	}
}

// A component without a manifest, such as an external etcd, is not waited for.
func TestComponentWithoutManifestIsNotOutdated(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := &answering{simulatedRuntime: simulatedRuntime{now: now,
		containers: []state.Container{{Name: "etcd", Component: "etcd", Running: true}}}}
	if err := APIServer(&node.Node{}, state.Identity{}).Check(t.Context(), a); err != nil {
		t.Error(err)
	}
}
