package sharedcerts_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const (
	policy = "/srv/audit/policy.yaml"
	config = "/etc/kubernetes/scheduler/config.yaml"
)

// travel has two control plane nodes of a cluster whose arguments name two files.
type travel struct {
	first, second *fake.World
	n             *node.Node
	said          []string // "warning: …" or what the node says otherwise
	resumes       bool     // an earlier run on the second node has written its files
}

func newTravel(t *testing.T) *travel {
	t.Helper()
	w, _, n := newUpload(t, func(map[string]string) {})
	n.Address, n.BindPort = "192.0.2.10", 6443
	n.Cluster.Version, n.Cluster.ServiceSubnet, n.Cluster.Etcd.DataDir = "v1.37.1", "10.96.0.0/12", "/var/lib/etcd"
	n.Cluster.APIServer = node.Component{
		Args: []node.Arg{{Name: "audit-policy-file", Value: "/audit/policy.yaml"},
			{Name: "kubelet-certificate-authority", Value: "/etc/kubernetes/pki/ca.crt"},
			{Name: "oidc-ca-file", Value: "/etc/ssl/certs/ca-certificates.crt"}},
		Volumes: []node.Volume{{Name: "audit", HostPath: "/srv/audit", MountPath: "/audit"}},
	}
	n.Cluster.Scheduler = node.Component{Args: []node.Arg{{Name: "config", Value: config}},
		Volumes: []node.Volume{{Name: "config", HostPath: config, MountPath: config, PathType: corev1.HostPathFile}}}
	w.Files[policy] = memory.File{Data: []byte("a policy"), Mode: 0o640, UID: 7, GID: 8}
	w.Files[config] = memory.File{Data: []byte("a config"), Mode: 0o600}
	w.Files["/etc/ssl/certs/ca-certificates.crt"] = memory.File{Data: []byte("CAs"), Mode: 0o644}
	return &travel{first: w, second: fake.New(), n: n}
}

func (r *travel) env(w world.World) *engine.Env {
	e := newEnv(w, r.n.Local)
	e.Emit = func(ev engine.Event) {
		if ev.Kind == engine.Warned {
			r.said = append(r.said, "warning: "+ev.Text)
		} else if ev.Kind == engine.Info {
			r.said = append(r.said, ev.Text)
		}
	}
	return e
}

func (r *travel) upload(t *testing.T) {
	t.Helper()
	must(t, sharedcerts.UploadFiles(t.Context(), r.env(r.first), r.n, state.Identity{}))
}

// download runs on the second node, as in a join or with replaces as in "reconfigure node".
func (r *travel) download(t *testing.T, replaces bool) error {
	t.Helper()
	r.second.RemoteAPIServer = true
	maps.Copy(r.second.Objects, r.first.Objects)
	var w world.World = r.second
	if r.resumes {
		w = resumed{r.second}
	}
	return sharedcerts.DownloadFiles(t.Context(), r.env(w), r.n, newDownload(replaces))
}

func newDownload(replaces bool) sharedcerts.FilesDownload {
	return sharedcerts.FilesDownload{
		Read: func(ctx context.Context, e *engine.Env, ref state.Ref) (*unstructured.Unstructured, error) {
			return e.World.Object(ctx, ref)
		}, Remedy: "upload it again", Replaces: replaces}
}

// resumed is a machine on which an earlier run of the command has written all files.
type resumed struct{ *fake.World }

func (resumed) WasCreated(string) bool { return true }

// edit edits the encrypted files in the Secret.
func (r *travel) edit(t *testing.T, edit func(data map[string]any)) {
	t.Helper()
	for k, o := range r.first.Objects {
		if k.Name == manifest.FilesSecret && k.Kind.Kind == "Secret" {
			edit(o.Object["data"].(map[string]any))
		}
	}
}

// put encrypts a file into the Secret.
func (r *travel) put(t *testing.T, name, plain string) {
	t.Helper()
	key, err := pki.ParseCertificateKey(r.n.CertificateKey)
	must(t, err)
	encrypted, err := key.Encrypt(rand.Reader, []byte(plain))
	must(t, err)
	r.edit(t, func(data map[string]any) { data[name] = base64.StdEncoding.EncodeToString(encrypted) })
}

func (r *travel) mustSay(t *testing.T, parts ...string) {
	t.Helper()
	all := strings.Join(r.said, "\n")
	for _, part := range parts {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not said:\n%s", part, all)
		}
	}
}

func TestArgumentFilesTravel(t *testing.T) {
	r := newTravel(t)
	r.upload(t)
	u, err := r.first.Object(t.Context(), state.RefOf(manifest.NewFilesSecret(nil, &corev1.Secret{}), state.Identity{}))
	must(t, err)
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	if names := slices.Sorted(maps.Keys(data)); !slices.Equal(names, []string{"file-0", "file-1"}) {
		t.Errorf("the Secret has %q", names)
	}
	for _, value := range data {
		raw, err := base64.StdEncoding.DecodeString(value)
		must(t, err)
		if bytes.Contains(raw, []byte("policy")) || bytes.Contains(raw, []byte("config")) {
			t.Errorf("the Secret shows %q", raw)
		}
	}
	before := fmt.Sprint(data)
	r.upload(t) // as a run that resumes
	if u, err = r.first.Object(t.Context(), state.RefOf(manifest.NewFilesSecret(nil, &corev1.Secret{}), state.Identity{})); err == nil {
		data, _, _ = unstructured.NestedStringMap(u.Object, "data")
	}
	if fmt.Sprint(data) != before || err != nil {
		t.Errorf("a repeated upload has changed the Secret: %v", err)
	}
	must(t, r.download(t, false))
	for file, dir := range map[string]string{policy: "/srv/audit", config: "/etc/kubernetes/scheduler"} {
		if diff := fmt.Sprint(string(r.second.Files[file].Data), r.second.Files[file].Mode, r.second.Files[file].UID,
			r.second.Files[file].GID); diff != fmt.Sprint(string(r.first.Files[file].Data), r.first.Files[file].Mode,
			r.first.Files[file].UID, r.first.Files[file].GID) {
			t.Errorf("%s is %s", file, diff)
		}
		if got := r.second.Files[dir]; got.Mode != fs.ModeDir|0o700 || got.UID != 0 {
			t.Errorf("%s has mode %v", dir, got.Mode)
		}
	}
	for _, file := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/kubernetes/pki/ca.crt"} {
		if _, found := r.second.Files[file]; found {
			t.Errorf("%s is written", file)
		}
	}
	r.said = nil
	must(t, r.download(t, false))
	if len(r.said) > 0 {
		t.Errorf("with all files it says %q", r.said)
	}
}

// A join keeps a file that differs. A node that follows a change replaces it, once, and keeps a copy with the same
// owner, which other users cannot read.
func TestDifferentArgumentFile(t *testing.T) {
	r := newTravel(t)
	r.upload(t)
	edited := memory.File{Data: []byte("edited"), Mode: 0o604, UID: 3,
		ModTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	r.second.Files[policy] = edited
	must(t, r.download(t, false))
	if got := r.second.Files[policy]; string(got.Data) != "edited" {
		t.Errorf("the file is %q", got.Data)
	}
	r.mustSay(t, "warning: "+policy+" (kube-apiserver --audit-policy-file) is kept",
		"kube-apiserver starts with this machine's own file", "then restart kube-apiserver")
	for range 2 {
		must(t, r.download(t, true))
	}
	if got := r.second.Files[policy]; string(got.Data) != "a policy" || got.Mode != 0o604 || got.UID != 3 {
		t.Errorf("the file is %q with mode %v, user %d", got.Data, got.Mode, got.UID)
	}
	copied := policy + ".kubeadm-2026-01-02-03-04-05"
	if got := r.second.Files[copied]; string(got.Data) != "edited" || got.Mode != 0o600 || got.UID != 3 {
		t.Errorf("the copy is %q with mode %v, user %d", got.Data, got.Mode, got.UID)
	}
	r.mustSay(t, "is replaced, and the previous file is kept as "+copied+"; kube-apiserver reads it when it starts")
	r.second.Files[config] = memory.File{Data: []byte("edited"), Mode: 0o600}
	must(t, r.download(t, true))
	r.mustSay(t, "; kube-scheduler reads it when it starts")
	r.second.Files[policy] = memory.File{Data: []byte("edited again"), Mode: 0o600, ModTime: edited.ModTime}
	must(t, r.download(t, true))
	if got := r.second.Files[policy+".kubeadm-2026-01-02-03-04-06"]; string(got.Data) != "edited again" ||
		string(r.second.Files[copied].Data) != "edited" {
		t.Errorf("the second copy is %q", got.Data)
	}
}

// A run that is resumed writes a file again that was uploaded once more, but keeps the owner and mode that the user
// has given it meanwhile.
func TestArgumentFileOfResumedRun(t *testing.T) {
	r := newTravel(t)
	r.upload(t)
	must(t, r.download(t, false))
	r.second.Files[policy] = memory.File{Data: []byte("a policy"), Mode: 0o644, UID: 5, GID: 6}
	r.first.Files[policy] = memory.File{Data: []byte("a newer policy"), Mode: 0o600}
	r.upload(t)
	r.resumes = true
	must(t, r.download(t, false))
	if got := r.second.Files[policy]; string(got.Data) != "a newer policy" || got.Mode != 0o644 || got.UID != 5 || got.GID != 6 {
		t.Errorf("the file is %q with mode %v, owner %d:%d", got.Data, got.Mode, got.UID, got.GID)
	}
}

// A Secret that cannot be used is a warning if all files are there, and names each file that is missing otherwise.
func TestUnusableArgumentFiles(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(t *testing.T, r *travel)
		said    string
		missing string // empty if only the policy is
	}{
		"another key": {func(_ *testing.T, r *travel) { r.n.CertificateKey = strings.Repeat("1f", 32) },
			"cannot be decrypted", config},
		"altered": {func(t *testing.T, r *travel) {
			r.edit(t, func(data map[string]any) { data["file-1"] = data["file-1"].(string)[:60] })
		}, "file-1 of Secret kubeadm-files cannot be decrypted", ""},
		"not a file": {func(t *testing.T, r *travel) { r.put(t, "file-1", "a private key, such as that of kubeadm-certs") },
			"file-1 of Secret kubeadm-files is not used: it is not an uploaded file", ""},
		"a mode with more than permissions": {func(t *testing.T, r *travel) {
			r.put(t, "file-1", `{"path":"`+policy+`","mode":2541}`+"\nx")
		}, "file-1 of Secret kubeadm-files is not used", ""},
		"a file that nothing names": {func(t *testing.T, r *travel) { r.put(t, "file-1", `{"path":"/etc/shadow","mode":384}`+"\nx") },
			"it is for /etc/shadow, which no argument of a component names", ""},
		"a file of kubeadm": {func(t *testing.T, r *travel) {
			r.put(t, "file-1", `{"path":"/etc/kubernetes/pki/ca.crt","mode":384}`+"\nx")
		}, "it is for /etc/kubernetes/pki/ca.crt, which no argument", ""},
		"a path with dots": {func(t *testing.T, r *travel) {
			r.put(t, "file-1", `{"path":"/srv/audit/../../etc/shadow","mode":384}`+"\nx")
		}, "is not used", ""},
		"no Secret": {func(_ *testing.T, r *travel) {
			maps.DeleteFunc(r.first.Objects, func(k memory.Key, _ *unstructured.Unstructured) bool {
				return k.Name == manifest.FilesSecret
			})
		}, "", config},
		"a file too large": {func(t *testing.T, r *travel) {
			r.first.Files[policy] = memory.File{Data: make([]byte, 2<<20), Mode: 0o600}
			r.upload(t)
		}, "warning: " + policy + " (kube-apiserver --audit-policy-file) is not uploaded: it has 2097152 bytes, and at most 512 KiB", ""},
		"files too large together": {func(t *testing.T, r *travel) {
			for _, file := range []string{policy, config} {
				r.first.Files[file] = memory.File{Data: make([]byte, 500<<10), Mode: 0o600}
			}
			r.upload(t)
		}, "is not uploaded: the files together have more than 900 KiB", ""},
		"a file that the first node lacks": {func(t *testing.T, r *travel) { delete(r.first.Files, policy); r.upload(t) },
			"is not uploaded: it is not on this machine; copy it", ""},
		"a FIFO": {func(t *testing.T, r *travel) {
			r.first.Files[policy] = memory.File{Mode: fs.ModeNamedPipe | 0o600}
			r.upload(t)
		}, "is not uploaded: it is not a regular file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTravel(t)
			r.upload(t)
			c.spoil(t, r)
			before := r.second.Snapshot()
			err := r.download(t, false)
			for _, file := range []string{policy, c.missing} {
				if err == nil || !strings.Contains(err.Error(), file) {
					t.Errorf("%v does not name %s", err, file)
				}
			}
			r.mustSay(t, c.said)
			for name := range r.second.Files {
				if strings.HasPrefix(name, "/srv") || strings.HasPrefix(name, "/etc/kubernetes/sch") {
					t.Errorf("%s was written; before there was %.0s", name, before)
				}
			}
			r.second.Files[policy] = memory.File{Data: []byte("own"), Mode: 0o600}
			r.second.Files[config] = memory.File{Data: []byte("own"), Mode: 0o600}
			r.said = nil
			must(t, r.download(t, false))
			if name == "no Secret" && len(r.said) > 0 {
				t.Errorf("a join says %q", r.said)
			}
			must(t, r.download(t, true))
			if name == "no Secret" {
				r.mustSay(t, "there is no Secret kubeadm-files")
			}
		})
	}
}

// Nothing is written through a symbolic link.
func TestArgumentFileBehindLink(t *testing.T) {
	for link, to := range map[string]string{"/srv/audit": "/etc", policy: "/etc/shadow", "/srv": "/other"} {
		for _, replaces := range []bool{false, true} {
			r := newTravel(t)
			r.upload(t)
			must(t, r.second.PutFile(link, memory.File{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}))
			before := len(r.second.Files)
			err := r.download(t, replaces)
			if err == nil || !strings.Contains(err.Error(), policy+" is not written: "+link+" is a symbolic link") {
				t.Errorf("%s: %v", link, err)
			}
			if len(r.second.Files) != before {
				t.Errorf("%s: something was written", link)
			}
		}
	}
}

// The files of a rootless control plane belong to the accounts of that name, whatever their IDs.
func TestArgumentFileOfRootlessComponent(t *testing.T) {
	r := newTravel(t)
	r.n.Cluster.FeatureGates = map[string]bool{release.RootlessControlPlane: true}
	var accounts map[string]memory.File // of the second node before they are created
	for w, first := range map[*fake.World]int{r.first: 200, r.second: 300} {
		w.Files["/etc/passwd"] = memory.File{Data: []byte("root:x:0:0:root:/root:/bin/bash\n"), Mode: 0o644}
		w.Files["/etc/group"] = memory.File{Data: []byte("root:x:0:\n"), Mode: 0o644}
		w.Files["/etc/login.defs"] = memory.File{Mode: 0o644,
			Data: fmt.Appendf(nil, "SYS_UID_MIN %d\nSYS_GID_MIN %d\n", first, first)}
		if w == r.second {
			accounts = maps.Clone(w.Files)
		}
		must(t, w.Do(t.Context(), manifest.SystemAccounts()))
	}
	ids := func(w *fake.World) (uid, gid int) {
		accounts, err := change.ReadAccounts(t.Context(), w, "/etc")
		must(t, err)
		uid, gid, _ = accounts.User("kubeadm-kas")
		return uid, gid
	}
	file := r.first.Files[policy]
	file.UID, file.GID = ids(r.first)
	r.first.Files[policy] = file
	r.upload(t)
	with := r.second.Files
	r.second.Files, r.second.RemoteAPIServer = accounts, true
	maps.Copy(r.second.Objects, r.first.Objects)
	if uploaded, err := sharedcerts.CheckDownload(t.Context(), r.env(r.second), r.n, newDownload(true)); err != nil ||
		!uploaded[policy] {
		t.Errorf("before the accounts are created: %v, %v", uploaded, err)
	}
	r.second.Files = with
	must(t, r.download(t, false))
	uid, gid := ids(r.second)
	if got := r.second.Files[policy]; got.UID != uid || got.GID != gid || uid == file.UID {
		t.Errorf("the file belongs to %d:%d, want %d:%d", got.UID, got.GID, uid, gid)
	}
	if got := r.second.Files["/srv/audit"].Mode; got != fs.ModeDir|0o755 {
		t.Errorf("the directory has mode %v", got)
	}
}
