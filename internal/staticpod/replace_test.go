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
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

const (
	apiserver, controllers, scheduler = "kube-apiserver", "kube-controller-manager",
		"kube-scheduler"
	etcdComponent = "etcd"
)

// components in the order in which they are replaced, with the port and path of their probes.
var components = []struct{ name, port, path string }{
	{etcdComponent, "2381", "/readyz"}, {apiserver, "6443", "/livez"},
	{controllers, "10257", "/healthz"}, {scheduler, "10259", "/livez"},
}

// manifestOf is the static Pod of a component in some version, with arguments.
func manifestOf(component, version string, args ...string) []byte {
	var port, probe string
	for _, c := range components {
		if c.name == component {
			port, probe = c.port, c.path
		}
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: kube-system
  labels: {component: %[1]s, tier: control-plane}
spec:
  containers:
  - name: %[1]s
    image: registry.example/%[1]s:%[2]s
    command: [%[1]s]
    args: [%[5]s]
    ports: [{name: probe-port, containerPort: %[3]s}]
    startupProbe: {httpGet: {host: 127.0.0.1, path: %[4]s, port: probe-port, scheme: HTTPS}}
`, component, version, port, probe, strings.Join(args, ", "))
	return []byte(text)
}

// controlPlane is a machine whose control plane runs version v1.
func controlPlane(t *testing.T) *fake.World {
	t.Helper()
	w := fake.New()
	w.Clock = seconds(w.Now())
	changes := []change.Change{
		change.WriteFile{Path: "/etc/kubernetes/kubelet.conf"},
		change.WriteFile{Path: "/etc/kubernetes/admin.conf"},
		change.WriteFile{Path: "/var/lib/kubelet/config.yaml"},
		change.SetService{Name: "kubelet", Active: true},
	}
	for _, c := range components {
		changes = append(changes, change.WriteFile{
			Path: "/etc/kubernetes/manifests/" + c.name + ".yaml", Data: manifestOf(c.name, "v1"),
			Mode: 0o600,
		})
	}
	for _, c := range changes {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Containers(t.Context(), ""); err != nil { // the kubelet starts the Pods
		t.Fatal(err)
	}
	w.CrashLog = func(_ string, manifest []byte) string {
		for _, arg := range []string{"--bad", "--worse"} {
			if strings.Contains(string(manifest), arg) {
				return "Error: unknown flag: " + arg
			}
		}
		return ""
	}
	return w
}

// seconds is a clock that goes on by a second at each look.
func seconds(from time.Time) func() time.Time {
	tick := memory.Ticking(time.Time{})
	return func() time.Time { return from.Add(tick().Sub(time.Time{}) * 1000) }
}

// outcome is what a run has said and changed.
type outcome struct {
	replaced []string
	err      error
	did      []change.Change
	said     []string
}

func (o outcome) targets() []string {
	var all []string
	for _, c := range o.did {
		all = append(all, c.Target())
	}
	return all
}

// replace runs a replacement in a world, with the values of earlier, unfinished runs.
func replace(ctx context.Context, in world.World,
	wanted ...staticpod.Manifest) (out outcome) {
	e := flow.New(flow.Env{
		World: in,
		Emit: func(ev flow.Event) {
			switch ev.Kind {
			case flow.Did:
				out.did = append(out.did, ev.Change)
			case flow.Said, flow.Warned:
				out.said = append(out.said, ev.Text)
			}
		},
	})
	out.replaced, out.err = replacement().Replace(ctx, e, wanted...)
	return out
}

func replacement() staticpod.Replacement {
	n := &node.Node{Local: node.Local{
		Name: "cp1", Role: node.ControlPlane, Address: "192.0.2.10", BindPort: 6443,
		Paths:     node.DefaultPaths(),
		CRISocket: "unix:///var/run/containerd/containerd.sock",
	}}
	n.Timeouts.Upgrade, n.Timeouts.Kubelet = time.Minute, time.Minute
	return staticpod.Replacement{Node: n, As: state.Identity{Server: n.LocalServer()}}
}

// all are manifests of every component in a version.
func all(version string) []staticpod.Manifest {
	var wanted []staticpod.Manifest
	for _, c := range components {
		wanted = append(wanted,
			staticpod.Manifest{Component: c.name, Data: manifestOf(c.name, version)})
	}
	return wanted
}

// withArgument is the same with an argument for one component.
func withArgument(wanted []staticpod.Manifest, component, version,
	arg string) []staticpod.Manifest {
	wanted = slices.Clone(wanted)
	for i, m := range wanted {
		if m.Component == component {
			wanted[i].Data = manifestOf(component, version, arg)
		}
	}
	return wanted
}

// versions are the images that the manifests on disk name, without what is the same in all.
func versions(w *fake.World) string {
	var found []string
	for _, c := range components {
		text := string(w.Files["/etc/kubernetes/manifests/"+c.name+".yaml"].Data)
		_, rest, _ := strings.Cut(text, c.name+":v")
		version, _, _ := strings.Cut(rest, "\n")
		found = append(found, "v"+version)
	}
	return strings.Join(found, " ")
}

// left are the files below /etc/kubernetes/tmp, without directories.
func left(w *fake.World) []string {
	var names []string
	for name, f := range w.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/tmp/") && !f.Mode.IsDir() {
			names = append(names, strings.TrimPrefix(name, "/etc/kubernetes/tmp/"))
		}
	}
	slices.Sort(names)
	return names
}

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
	e := flow.New(flow.Env{World: w, Emit: func(flow.Event) {}})
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
	w.Unpullable = []string{"registry.example/kube-scheduler:v2"}
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
