// Package broken_test gives the whole command line broken input, in process and over a machine in memory, and holds
// each mistake to the error that we promise. A file in testdata has the mistakes of one subject; its cases say it all:
//
//	run: init --config config.yaml       # the command of cases that name none
//	files: {"@pki": /etc/kubernetes/pki} # what every case of the file finds on the machine
//	cases:
//	- case: a subnet is no CIDR
//	  cluster: "networking: {podSubnet: 10.0.0.0}"   # config.yaml: the rest of a document of that kind
//	  names: ClusterConfiguration networking.podSubnet
//	  fault: '"10.0.0.0"'
//	  remedy: must be a CIDR such as 10.244.0.0/16
//
// The error must name the field or file, tell the fault, and tell the remedy: what is allowed, or what to do. Besides,
// no case may panic, alter the machine, or repeat a secret of its input.
package broken_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/cli"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

// subject is a file of cases.
type subject struct {
	Run   string            `json:"run"`
	Files map[string]string `json:"files"`
	// Existing is the version of a cluster of which the machine is a control plane; usually there is none.
	Existing string    `json:"existing"`
	Cases    []mistake `json:"cases"`
}

// mistake is one broken input, and the error that it must get.
type mistake struct {
	Case string `json:"case"`

	Run   string            `json:"run"`
	Args  []string          `json:"args"`  // further arguments, which may hold blanks
	Files map[string]string `json:"files"` // a path that ends in "/" is a folder; see made for texts with "@"
	// Objects are YAML documents of what is special in the existing cluster; see fake.World.AddObjects.
	Objects string `json:"objects"`

	// What is below the head of documents in config.yaml, in this order.
	Init    *string `json:"init"`
	Cluster *string `json:"cluster"`
	Join    *string `json:"join"`
	Reset   *string `json:"reset"`
	Upgrade *string `json:"upgrade"`
	Kubelet *string `json:"kubelet"`
	Proxy   *string `json:"proxy"`

	Names  string `json:"names"`
	Fault  string `json:"fault"`
	Remedy string `json:"remedy"`
	Secret string `json:"secret"` // must not be repeated; keys and tokens are found without being named here
}

// least is how many mistakes there must be: fewer would mean that a file is not read.
const least = 600

func TestEveryMistakeGetsTheErrorThatWePromise(t *testing.T) {
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, name := range names {
		s := load(t, name)
		count += len(s.Cases)
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			for _, m := range s.Cases {
				t.Run(m.Case, func(t *testing.T) {
					t.Parallel()
					m.check(t, s)
				})
			}
		})
	}
	if count < least {
		t.Errorf("there are %d cases only, of at least %d", count, least)
	}
	t.Logf("%d broken inputs", count)
}

func load(t *testing.T, name string) (s subject) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = yaml.UnmarshalStrict(data, &s)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	seen := map[string]bool{}
	for _, m := range s.Cases {
		if m.Case == "" || seen[m.Case] || m.Names == "" || m.Fault == "" || m.Remedy == "" {
			t.Errorf("%s: case %q is there twice or lacks what the error must say", name, m.Case)
		}
		seen[m.Case] = true
	}
	return s
}

func (m mistake) check(t *testing.T, s subject) {
	files, args := m.input(t, s)
	w := furnished(files)
	if s.Existing != "" {
		addCluster(t, w, s.Existing, m.Objects)
		for name, text := range m.Files {
			if text == "@none" {
				delete(w.Files, name)
			}
		}
	}
	remembered := &store{}
	before := w.Snapshot()
	out, err := run(w, remembered, args)
	if err == nil {
		t.Fatalf("kubeadm %s succeeds:\n%.300s", strings.Join(args, " "), out)
	}
	t.Log(errorOf(err))
	for what, text := range map[string]string{"name": m.Names, "tell the fault": m.Fault, "tell the remedy": m.Remedy} {
		if !strings.Contains(errorOf(err), text) {
			t.Errorf("the error does not %s: %q is not in\n%s", what, text, errorOf(err))
		}
	}
	if after := w.Snapshot(); after != before {
		t.Errorf("the machine is another one afterwards; it has the files %q", slices.Sorted(maps.Keys(w.Files)))
	}
	if remembered.kept {
		t.Error("a journal is left behind")
	}
	for _, secret := range secrets(files, args, m.Secret) {
		if strings.Contains(out, secret) {
			t.Errorf("%q of the input is repeated:\n%s", secret, out)
		}
	}
	for _, trace := range []string{"goroutine ", ".go:", "%!", "<nil>"} {
		if strings.Contains(out, trace) {
			t.Errorf("%q is in what is said:\n%s", trace, out)
		}
	}
}

// errorOf is the error as the user sees it.
func errorOf(err error) string {
	var b strings.Builder
	report.Error(&b, err)
	return b.String()
}

// input is what the machine holds and the arguments of the command.
func (m mistake) input(t *testing.T, s subject) (files map[string]string, args []string) {
	t.Helper()
	files = map[string]string{}
	for _, some := range []map[string]string{s.Files, m.Files} {
		for name, text := range some {
			if text == "@none" {
				delete(files, name)
				continue
			}
			lay(t, files, name, text)
		}
	}
	if text := m.config(); text != "" {
		files["config.yaml"] = text
	}
	line := m.Run
	if line == "" {
		line = s.Run
	}
	return files, append(strings.Fields(line), m.Args...)
}

// config is a file of the documents that the case has.
func (m mistake) config() string {
	const ours = "kubeadm.k8s.io/v1beta4"
	var documents []string
	for _, d := range []struct {
		version, kind string
		rest          *string
	}{
		{ours, "InitConfiguration", m.Init}, {ours, "ClusterConfiguration", m.Cluster}, {ours, "JoinConfiguration", m.Join},
		{ours, "ResetConfiguration", m.Reset}, {ours, "UpgradeConfiguration", m.Upgrade},
		{"kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", m.Kubelet},
		{"kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration", m.Proxy},
	} {
		if d.rest != nil {
			documents = append(documents, fmt.Sprintf("apiVersion: %s\nkind: %s\n%s\n", d.version, d.kind, *d.rest))
		}
	}
	return strings.Join(documents, "---\n")
}

// furnished is a machine on which init would succeed, with the files.
func furnished(files map[string]string) *fake.World {
	w := fake.New()
	w.Paths["kubelet"] = "/usr/bin/kubelet"
	for name, text := range files {
		for dir := path.Dir(path.Clean(name)); dir != "/" && dir != "."; dir = path.Dir(dir) {
			w.Files[dir] = memory.File{Mode: fs.ModeDir | 0o755}
		}
		if strings.HasSuffix(name, "/") {
			w.Files[path.Clean(name)] = memory.File{Mode: fs.ModeDir | 0o755}
			continue
		}
		w.Files[name] = memory.File{Data: []byte(text), Mode: 0o600}
	}
	return w
}

// addCluster makes the machine a control plane of a cluster.
func addCluster(t *testing.T, w *fake.World, version, objects string) {
	t.Helper()
	err := w.AddCluster(fake.ExistingCluster{
		Version: version, Kubelet: version, EtcdTag: "3.6.8-0", CoreDNSTag: "v1.14.2", ControlPlanes: []string{"cp1"},
	})
	if err == nil && objects != "" {
		err = w.AddObjects(objects)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run is one run of the program: all that it said, and its error. A panic is one too.
func run(w world.World, remembered *store, args []string) (said string, err error) {
	var out bytes.Buffer
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			report.Error(&out, err)
		}
		said = out.String()
	}()
	host := cli.Host{
		In: strings.NewReader(""), Out: &out, Err: &out,
		Getenv:  func(string) (string, bool) { return "", false },
		World:   func() world.World { return w },
		Journal: func(string) (cli.Journal, error) { return remembered, nil },
		Random:  func(string) io.Reader { return rand.Reader },
		Chroot:  func(dir string) error { return fmt.Errorf("no chroot to %s in a test", dir) },
		Log:     func(int, string) error { return nil },
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1", GitTreeState: "clean"},
	}
	return "", cli.Run(context.Background(), host, args)
}

// store is a journal in memory that nobody else can have locked, and knows whether something is in it.
type store struct {
	journal.Memory
	kept bool
}

func (s *store) Append(name string, data []byte) error {
	s.kept = true
	return s.Memory.Append(name, data)
}

func (s *store) Clear() error {
	s.kept = false
	return s.Memory.Clear()
}

func (s *store) Close() error { return nil }

// secrets are those among the input: whole tokens and their second halves, certificate keys, and lines of private keys.
func secrets(files map[string]string, args []string, more string) []string {
	var all []string
	if more != "" {
		all = append(all, more)
	}
	for _, text := range append(slices.Collect(valuesOf(files)), args...) {
		for _, m := range tokenForm.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		all = append(all, certificateKeyForm.FindAllString(text, -1)...)
		for _, block := range privateKeyForm.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.Fields(block[1])...)
		}
	}
	return all
}
