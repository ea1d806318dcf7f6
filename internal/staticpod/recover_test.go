package staticpod_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

const etcdRecord = "/etc/kubernetes/tmp/kubeadm-journal/replacing-etcd.json"

// slowMachine is a machine whose etcd may run without being ready.
type slowMachine struct {
	*fake.World
	slow     bool // etcd runs and is not ready
	exitCode int32
}

func (m *slowMachine) Fetch(ctx context.Context, req state.Request) (state.Response, error) {
	if m.slow && strings.Contains(req.URL, ":2381/") {
		return state.Response{}, errors.New("i/o timeout")
	}
	return m.World.Fetch(ctx, req)
}

func (m *slowMachine) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	all, err := m.World.Containers(ctx, socket)
	for i := range all {
		if all[i].ExitCode != 0 && m.exitCode != 0 {
			all[i].ExitCode = m.exitCode
		}
	}
	return all, err
}

func (m *slowMachine) Await(ctx context.Context, c world.Condition) error {
	return (&awaitingWorld{m.World, m}).Await(ctx, c)
}

// awaitingWorld lets the fake's Await check conditions against a wrapper of it.
type awaitingWorld struct {
	*fake.World
	as state.Reader
}

func (a *awaitingWorld) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, a.as) }
	return a.World.Await(ctx, c)
}

// runRecover runs Recover where the credentials for the API server have expired.
func runRecover(t *testing.T, on *slowMachine) (messages []string, err error) {
	t.Helper()
	e := engine.New(engine.Env{World: &refusedWorld{on, t}, Emit: func(ev engine.Event) {
		if ev.Kind == engine.Info || ev.Kind == engine.Warned {
			messages = append(messages, ev.Text)
		}
	}})
	return messages, newReplacement().Recover(t.Context(), e)
}

type refusedWorld struct {
	*slowMachine
	t *testing.T
}

func (r *refusedWorld) Livez(context.Context, state.Identity) error {
	r.t.Error("the API server was asked with credentials")
	return errors.New("unauthorized")
}

func (r *refusedWorld) Await(ctx context.Context, c world.Condition) error {
	return (&awaitingWorld{r.World, r}).Await(ctx, c)
}

// killAfterWriting kills a run right after it has written the manifest of a component.
func killAfterWriting(t *testing.T, w *fake.World, component string,
	wanted []staticpod.Manifest) {
	t.Helper()
	for at := 0; ; at++ {
		copied := w.Clone()
		copied.Clock = w.Clock
		killed := &fault.World{World: copied, At: at, After: true, Crash: true}
		if _, crashed := runUntilCrash(t, killed, wanted); !crashed {
			t.Fatalf("the manifest of %s is never written", component)
		}
		file := "/etc/kubernetes/manifests/" + component + ".yaml"
		if string(copied.Files[file].Data) != string(w.Files[file].Data) {
			killed := &fault.World{World: w, At: at, After: true, Crash: true}
			runUntilCrash(t, killed, wanted)
			return
		}
	}
}

// Whenever a run is killed, Recover alone makes all components healthy: with the new manifests as
// far as they were written, and with the previous ones from that of a component that crashes.
func TestRecoverFinishesWhatWasWritten(t *testing.T) {
	for _, failing := range []string{"", etcdComponent, apiserver, scheduler} {
		t.Run("failing "+failing, func(t *testing.T) {
			wanted := newManifests("v2")
			if failing != "" {
				wanted = withArgument(wanted, failing, "v2", "--bad")
			}
			finished := 0
			for at := 0; ; at++ {
				w := newMachine(t)
				killed := &fault.World{World: w, At: at, After: true, Crash: true}
				if _, crashed := runUntilCrash(t, killed, wanted); !crashed {
					break
				}
				before := imageVersions(w)
				_, err := runRecover(t, &slowMachine{World: w})
				if healthy := countRunning(t, w); err != nil || healthy != 4 {
					t.Errorf("killed after change %d: %d components run with their manifests: %v",
						at, healthy, err)
				}
				isBad := failing != "" && strings.Contains(
					string(w.Files["/etc/kubernetes/manifests/"+failing+".yaml"].Data), "--bad")
				if isBad {
					t.Errorf("killed after change %d: the bad manifest is still there", at)
				}
				if after := imageVersions(w); failing == "" && after != before {
					t.Errorf("killed after change %d with %s: now %s", at, before, after)
				}
				if strings.Contains(before, "v2") {
					finished++
				}
			}
			if finished == 0 {
				t.Error("no run was killed after it had written a manifest")
			}
		})
	}
}

func TestRecoverWithoutRecordChangesNothing(t *testing.T) {
	w := newMachine(t)
	before := w.Snapshot()
	messages, err := runRecover(t, &slowMachine{World: w, slow: true})
	if after := w.Snapshot(); err != nil || len(messages) > 0 || after != before {
		t.Errorf("%v, %q", err, messages)
	}
}

// After a power cut a newer etcd may need minutes for its data: the older one must not get them.
func TestRecoverKeepsSlowEtcd(t *testing.T) {
	m := &slowMachine{World: newMachine(t), slow: true}
	killAfterWriting(t, m.World, etcdComponent, newManifests("v2"))
	for range 2 {
		_, err := runRecover(t, m)
		if err == nil || imageVersions(m.World) != "v2 v1 v1 v1" {
			t.Fatalf("%s: %v", imageVersions(m.World), err)
		}
		if _, there := m.Files[etcdRecord]; !there {
			t.Fatal("the record is removed")
		}
		hints := strings.Join(problem.Hints(err), "\n")
		if !strings.Contains(err.Error(), "resuming the replacement of the static Pod of etcd") ||
			!strings.Contains(err.Error(), "i/o timeout") ||
			!strings.Contains(hints, "re-run the command to resume") {
			t.Errorf("it says %v\n%s", err, hints)
		}
	}
	m.slow = false
	if _, err := runRecover(t, m); err != nil || imageVersions(m.World) != "v2 v1 v1 v1" {
		t.Fatalf("%s: %v", imageVersions(m.World), err)
	}
	if _, there := m.Files[etcdRecord]; there {
		t.Error("the record is left, and a later failure could restore the previous version")
	}
	out := runReplace(t.Context(), m.World, newManifests("v2")...)
	if out.err != nil || imageVersions(m.World) != "v2 v2 v2 v2" || countRunning(t, m.World) != 4 {
		t.Errorf("%s: %v", imageVersions(m.World), out.err)
	}
}

// Within one run, too, an etcd that is only slow keeps its new manifest, and so does one that the
// kubelet kills because it does not answer.
func TestReplaceKeepsSlowEtcd(t *testing.T) {
	for name, m := range map[string]*slowMachine{
		"slow":                  {slow: true},
		"killed by the kubelet": {exitCode: 137},
		"terminated":            {exitCode: 143},
	} {
		t.Run(name, func(t *testing.T) {
			m.World = newMachine(t)
			stable := m.CrashLog
			if m.exitCode != 0 {
				m.CrashLog = func(component string, manifest []byte) string {
					if component == etcdComponent && strings.Contains(string(manifest), "etcd:v2") {
						return "reading the write-ahead log"
					}
					return ""
				}
			}
			out := runReplace(t.Context(), m, newManifests("v2")...)
			hints := strings.Join(problem.Hints(out.err), "\n")
			if out.err == nil || imageVersions(m.World) != "v2 v1 v1 v1" ||
				!strings.Contains(out.err.Error(), "etcd keeps its new version") ||
				!strings.Contains(hints, "re-run the command to resume") {
				t.Fatalf("%s: %v\n%s", imageVersions(m.World), out.err, hints)
			}
			m.slow, m.CrashLog = false, stable
			if _, err := runRecover(t, m); err != nil {
				t.Fatal(err)
			}
			out = runReplace(t.Context(), m.World, newManifests("v2")...)
			if out.err != nil || imageVersions(m.World) != "v2 v2 v2 v2" {
				t.Errorf("%s: %v", imageVersions(m.World), out.err)
			}
		})
	}
}

// An interrupt while a newer etcd starts does not restore the previous version either.
func TestInterruptKeepsStartingEtcd(t *testing.T) {
	m := &slowMachine{World: newMachine(t), slow: true}
	ctx, interrupt := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by the user")
	in := &interruptingWorld{World: m, at: "/etc/kubernetes/manifests/etcd.yaml",
		interrupt: func() { interrupt(stop) }}
	out := runReplace(ctx, in, newManifests("v2")...)
	if !errors.Is(out.err, stop) || imageVersions(m.World) != "v2 v1 v1 v1" {
		t.Fatalf("%s: %v", imageVersions(m.World), out.err)
	}
	m.slow = false
	if _, err := runRecover(t, m); err != nil || countRunning(t, m.World) != 4 {
		t.Error(err)
	}
}

// An etcd that crashes again and again is restored. If the previous version refuses the data, the
// next run can still write the new manifest again.
func TestRestoredEtcdThatRefusesItsData(t *testing.T) {
	m := &slowMachine{World: newMachine(t)}
	isBroken := true // the new version cannot start, as on a full disk
	m.CrashLog = func(component string, manifest []byte) string {
		switch isNew := strings.Contains(string(manifest), "etcd:v2"); {
		case component != etcdComponent:
			return ""
		case !isNew && isBroken && m.Files[etcdRecord].Data == nil:
			return "" // before the upgrade
		case !isNew:
			return `{"level":"fatal","error":"version \"3.7.0\" is not supported"}`
		case isBroken:
			return `{"level":"fatal","error":"no space left on device"}`
		}
		return ""
	}
	out := runReplace(t.Context(), m, newManifests("v2")...)
	if out.err == nil || imageVersions(m.World) != "v1 v1 v1 v1" ||
		!strings.Contains(out.err.Error(), "no space left on device") ||
		!strings.Contains(out.err.Error(), "is not supported") {
		t.Fatalf("%s: %v", imageVersions(m.World), out.err)
	}
	_, err := runRecover(t, m)
	if err == nil || !strings.Contains(err.Error(), "neither the previous version of etcd (") ||
		imageVersions(m.World) != "v2 v1 v1 v1" {
		t.Fatalf("%s: %v", imageVersions(m.World), err)
	}
	isBroken = false
	if _, err := runRecover(t, m); err != nil || imageVersions(m.World) != "v2 v1 v1 v1" ||
		countRunning(t, m.World) != 4 {
		t.Errorf("%s: %v", imageVersions(m.World), err)
	}
	if _, there := m.Files[etcdRecord]; there {
		t.Error("the record is left")
	}
}

// A record that an older kubeadm wrote has no copy of the new manifest.
func TestRecordWithoutCopy(t *testing.T) {
	w := newMachine(t)
	killAfterWriting(t, w, etcdComponent, newManifests("v2"))
	text, _, found := strings.Cut(string(w.Files[etcdRecord].Data), `,"wanted":`)
	if !found {
		t.Fatalf("the record has no copy of the manifest: %s", text)
	}
	w.Files[etcdRecord] = memory.File{Data: []byte(text + "}"), Mode: 0o600}
	if _, err := runRecover(t, &slowMachine{World: w}); err != nil ||
		countRunning(t, w) != 4 || imageVersions(w) != "v2 v1 v1 v1" {
		t.Errorf("%s: %v", imageVersions(w), err)
	}
}
