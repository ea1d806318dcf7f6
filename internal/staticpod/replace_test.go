package staticpod_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

func TestReplaceKeepsBackups(t *testing.T) {
	w := newMachine(t)
	w.PodLag = 3
	out := runReplace(t.Context(), w, newManifests("v2")...)
	if out.err != nil || len(out.replaced) != 4 || imageVersions(w) != "v2 v2 v2 v2" {
		t.Fatalf("replaced %v, versions %s: %v", out.replaced, imageVersions(w), out.err)
	}
	backups := listTemporaryFiles(w)
	if len(backups) != 4 {
		t.Fatalf("left are %v", backups)
	}
	for _, name := range backups {
		dir, file := path.Split(name)
		f := w.Files["/etc/kubernetes/tmp/"+name]
		component := strings.TrimSuffix(file, ".yaml")
		if !strings.HasPrefix(dir, "kubeadm-backup-manifests-") || f.Mode != 0o600 ||
			string(f.Data) != string(newManifest(component, "v1")) {
			t.Errorf("%s has mode %v and holds\n%s", name, f.Mode, f.Data)
		}
		if mode := w.Files["/etc/kubernetes/tmp/"+path.Clean(dir)].Mode; mode != fs.ModeDir|0o700 {
			t.Errorf("%s has mode %v", dir, mode)
		}
	}
	again := runReplace(t.Context(), w, newManifests("v2")...)
	if again.err != nil || len(again.did) > 0 || len(again.replaced) > 0 {
		t.Errorf("the second time: %v, did %v", again.err, again.targets())
	}
}

func TestEqualManifestIsNotReplaced(t *testing.T) {
	w := newMachine(t)
	text := "# comment\n" +
		strings.Replace(string(newManifest(scheduler, "v1")), "    command: [kube-scheduler]\n", "",
			1) +
		"    unknownField: 1\n    command: [kube-scheduler]\n"
	out := runReplace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: []byte(text)})
	if out.err != nil || len(out.did) > 0 || len(out.replaced) > 0 {
		t.Errorf("%v; did %v", out.err, out.targets())
	}
	same, err := staticpod.EqualManifests(newManifest(scheduler, "v1", "--a", "--b"),
		newManifest(scheduler, "v1", "--b", "--a"))
	if same || err != nil {
		t.Errorf("the order of arguments is no difference: %v", err)
	}
}

// Before etcd's manifest changes, kube-apiserver answers its requests: it gets its own delay in addition. The one that
// the kubelet starts meanwhile gets no time.
func TestAPIServerIsDrainedBeforeEtcd(t *testing.T) {
	w := newMachine(t)
	writeFile(t, w, "/etc/kubernetes/manifests/kube-apiserver.yaml",
		string(newManifest(apiserver, "v1", "--shutdown-delay-duration=10s")))
	w.Pods = []state.Sandbox{{ID: "1", Namespace: "kube-system", Component: apiserver},
		{ID: "2", Namespace: "kube-system", Component: etcdComponent}}
	out := runReplace(t.Context(), w, staticpod.Manifest{Component: etcdComponent, Data: newManifest(etcdComponent, "v2")})
	if out.err != nil {
		t.Fatal(out.err)
	}
	var did []string
	for _, c := range out.did {
		switch c := c.(type) {
		case change.RemoveContainers:
			did = append(did, fmt.Sprintf("%s %s", c.Component, c.GracePeriod))
		case change.WriteFile:
			if strings.HasSuffix(c.Path, "/manifests/etcd.yaml") {
				did = append(did, "manifest")
			}
		}
	}
	if len(did) < 3 || did[0] != "kube-apiserver 15s" || did[1] != "manifest" || !slices.Contains(did, "etcd 5s") {
		t.Errorf("did %q", did)
	}
}

func TestPrepareIsCalledForChangedManifests(t *testing.T) {
	w := newMachine(t)
	r := newReplacement()
	var prepared []string
	r.Prepare = func(_ context.Context, component string) error {
		if imageVersions(w) != "v1 v1 v1 v1" {
			t.Errorf("Prepare(%s) with versions %s", component, imageVersions(w))
		}
		prepared = append(prepared, component)
		return nil
	}
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	wanted := withArgument(newManifests("v1"), controllers, "v2", "--v=2")
	if _, err := r.Replace(t.Context(), e, wanted...); err != nil ||
		!slices.Equal(prepared, []string{controllers}) {
		t.Errorf("prepared %v: %v", prepared, err)
	}
}

func TestFailedComponentIsRolledBack(t *testing.T) {
	fields := map[string]string{
		etcdComponent: "etcd.local.extraArgs", apiserver: "apiServer.extraArgs",
		controllers: "controllerManager.extraArgs", scheduler: "scheduler.extraArgs",
	}
	for i, c := range components {
		t.Run(c.name, func(t *testing.T) {
			w := newMachine(t)
			w.PodLag = 2
			out := runReplace(t.Context(), w,
				withArgument(newManifests("v2"), c.name, "v2", "--bad")...)
			want := "v1 v1 v1 v1"
			if i > 0 {
				want = "v2 v1 v1 v1" // an etcd that was healthy with another image is kept
			}
			if out.err == nil || imageVersions(w) != want || len(out.replaced) > 0 {
				t.Fatalf("versions %s; replaced %v: %v", imageVersions(w), out.replaced, out.err)
			}
			text := out.err.Error()
			for _, want := range []string{
				"replacing the static Pod of " + c.name, "unknown flag: --bad",
				"the previous static Pods were restored: " + c.name,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %q", want, text)
				}
			}
			if i > 1 && !strings.Contains(text, ", "+apiserver) {
				t.Errorf("not all components are restored: %s", text)
			}
			if strings.Contains(text, "etcd keeps its new version") != (i > 0) {
				t.Errorf("etcd: %s", text)
			}
			hints := strings.Join(problem.Hints(out.err), "\n")
			if !strings.Contains(hints, "--bad in "+fields[c.name]) {
				t.Errorf("the hints are %q", hints)
			}
			if countRunning(t, w) != 4 {
				t.Error("not all components are running")
			}
			for _, name := range listTemporaryFiles(w) {
				if strings.Contains(name, "replacing") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// writeFile writes a file on the machine.
func writeFile(t *testing.T, w *fake.World, name, text string) {
	t.Helper()
	if err := w.Do(t.Context(),
		change.WriteFile{Path: name, Data: []byte(text), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
}

// countRunning returns how many components run with the manifests on disk.
func countRunning(t *testing.T, w *fake.World) (n int) {
	t.Helper()
	for range w.PodLag + 2 {
		n = 0
		containers, err := w.Containers(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			if c.Running && c.PodUID == fake.PodUID(w.Files["/etc/kubernetes/manifests/"+
				c.Component+".yaml"].Data) {
				n++
			}
		}
	}
	return n
}

// An etcd with the same image as before can be rolled back.
func TestEtcdOfSameVersionIsRolledBack(t *testing.T) {
	w := newMachine(t)
	wanted := withArgument(newManifests("v1"), etcdComponent, "v1", "--v=2")
	out := runReplace(t.Context(), w, withArgument(wanted, scheduler, "v1", "--bad")...)
	text := string(w.Files["/etc/kubernetes/manifests/etcd.yaml"].Data)
	if out.err == nil || strings.Contains(text, "--v=2") ||
		!strings.HasSuffix(out.err.Error(), "were restored: kube-scheduler, etcd") {
		t.Errorf("%v; etcd runs with\n%s", out.err, text)
	}
}

func TestFailedChangeIsRolledBack(t *testing.T) {
	w := newMachine(t)
	n := len(runReplace(t.Context(), w, newManifests("v2")...).did)
	for at := range n - 3 { // the last changes remove the records
		for _, after := range []bool{false, true} {
			w := newMachine(t)
			out := runReplace(t.Context(), &fault.World{World: w, At: at, After: after},
				newManifests("v2")...)
			// without etcd
			ends := strings.TrimPrefix(strings.TrimPrefix(imageVersions(w), "v1 "), "v2 ")
			if !errors.Is(out.err, fault.ErrInjected) || ends != "v1 v1 v1" ||
				countRunning(t, w) != 4 {
				t.Errorf("change %d (after it: %v) fails: %s, %v", at, after, imageVersions(w),
					out.err)
			}
		}
	}
}

func TestInterruptIsRolledBack(t *testing.T) {
	w := newMachine(t)
	w.PodLag = 1000
	ctx, interrupt := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by the user")
	in := &interruptingWorld{World: w, at: "/etc/kubernetes/manifests/kube-scheduler.yaml",
		interrupt: func() { interrupt(stop) }}
	out := runReplace(ctx, in,
		staticpod.Manifest{Component: scheduler, Data: newManifest(scheduler, "v2")})
	if !errors.Is(out.err, stop) || imageVersions(w) != "v1 v1 v1 v1" ||
		!strings.Contains(out.err.Error(), "were restored: kube-scheduler") {
		t.Errorf("%s: %v", imageVersions(w), out.err)
	}
}

// interruptingWorld interrupts the run when a file is written.
type interruptingWorld struct {
	world.World
	at        string
	interrupt func()
}

func (i *interruptingWorld) Do(ctx context.Context, c change.Change) error {
	err := i.World.Do(ctx, c)
	if c.Target() == change.FileTarget(i.at) {
		i.interrupt()
	}
	return err
}

func TestImagesArePulledFirst(t *testing.T) {
	w := newMachine(t)
	w.MissingImages = []string{"registry.example/kube-scheduler:v2"}
	out := runReplace(t.Context(), w, newManifests("v2")...)
	if out.err == nil || !strings.Contains(out.err.Error(), "kube-scheduler:v2") ||
		imageVersions(w) != "v1 v1 v1 v1" || len(listTemporaryFiles(w)) > 0 {
		t.Errorf("%s, left %v: %v", imageVersions(w), listTemporaryFiles(w), out.err)
	}
}

func TestReplaceRequiresHealthyKubelet(t *testing.T) {
	w := newMachine(t)
	if err := w.Do(t.Context(), change.SetService{Name: "kubelet"}); err != nil {
		t.Fatal(err)
	}
	out := runReplace(t.Context(), w, newManifests("v2")...)
	if out.err == nil || len(out.did) > 0 ||
		!strings.Contains(out.err.Error(), "the kubelet at http://127.0.0.1:10248/healthz") {
		t.Errorf("did %v: %v", out.targets(), out.err)
	}
}

// The kubelet keeps the Pod if both manifests are equal after it has set defaults.
func TestKeptPodIsAccepted(t *testing.T) {
	w := newMachine(t)
	w.PodLag = 1000
	text := string(newManifest(scheduler, "v1")) +
		"    terminationMessagePath: /dev/termination-log\n"
	out := runReplace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: []byte(text)})
	if out.err != nil || len(out.replaced) != 1 {
		t.Errorf("replaced %v: %v", out.replaced, out.err)
	}
	w = newMachine(t)
	w.PodLag = 1000
	out = runReplace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: newManifest(scheduler, "v2")})
	if out.err == nil ||
		!strings.Contains(out.err.Error(), "the container of another manifest is still running") {
		t.Errorf("other image: replaced %v: %v", out.replaced, out.err)
	}
}

func TestRollbackDoesNotWaitForUnhealthyComponent(t *testing.T) {
	w := newMachine(t)
	w.Files["/etc/kubernetes/manifests/kube-scheduler.yaml"] = memory.File{Data: newManifest(
		scheduler, "v1", "--worse"), Mode: 0o600, ModTime: w.Now()}
	out := runReplace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: newManifest(scheduler, "v2", "--bad")})
	if out.err == nil || !strings.Contains(out.err.Error(), "not healthy before") ||
		imageVersions(w) != "v1 v1 v1 v1" {
		t.Errorf("%s: %v", imageVersions(w), out.err)
	}
	out = runReplace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: newManifest(scheduler, "v2")})
	if out.err != nil || countRunning(t, w) != 4 {
		t.Errorf("fixed: %v", out.err)
	}
}

func TestOldBackupsAreRemoved(t *testing.T) {
	w := newMachine(t)
	for i := range 12 {
		dir := fmt.Sprintf("/etc/kubernetes/tmp/kubeadm-backup-manifests-2026-01-%02d-00-00-00",
			i+1)
		if err := w.Do(t.Context(),
			change.WriteFile{Path: dir + "/etcd.yaml", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, w, "/etc/kubernetes/tmp/kubeadm-backup-manifests-mine/etcd.yaml", "x")
	if out := runReplace(t.Context(), w, newManifests("v2")...); out.err != nil {
		t.Fatal(out.err)
	}
	dirs := map[string]bool{}
	for _, name := range listTemporaryFiles(w) {
		dirs[path.Dir(name)] = true
	}
	if len(dirs) != 11 || !dirs["kubeadm-backup-manifests-mine"] ||
		dirs["kubeadm-backup-manifests-2026-01-03-00-00-00"] ||
		!dirs["kubeadm-backup-manifests-2026-01-04-00-00-00"] {
		t.Errorf("left are %v", slices.Sorted(maps.Keys(dirs)))
	}
}

func TestInvalidManifestsAreRejected(t *testing.T) {
	w := newMachine(t)
	for name, data := range map[string][]byte{"no YAML": []byte("{"),
		"no Pod": []byte("kind: Pod\n")} {
		out := runReplace(t.Context(), w,
			staticpod.Manifest{Component: scheduler, Data: data})
		if out.err == nil || len(out.did) > 0 ||
			!strings.Contains(out.err.Error(), "reading the new manifest") {
			t.Errorf("%s: did %v, %v", name, out.targets(), out.err)
		}
	}
	w.Files["/etc/kubernetes/manifests/kube-scheduler.yaml"] = memory.File{Data: []byte("{"),
		Mode: 0o600}
	out := runReplace(t.Context(), w, newManifests("v2")...)
	if out.err == nil || len(out.did) > 0 ||
		!strings.Contains(out.err.Error(), "/etc/kubernetes/manifests/kube-scheduler.yaml") {
		t.Errorf("did %v, %v", out.targets(), out.err)
	}
}

// An older etcd may refuse the data of a newer one that served requests for some seconds.
func TestFailedEtcdRollbackNamesSnapshot(t *testing.T) {
	w := newMachine(t)
	const dir = "/etc/kubernetes/tmp/kubeadm-backup-etcd-2026-01-01-00-00-00"
	writeFile(t, w, dir+"/snapshot.db", "snapshot")
	upgraded := false
	w.CrashLog = func(component string, manifest []byte) string {
		upgraded = upgraded || strings.Contains(string(manifest), "etcd:v2")
		switch {
		case component != etcdComponent || !upgraded:
			return ""
		case strings.Contains(string(manifest), "--bad"):
			return "unknown flag: --bad"
		}
		return `{"level":"fatal","error":"version \"3.7.0\" is not supported"}`
	}
	out := runReplace(t.Context(), w, staticpod.Manifest{
		Component: etcdComponent, Data: newManifest(etcdComponent, "v2", "--bad"),
	})
	if out.err == nil ||
		!strings.Contains(out.err.Error(), "restoring the previous static Pod of etcd") ||
		!strings.Contains(out.err.Error(), "is not supported") ||
		!strings.Contains(imageVersions(w), "v1 v1 v1 v1") {
		t.Errorf("%s: %v", imageVersions(w), out.err)
	}
	if hints := strings.Join(problem.Hints(out.err), "\n"); !strings.Contains(hints,
		dir+"/snapshot.db") {
		t.Errorf("the hints are %s", hints)
	}
}
