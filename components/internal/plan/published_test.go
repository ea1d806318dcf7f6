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
	"slices"
	"strings"
	"sync"
	"testing"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/download"
	"kubeadm/components/internal/pins"
)

// imageRefs is the output of kubeadm config images list of the test server.
const imageRefs = `registry.test/kube-apiserver:v1.37.1
registry.test/kube-controller-manager:v1.37.1
registry.test/kube-scheduler:v1.37.1
registry.test/kube-proxy:v1.37.1
registry.test/coredns/coredns:v1.14.6
registry.test/pause:3.10
registry.test/etcd:3.7.0-0
`

// publish serves the releases of a plan with a test server. Each program is a script. It returns
// the paths that were requested.
func publish(t *testing.T, p *Plan) *[]string {
	t.Helper()
	var mu sync.Mutex
	var requested []string
	files := map[string][]byte{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requested = append(requested, r.URL.Path)
		mu.Unlock()
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(s.Close)
	p.published = &Published{
		Client:     download.NewClient(s.Client().Transport),
		Kubernetes: s.URL + "/kubernetes", GitHub: s.URL + "/github",
	}
	all, err := p.publishedReleases()
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
			line := fmt.Appendf(nil, "%s  %s\n", hex.EncodeToString(sum[:]), path.Base(name))
			files[strings.TrimPrefix(f.Checksums, s.URL)] = line
		}
	}
	return &requested
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
		header := tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))}
		if err := w.WriteHeader(&header); err != nil {
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

// publishedPlan returns a plan that downloads from a test server. The userland, pause and agnhost
// are scripts too.
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
	store := &cache.Store{Dir: t.TempDir(), Say: t.Logf}
	p := &Plan{root: "../..", compiler: "go1", packer: "1", release: release, store: store}
	requested := publish(t, p)
	writeUserland := func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "iptables"), nil, 0o755)
	}
	p.userland = cache.Part{Name: "userland", Key: "1", Build: writeUserland}
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
	return p, requested
}

func TestDownloadedBundleHasTheSameLayout(t *testing.T) {
	p, _ := publishedPlan(t)
	dir, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for sub, want := range map[string][]string{
		"bin": {"containerd", "containerd-shim-runc-v2", "ctr", "etcd", "etcdctl", "kube-apiserver",
			"kube-controller-manager", "kube-proxy", "kube-scheduler", "kubeadm-upstream", "kubectl",
			"kubelet", "runc"},
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
	if b.Kubernetes != p.release.Version || b.Components["etcd"] != p.release.Etcd ||
		b.Components["runc"] == "" {
		t.Errorf("got %+v", b)
	}
}

func TestCompiledAndDownloadedPluginsAreTheSame(t *testing.T) {
	text, err := os.ReadFile("../../tools/cni/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var compiled []string
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		if strings.HasPrefix(name, "github.com/containernetworking/plugins/plugins/") {
			compiled = append(compiled, path.Base(name))
		}
	}
	slices.Sort(compiled)
	if !slices.Equal(compiled, cniPlugins()) {
		t.Errorf("compiled are %v, downloaded %v", compiled, cniPlugins())
	}
}

func TestPublishedPaths(t *testing.T) {
	p, requested := publishedPlan(t)
	if _, err := p.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := p.release.Version
	etcd := "/github/etcd-io/etcd/releases/download/" + p.release.Etcd
	for _, want := range []string{
		"/kubernetes/release/" + v + "/bin/linux/" + arch + "/kubelet",
		"/kubernetes/release/" + v + "/bin/linux/" + arch + "/kubelet.sha256",
		"/kubernetes/release/" + v + "/bin/linux/" + arch + "/kubeadm",
		etcd + "/SHA256SUMS",
		etcd + "/etcd-" + p.release.Etcd + "-linux-" + arch + ".tar.gz",
	} {
		if !slices.Contains(*requested, want) {
			t.Errorf("%s was not requested", want)
		}
	}
}

func TestMissingChecksumFailsTheBuild(t *testing.T) {
	p, _ := publishedPlan(t)
	for i, part := range p.programs {
		if part.Name == "runc" {
			all, err := p.publishedReleases()
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(all, func(r publishedRelease) bool { return r.name == "runc" })
			all[at].files[0].Checksums += ".missing"
			p.programs[i] = p.downloadPart(all[at])
		}
	}
	_, err := p.Build(t.Context())
	if err == nil || !strings.Contains(err.Error(), "reading the checksum of") {
		t.Errorf("got %v", err)
	}
}

func TestMirrorChangeDownloadsAgain(t *testing.T) {
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
