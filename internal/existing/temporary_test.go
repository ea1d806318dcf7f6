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
	kept = append(kept, put("/etc/default/"+change.TemporaryName("grub", cutText), 0o600),
		put("/etc/kubernetes/manifests/"+change.TemporaryName("link", cutText), fs.ModeSymlink|0o777),
		put("/etc/kubernetes/pki/"+change.TemporaryName("dir", cutText)+"/mine", 0o600),
		put("/etc/kubernetes/tmp/mine/"+change.TemporaryName("etcd.yaml", cutText), 0o600))
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	if err := existing.RemoveTemporary(t.Context(), e, node.DefaultPaths()); err != nil {
		t.Fatal(err)
	}
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
	if err := existing.RemoveTemporary(t.Context(), e, node.DefaultPaths()); err != nil {
		t.Error(err)
	}
	if _, there := w.Files[file]; !there {
		t.Error("the file was removed")
	}
}

// A directory that cannot be read is not one without temporary files.
func TestRemoveTemporaryReportsUnreadDirectory(t *testing.T) {
	failure := errors.New("input/output error")
	e := engine.New(engine.Env{World: &fault.Reads{World: fake.New(), At: 1, Err: failure}, Emit: func(engine.Event) {}})
	err := existing.RemoveTemporary(t.Context(), e, node.DefaultPaths())
	if !errors.Is(err, failure) || !strings.Contains(err.Error(), "temporary files of interrupted runs") {
		t.Errorf("got %v", err)
	}
}
