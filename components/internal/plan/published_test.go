package plan

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/download"
	"kubeadm/components/internal/pins"
)

// imageRefs is what the kubeadm of the test server prints.
const imageRefs = "registry.test/kube-apiserver:v1.37.1\nregistry.test/kube-controller-manager:v1.37.1\nregistry.test/kube-scheduler:v1.37.1\n" +
	"registry.test/kube-proxy:v1.37.1\nregistry.test/coredns/coredns:v1.14.6\nregistry.test/pause:3.10\nregistry.test/etcd:3.7.0-0\n"

// publish serves the releases of a plan: each program is a script, checksums are in the form that the plan asks for.
// It returns the paths that were requested.
func publish(t *testing.T, p *Plan) *[]string {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	files := map[string][]byte{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(s.Close)
	p.published = &Published{Client: download.NewClient(s.Client().Transport), Kubernetes: s.URL + "/kubernetes", GitHub: s.URL + "/github"}
	all, err := p.releases()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		for _, f := range r.files {
			data := script(f.program)
			if f.program == "" {
				data = archive(t, f.members)
			}
			sum := sha256.Sum256(data)
			name := strings.TrimPrefix(f.URL, s.URL)
			files[name] = data
			files[strings.TrimPrefix(f.Checksums, s.URL)] = fmt.Appendf(nil, "%s  %s\n", hex.EncodeToString(sum[:]), path.Base(name))
		}
	}
	return &asked
}

func script(name string) []byte {
	if name == "kubeadm-upstream" {
		return []byte("#!/bin/sh\ncat <<END\n" + imageRefs + "END\n")
	}
	return []byte("#!/bin/sh\necho " + name + "\n")
}

func archive(t *testing.T, members map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	w := tar.NewWriter(zipped)
	for name, program := range members {
		data := script(program)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// publishedPlan is a plan over the test server. What needs neither network nor compiler here is made by hand.
func publishedPlan(t *testing.T) (*Plan, *[]string) {
	t.Helper()
	releases, err := pins.Releases("../../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	release, err := pins.Choose(releases, "v1.37")
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{root: "../..", compiler: "go1", packer: "1", release: release, store: &cache.Store{Dir: t.TempDir(), Say: t.Logf}}
	asked := publish(t, p)
	p.userland = cache.Part{Name: "userland", Key: "1", Build: func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "iptables"), nil, 0o755)
	}}
	if p.programs, err = p.programParts(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, part := range p.programs {
		if part.Name == "pause" || part.Name == "agnhost" {
			p.programs[i].Build = func(_ context.Context, dir string) error {
				return os.WriteFile(filepath.Join(dir, part.Name), script(part.Name), 0o755)
			}
		}
	}
	p.archives = p.archiveParts()
	p.bundle = p.bundlePart()
	return p, asked
}

// A downloaded bundle has the layout of a compiled one.
func TestDownloadedBundle(t *testing.T) {
	p, _ := publishedPlan(t)
	dir, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for sub, want := range map[string][]string{
		"bin": {"containerd", "containerd-shim-runc-v2", "ctr", "etcd", "etcdctl", "kube-apiserver", "kube-controller-manager",
			"kube-proxy", "kube-scheduler", "kubeadm-upstream", "kubectl", "kubelet", "runc"},
		"cni":    cniPlugins(),
		"images": {"agnhost.tar", "coredns.tar", "kubernetes.tar", "pause.tar"},
	} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, e := range entries {
			have = append(have, e.Name())
			if info, err := e.Info(); err != nil || sub != "images" && info.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s has %v, want %v", sub, have, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b Bundle
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	var images []string
	for _, a := range b.Archives {
		images = append(images, a.Images...)
	}
	for _, want := range append(strings.Fields(imageRefs), TestImage) {
		if !slices.Contains(images, want) {
			t.Errorf("no archive has the image %s", want)
		}
	}
	if b.Kubernetes != p.release.Version || b.Components["etcd"] != p.release.Etcd || b.Components["runc"] == "" {
		t.Errorf("got %+v", b)
	}
}

// A compiled bundle has the same plugins.
func TestDownloadedPluginsAreTheCompiledOnes(t *testing.T) {
	text, err := os.ReadFile("../../tools/cni/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var compiled []string
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "github.com/containernetworking/plugins/plugins/") {
			compiled = append(compiled, path.Base(name))
		}
	}
	slices.Sort(compiled)
	if !slices.Equal(compiled, cniPlugins()) {
		t.Errorf("compiled are %v, downloaded %v", compiled, cniPlugins())
	}
}

// The paths are those under which the projects publish.
func TestPublishedPaths(t *testing.T) {
	p, asked := publishedPlan(t)
	if _, err := p.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, arch := p.release.Version, runtime.GOARCH
	for _, want := range []string{
		"/kubernetes/release/" + v + "/bin/linux/" + arch + "/kubelet",
		"/kubernetes/release/" + v + "/bin/linux/" + arch + "/kubelet.sha256",
		"/kubernetes/release/" + v + "/bin/linux/" + arch + "/kubeadm",
		"/github/etcd-io/etcd/releases/download/" + p.release.Etcd + "/SHA256SUMS",
		"/github/etcd-io/etcd/releases/download/" + p.release.Etcd + "/etcd-" + p.release.Etcd + "-linux-" + arch + ".tar.gz",
	} {
		if !slices.Contains(*asked, want) {
			t.Errorf("%s was not requested", want)
		}
	}
}

func TestUnverifiedProgramEndsTheBuild(t *testing.T) {
	p, _ := publishedPlan(t)
	for i, part := range p.programs {
		if part.Name == "runc" {
			all, err := p.releases()
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(all, func(r release) bool { return r.name == "runc" })
			all[at].files[0].Checksums += ".missing"
			p.programs[i] = p.releasedPart(all[at])
		}
	}
	if _, err := p.Build(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the checksum of") {
		t.Errorf("got %v", err)
	}
}

func TestAnotherMirrorIsDownloadedAgain(t *testing.T) {
	p, _ := publishedPlan(t)
	before := partKeys(p.programs...)
	p.published.Kubernetes += "-mirror"
	after, err := p.programParts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i, k := range partKeys(after...) {
		if k != before[i] {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d parts changed, want that of Kubernetes", changed)
	}
}
