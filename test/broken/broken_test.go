// Package broken_test runs the whole command line with broken input, in process and on a machine
// in memory, and checks the error of each case. A file in testdata has the cases of one subject:
//
//	run: init --config config.yaml       # the default command of the cases
//	files: {"@pki": /etc/kubernetes/pki} # files on the machine in every case
//	cases:
//	- case: a subnet is no CIDR
//	  cluster: "networking: {podSubnet: 10.0.0.0}"   # config.yaml: the rest of a document of that kind
//	  names: ClusterConfiguration networking.podSubnet
//	  fault: '"10.0.0.0"'
//	  remedy: must be a CIDR such as 10.244.0.0/16
//
// The error must name the field or file, the fault, and the remedy: what is allowed, or what to
// do. No case may panic, change the machine, or print a secret of its input.
package broken_test

import (
	"bytes"
	"cmp"
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
	"time"

	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/cli"
	"kubeadm/internal/node"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/worldtest/keys"
)

// caseFile is a file of cases in testdata.
type caseFile struct {
	Run   string            `json:"run"`
	Files map[string]string `json:"files"`
	// Existing is the version of a cluster of which the machine is a control plane; empty for none.
	Existing string `json:"existing"`
	// Windows says that the machine runs Windows.
	Windows bool         `json:"windows"`
	Cases   []brokenCase `json:"cases"`
}

// brokenCase is one broken input, and the error that it must cause.
type brokenCase struct {
	Case string `json:"case"`

	Run  string   `json:"run"`
	Args []string `json:"args"` // further arguments, which may contain spaces
	// Existing replaces that of the file.
	Existing string `json:"existing"`
	// a path that ends in "/" is a directory; see addFile for texts with "@"
	Files map[string]string `json:"files"`
	// Objects are YAML documents that are added to the existing cluster; see fake.World.AddObjects.
	Objects string `json:"objects"`
	// ServerAhead is how far the clock of the API server is ahead of that of the machine, "8760h".
	ServerAhead string `json:"serverAhead"`
	// Unpullable are images that no registry has.
	Unpullable []string `json:"unpullable"`

	// The fields of the documents in config.yaml, in this order.
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
	// must not be printed; keys and tokens in the input need not be named
	Secret string `json:"secret"`
}

// minimumCases is how many cases there must be: fewer would mean that a file is not read.
const minimumCases = 600

func TestBrokenInput(t *testing.T) {
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var stock keys.Pool
	count := 0
	for _, name := range names {
		s := loadCaseFile(t, name)
		count += len(s.Cases)
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			for _, m := range s.Cases {
				t.Run(m.Case, func(t *testing.T) {
					t.Parallel()
					m.check(t, s, &stock)
				})
			}
		})
	}
	if count < minimumCases {
		t.Errorf("there are only %d cases, want at least %d", count, minimumCases)
	}
	t.Logf("%d broken inputs", count)
}

func loadCaseFile(t *testing.T, name string) (s caseFile) {
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
			t.Errorf("%s: case %q is a duplicate or lacks names, fault or remedy", name, m.Case)
		}
		seen[m.Case] = true
	}
	return s
}

func (m brokenCase) check(t *testing.T, s caseFile, stock *keys.Pool) {
	files, args := m.input(t, s)
	w := newMachine(files)
	if existing := cmp.Or(m.Existing, s.Existing); existing != "" {
		addCluster(t, w, existing, m.Objects)
		own := maps.Clone(s.Files)
		if own == nil {
			own = map[string]string{}
		}
		maps.Copy(own, m.Files)
		for name, text := range own {
			if text == "@none" {
				delete(w.Files, name)
			} else if data, found := files[name]; found {
				w.Files[name] = memory.File{Data: []byte(data), Mode: 0o600}
			}
		}
	}
	if s.Windows {
		w.Info.Platform = node.Windows("C:")
		w.Sockets = []string{w.Info.Platform.DefaultCRISocket()}
		w.Paths["xcopy"] = "C:/Windows/System32/xcopy.exe"
	}
	w.MissingImages = m.Unpullable
	if m.ServerAhead != "" {
		ahead, err := time.ParseDuration(m.ServerAhead)
		if err != nil {
			t.Fatal(err)
		}
		w.ServerAhead, w.RemoteAPIServer = ahead, true
	}
	store := &memoryJournal{}
	before := w.Snapshot()
	out, err := runKubeadm(w, store, stock, args)
	if err == nil {
		t.Fatalf("kubeadm %s succeeds:\n%.300s", strings.Join(args, " "), out)
	}
	t.Log(renderError(err))
	for what, text := range map[string]string{"name the field or file": m.Names,
		"name the fault": m.Fault, "name the remedy": m.Remedy} {
		if !strings.Contains(renderError(err), text) {
			t.Errorf("the error does not %s: %q is not in\n%s", what, text, renderError(err))
		}
	}
	if after := w.Snapshot(); after != before {
		t.Errorf("the machine was changed; it has the files %q", slices.Sorted(maps.Keys(w.Files)))
	}
	if store.written {
		t.Error("a journal was written")
	}
	for _, secret := range findSecrets(files, args, m.Secret) {
		if strings.Contains(out, secret) {
			t.Errorf("the secret %q of the input is printed:\n%s", secret, out)
		}
	}
	for _, trace := range []string{"goroutine ", ".go:", "%!", "<nil>"} {
		if strings.Contains(out, trace) {
			t.Errorf("%q is in the output:\n%s", trace, out)
		}
	}
}

// renderError returns the error as it is printed.
func renderError(err error) string {
	var b strings.Builder
	report.Error(&b, nil, err)
	return b.String()
}

// input returns the files on the machine and the arguments of the command.
func (m brokenCase) input(t *testing.T, s caseFile) (files map[string]string, args []string) {
	t.Helper()
	files = map[string]string{}
	for _, some := range []map[string]string{s.Files, m.Files} {
		for name, text := range some {
			if text == "@none" {
				delete(files, name)
				continue
			}
			addFile(t, files, name, text)
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

// config returns the file with the case's documents.
func (m brokenCase) config() string {
	const ours = "kubeadm.k8s.io/v1beta4"
	var documents []string
	for _, d := range []struct {
		version, kind string
		rest          *string
	}{
		{ours, "InitConfiguration", m.Init}, {ours, "ClusterConfiguration", m.Cluster},
		{ours, "JoinConfiguration", m.Join},
		{ours, "ResetConfiguration", m.Reset}, {ours, "UpgradeConfiguration", m.Upgrade},
		{"kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", m.Kubelet},
		{"kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration", m.Proxy},
	} {
		if d.rest != nil {
			documents = append(documents,
				fmt.Sprintf("apiVersion: %s\nkind: %s\n%s\n", d.version, d.kind, *d.rest))
		}
	}
	return strings.Join(documents, "---\n")
}

// newMachine is a machine with the files on which init would succeed otherwise.
func newMachine(files map[string]string) *fake.World {
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
		Version: version, Kubelet: version, EtcdTag: "3.6.8-0", CoreDNSTag: "v1.14.2",
		ControlPlanes: []string{"cp1"},
	})
	if err == nil && objects != "" {
		err = w.AddObjects(objects)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runKubeadm runs the program and returns its output and its error. A panic is an error, too.
func runKubeadm(w world.World, store *memoryJournal, stock *keys.Pool, args []string) (said string, err error) {
	var out bytes.Buffer
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			report.Error(&out, nil, err)
		}
		said = out.String()
	}()
	host := cli.Host{
		In: strings.NewReader(""), Out: &out, Err: &out,
		Getenv:  func(string) (string, bool) { return "", false },
		World:   func() world.World { return w },
		Journal: func(string) (cli.Journal, error) { return store, nil },
		Random:  func(string) io.Reader { return rand.Reader },
		NewKey:  stock.ForMachine(),
		Chroot:  func(dir string) error { return fmt.Errorf("no chroot to %s in a test", dir) },
		Log:     func(int, string) error { return nil },
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1",
			GitTreeState: "clean"},
	}
	return "", cli.Run(context.Background(), host, args)
}

// memoryJournal is a journal in memory without a lock, which records whether it was written.
type memoryJournal struct {
	journal.Memory
	written bool
}

func (s *memoryJournal) Append(name string, data []byte) error {
	s.written = true
	return s.Memory.Append(name, data)
}

func (s *memoryJournal) Clear() error {
	s.written = false
	return s.Memory.Clear()
}

func (s *memoryJournal) Close() error { return nil }

// findSecrets finds secrets in the input: secrets of tokens, certificate keys, and lines of
// private keys.
func findSecrets(files map[string]string, args []string, more string) []string {
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
