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
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

func TestReplaceWritesAllManifestsAndKeepsBackups(t *testing.T) {
	w := controlPlane(t)
	w.PodLag = 3
	out := replace(t.Context(), w, all("v2")...)
	if out.err != nil || len(out.replaced) != 4 || versions(w) != "v2 v2 v2 v2" {
		t.Fatalf("replaced %v, versions %s: %v", out.replaced, versions(w), out.err)
	}
	backups := left(w)
	if len(backups) != 4 {
		t.Fatalf("left are %v", backups)
	}
	for _, name := range backups {
		dir, file := path.Split(name)
		f := w.Files["/etc/kubernetes/tmp/"+name]
		component := strings.TrimSuffix(file, ".yaml")
		if !strings.HasPrefix(dir, "kubeadm-backup-manifests-") || f.Mode != 0o600 ||
			string(f.Data) != string(manifestOf(component, "v1")) {
			t.Errorf("%s has mode %v and holds\n%s", name, f.Mode, f.Data)
		}
		if mode := w.Files["/etc/kubernetes/tmp/"+path.Clean(dir)].Mode; mode != fs.ModeDir|0o700 {
			t.Errorf("%s has mode %v", dir, mode)
		}
	}
	again := replace(t.Context(), w, all("v2")...)
	if again.err != nil || len(again.did) > 0 || len(again.replaced) > 0 {
		t.Errorf("the second time: %v, did %v", again.err, again.targets())
	}
}

func TestCommentsAndOrderOfKeysAreNoDifference(t *testing.T) {
	w := controlPlane(t)
	text := "# by hand\n" +
		strings.Replace(string(manifestOf(scheduler, "v1")), "    command: [kube-scheduler]\n", "",
			1) +
		"    unknownField: 1\n    command: [kube-scheduler]\n"
	out := replace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: []byte(text)})
	if out.err != nil || len(out.did) > 0 || len(out.replaced) > 0 {
		t.Errorf("%v; did %v", out.err, out.targets())
	}
	same, err := staticpod.EqualManifests(manifestOf(scheduler, "v1", "--a", "--b"),
		manifestOf(scheduler, "v1", "--b", "--a"))
	if same || err != nil {
		t.Errorf("the order of arguments is no difference: %v", err)
	}
}

func TestPrepareIsCalledForWhatIsReplacedOnly(t *testing.T) {
	w := controlPlane(t)
	r := replacement()
	var prepared []string
	r.Prepare = func(_ context.Context, component string) error {
		if versions(w) != "v1 v1 v1 v1" {
			t.Errorf("%s is prepared while the manifests are %s", component, versions(w))
		}
		prepared = append(prepared, component)
		return nil
	}
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	wanted := withArgument(all("v1"), controllers, "v2", "--v=2")
	if _, err := r.Replace(t.Context(), e, wanted...); err != nil ||
		!slices.Equal(prepared, []string{controllers}) {
		t.Errorf("prepared %v: %v", prepared, err)
	}
}

func TestFailingComponentPutsAllBack(t *testing.T) {
	fields := map[string]string{
		etcdComponent: "etcd.local.extraArgs", apiserver: "apiServer.extraArgs",
		controllers: "controllerManager.extraArgs", scheduler: "scheduler.extraArgs",
	}
	for i, c := range components {
		t.Run(c.name, func(t *testing.T) {
			w := controlPlane(t)
			w.PodLag = 2
			out := replace(t.Context(), w,
				withArgument(all("v2"), c.name, "v2", "--bad")...)
			want := "v1 v1 v1 v1"
			if i > 0 {
				want = "v2 v1 v1 v1" // an etcd that served by another image stays
			}
			if out.err == nil || versions(w) != want || len(out.replaced) > 0 {
				t.Fatalf("versions %s; replaced %v: %v", versions(w), out.replaced, out.err)
			}
			text := out.err.Error()
			for _, want := range []string{
				"replacing the static Pod of " + c.name, "unknown flag: --bad",
				"the previous manifest is back and serves again for: " + c.name,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %q", want, text)
				}
			}
			if i > 1 && !strings.Contains(text, ", "+apiserver) {
				t.Errorf("not all that was replaced is back: %s", text)
			}
			if strings.Contains(text, "etcd stays at its new version") != (i > 0) {
				t.Errorf("what becomes of etcd: %s", text)
			}
			hints := strings.Join(problem.Hints(out.err), "\n")
			if !strings.Contains(hints, "--bad in "+fields[c.name]) {
				t.Errorf("the hints are %q", hints)
			}
			if running(t, w) != 4 {
				t.Error("not all components run")
			}
			for _, name := range left(w) {
				if strings.Contains(name, "replacing") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// have puts a file on the machine.
func have(t *testing.T, w *fake.World, name, text string) {
	t.Helper()
	if err := w.Do(t.Context(),
		change.WriteFile{Path: name, Data: []byte(text), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
}

// running is how many components run by the manifests on disk.
func running(t *testing.T, w *fake.World) (n int) {
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

// An etcd that runs from the same image as before can go back.
func TestEtcdOfTheSameVersionGoesBack(t *testing.T) {
	w := controlPlane(t)
	wanted := withArgument(all("v1"), etcdComponent, "v1", "--v=2")
	out := replace(t.Context(), w, withArgument(wanted, scheduler, "v1", "--bad")...)
	text := string(w.Files["/etc/kubernetes/manifests/etcd.yaml"].Data)
	if out.err == nil || strings.Contains(text, "--v=2") ||
		!strings.HasSuffix(out.err.Error(), "serves again for: kube-scheduler, etcd") {
		t.Errorf("%v; etcd runs by\n%s", out.err, text)
	}
}

func TestFailedChangePutsAllBack(t *testing.T) {
	w := controlPlane(t)
	n := len(replace(t.Context(), w, all("v2")...).did)
	for at := range n - 3 { // at last the records are removed
		for _, after := range []bool{false, true} {
			w := controlPlane(t)
			out := replace(t.Context(), &fault.World{World: w, At: at, After: after},
				all("v2")...)
			// without etcd
			ends := strings.TrimPrefix(strings.TrimPrefix(versions(w), "v1 "), "v2 ")
			if !errors.Is(out.err, fault.ErrInjected) || ends != "v1 v1 v1" || running(t, w) != 4 {
				t.Errorf("change %d (after it: %v) fails: %s, %v", at, after, versions(w), out.err)
			}
		}
	}
}

func TestInterruptPutsAllBack(t *testing.T) {
	w := controlPlane(t)
	w.PodLag = 1000
	ctx, interrupt := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by the user")
	in := &interrupting{World: w, at: "/etc/kubernetes/manifests/kube-scheduler.yaml",
		interrupt: func() { interrupt(stop) }}
	out := replace(ctx, in,
		staticpod.Manifest{Component: scheduler, Data: manifestOf(scheduler, "v2")})
	if !errors.Is(out.err, stop) || versions(w) != "v1 v1 v1 v1" ||
		!strings.Contains(out.err.Error(), "is back and serves again for: kube-scheduler") {
		t.Errorf("%s: %v", versions(w), out.err)
	}
}

// interrupting interrupts once a file is written.
type interrupting struct {
	world.World
	at        string
	interrupt func()
}

func (i *interrupting) Do(ctx context.Context, c change.Change) error {
	err := i.World.Do(ctx, c)
	if c.Target() == change.FileTarget(i.at) {
		i.interrupt()
	}
	return err
}

func TestNothingIsReplacedBeforeAllImagesAreThere(t *testing.T) {
	w := controlPlane(t)
	w.MissingImages = []string{"registry.example/kube-scheduler:v2"}
	out := replace(t.Context(), w, all("v2")...)
	if out.err == nil || !strings.Contains(out.err.Error(), "kube-scheduler:v2") ||
		versions(w) != "v1 v1 v1 v1" || len(left(w)) > 0 {
		t.Errorf("%s, left %v: %v", versions(w), left(w), out.err)
	}
}

func TestNothingIsReplacedWithoutAKubelet(t *testing.T) {
	w := controlPlane(t)
	if err := w.Do(t.Context(), change.SetService{Name: "kubelet"}); err != nil {
		t.Fatal(err)
	}
	out := replace(t.Context(), w, all("v2")...)
	if out.err == nil || len(out.did) > 0 ||
		!strings.Contains(out.err.Error(), "the kubelet at http://127.0.0.1:10248/healthz") {
		t.Errorf("did %v: %v", out.targets(), out.err)
	}
}

// A kubelet that keeps the Pod, since to it both manifests are the same, is not waited for until
// the time limit.
func TestPodThatTheKubeletKeepsIsAccepted(t *testing.T) {
	w := controlPlane(t)
	w.PodLag = 1000
	text := string(manifestOf(scheduler, "v1")) +
		"    terminationMessagePath: /dev/termination-log\n"
	out := replace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: []byte(text)})
	if out.err != nil || len(out.replaced) != 1 {
		t.Errorf("replaced %v: %v", out.replaced, out.err)
	}
	w = controlPlane(t)
	w.PodLag = 1000
	out = replace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: manifestOf(scheduler, "v2")})
	if out.err == nil ||
		!strings.Contains(out.err.Error(), "the container of another manifest still runs") {
		t.Errorf("of another image: replaced %v: %v", out.replaced, out.err)
	}
}

func TestComponentThatDidNotServeBeforeIsNotWaitedFor(t *testing.T) {
	w := controlPlane(t)
	w.Files["/etc/kubernetes/manifests/kube-scheduler.yaml"] = memory.File{Data: manifestOf(
		scheduler, "v1", "--worse"), Mode: 0o600, ModTime: w.Now()}
	out := replace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: manifestOf(scheduler, "v2", "--bad")})
	if out.err == nil || !strings.Contains(out.err.Error(), "did not serve before") ||
		versions(w) != "v1 v1 v1 v1" {
		t.Errorf("%s: %v", versions(w), out.err)
	}
	out = replace(t.Context(), w,
		staticpod.Manifest{Component: scheduler, Data: manifestOf(scheduler, "v2")})
	if out.err != nil || running(t, w) != 4 {
		t.Errorf("corrected: %v", out.err)
	}
}

func TestOldBackupsAreRemoved(t *testing.T) {
	w := controlPlane(t)
	for i := range 12 {
		dir := fmt.Sprintf("/etc/kubernetes/tmp/kubeadm-backup-manifests-2026-01-%02d-00-00-00",
			i+1)
		if err := w.Do(t.Context(),
			change.WriteFile{Path: dir + "/etcd.yaml", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Do(t.Context(),
		change.WriteFile{Path: "/etc/kubernetes/tmp/kubeadm-backup-manifests-mine/etcd.yaml"}); err != nil {
		t.Fatal(err)
	}
	if out := replace(t.Context(), w, all("v2")...); out.err != nil {
		t.Fatal(out.err)
	}
	dirs := map[string]bool{}
	for _, name := range left(w) {
		dirs[path.Dir(name)] = true
	}
	if len(dirs) != 11 || !dirs["kubeadm-backup-manifests-mine"] ||
		dirs["kubeadm-backup-manifests-2026-01-03-00-00-00"] ||
		!dirs["kubeadm-backup-manifests-2026-01-04-00-00-00"] {
		t.Errorf("left are %v", slices.Sorted(maps.Keys(dirs)))
	}
}

func TestBrokenManifestsAreRefused(t *testing.T) {
	w := controlPlane(t)
	for name, data := range map[string][]byte{"no YAML": []byte("{"),
		"no Pod": []byte("kind: Pod\n")} {
		out := replace(t.Context(), w,
			staticpod.Manifest{Component: scheduler, Data: data})
		if out.err == nil || len(out.did) > 0 ||
			!strings.Contains(out.err.Error(), "reading the new manifest") {
			t.Errorf("%s: did %v, %v", name, out.targets(), out.err)
		}
	}
	w.Files["/etc/kubernetes/manifests/kube-scheduler.yaml"] = memory.File{Data: []byte("{"),
		Mode: 0o600}
	out := replace(t.Context(), w, all("v2")...)
	if out.err == nil || len(out.did) > 0 ||
		!strings.Contains(out.err.Error(), "/etc/kubernetes/manifests/kube-scheduler.yaml") {
		t.Errorf("did %v, %v", out.targets(), out.err)
	}
}

// An older etcd may refuse the data of a newer one that has served for some seconds.
func TestEtcdThatCannotGoBackNamesTheSnapshot(t *testing.T) {
	w := controlPlane(t)
	const dir = "/etc/kubernetes/tmp/kubeadm-backup-etcd-2026-01-01-00-00-00"
	have(t, w, dir+"/snapshot.db", "snapshot")
	raised := false
	w.CrashLog = func(component string, manifest []byte) string {
		raised = raised || strings.Contains(string(manifest), "etcd:v2")
		switch {
		case component != etcdComponent || !raised:
			return ""
		case strings.Contains(string(manifest), "--bad"):
			return "unknown flag: --bad"
		}
		return `{"level":"fatal","msg":"discovery failed","error":"version \"3.7.0\" is not supported"}`
	}
	out := replace(t.Context(), w, staticpod.Manifest{
		Component: etcdComponent, Data: manifestOf(etcdComponent, "v2", "--bad"),
	})
	if out.err == nil || !strings.Contains(out.err.Error(), "etcd does not serve again") ||
		!strings.Contains(out.err.Error(), "is not supported") ||
		!strings.Contains(versions(w), "v1 v1 v1 v1") {
		t.Errorf("%s: %v", versions(w), out.err)
	}
	if hints := strings.Join(problem.Hints(out.err), "\n"); !strings.Contains(hints,
		dir+"/snapshot.db") {
		t.Errorf("the hints are %s", hints)
	}
}
