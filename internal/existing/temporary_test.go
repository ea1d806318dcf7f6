package existing_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// cutText is what rand.Text returned in a run that was killed.
const cutText = "ABCDEFGHIJKLMNOPQRSTUVWX27"

// Only regular files with exactly the name of a temporary file of kubeadm are removed, and only where kubeadm writes.
func TestRemoveTemporary(t *testing.T) {
	w := fake.New()
	put := func(name string, mode fs.FileMode) string {
		t.Helper()
		if err := w.PutFile(name, memory.File{Data: []byte("partial"), Mode: mode}); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var removed, kept []string
	for _, file := range []string{"/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/admin.conf",
		"/etc/kubernetes/pki/ca.key", "/etc/kubernetes/pki/etcd/peer.crt", "/etc/kubernetes/pki/ca-rotation/signing.key",
		"/etc/kubernetes/tmp/kubeadm-journal/replacing-etcd.json", "/var/lib/kubelet/config.yaml", "/etc/default/kubelet",
		"/etc/kubernetes/tmp/kubeadm-backup-manifests-2026-01-02-03-04-05/etcd.yaml"} {
		dir, base := file[:strings.LastIndex(file, "/")+1], file[strings.LastIndex(file, "/")+1:]
		removed = append(removed, put(dir+change.TemporaryName(base, cutText), 0o600))
		kept = append(kept, put(file, 0o600), put(dir+change.TemporaryName(base, cutText)+"x", 0o600),
			put(dir+change.TemporaryName(base, strings.ToLower(cutText)), 0o600),
			put(dir+base+".kubeadm-"+cutText, 0o600))
	}
	link := "/var/lib/kubelet/pki/" + change.TemporaryName("kubelet-client-current.pem", cutText)
	target := put("/var/lib/kubelet/pki/kubelet-client-2026-01-02-03-04-05.pem", 0o600)
	if err := w.PutFile(link, memory.File{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}); err != nil {
		t.Fatal(err)
	}
	removed = append(removed, link)
	kept = append(kept, target, put("/etc/default/"+change.TemporaryName("grub", cutText), 0o600),
		put("/etc/kubernetes/pki/"+change.TemporaryName("dir", cutText)+"/mine", 0o600),
		put("/etc/kubernetes/tmp/mine/"+change.TemporaryName("etcd.yaml", cutText), 0o600))
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	existing.RemoveTemporary(t.Context(), e, node.DefaultPaths())
	for name, want := range map[string][]string{"is left": removed, "was removed": kept} {
		for _, file := range want {
			if _, there := w.Files[file]; there == slices.Contains(removed, file) {
				t.Errorf("%s %s", file, name)
			}
		}
	}
}

// Without root privileges there is no lock, so another run may be writing.
func TestRemoveTemporaryNeedsRoot(t *testing.T) {
	w := fake.New()
	w.Info.UserID = 1000
	file := "/etc/kubernetes/" + change.TemporaryName("admin.conf", cutText)
	if err := w.PutFile(file, memory.File{Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	existing.RemoveTemporary(t.Context(), e, node.DefaultPaths())
	if _, there := w.Files[file]; !there {
		t.Error("the file was removed")
	}
}

// What cannot be read or removed is a warning, and the other files are removed.
func TestRemoveTemporaryContinues(t *testing.T) {
	files := []string{"/etc/kubernetes/" + change.TemporaryName("admin.conf", cutText),
		"/etc/kubernetes/" + change.TemporaryName("super-admin.conf", cutText),
		"/etc/kubernetes/manifests/" + change.TemporaryName("etcd.yaml", cutText)}
	newWorld := func() *fake.World {
		w := fake.New()
		for _, file := range files {
			if err := w.PutFile(file, memory.File{Mode: 0o600}); err != nil {
				t.Fatal(err)
			}
		}
		return w
	}
	failure := errors.New("input/output error")
	machine := newWorld()
	for name, c := range map[string]struct {
		world world.World
		of    *fake.World
		says  string
		left  int
	}{
		"a directory": {&fault.Reads{World: machine, At: 2, Err: failure}, machine, "looking for temporary files of interrupted runs: ", 2},
		"a file":      {nil, newWorld(), "once that is possible, remove it: rm /etc/kubernetes/.admin.conf.kubeadm-", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if c.world == nil {
				c.world = &fault.World{World: c.of}
			}
			var said []string
			e := engine.New(engine.Env{World: c.world, Emit: func(ev engine.Event) {
				if ev.Kind == engine.Warned {
					said = append(said, ev.Text)
				}
			}})
			existing.RemoveTemporary(t.Context(), e, node.DefaultPaths())
			if len(said) != 1 || !strings.Contains(said[0], c.says) {
				t.Errorf("it warns of %q", said)
			}
			left := slices.DeleteFunc(slices.Clone(files), func(file string) bool { _, there := c.of.Files[file]; return !there })
			if len(left) != c.left {
				t.Errorf("left are %v", left)
			}
		})
	}
}
