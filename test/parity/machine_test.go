package parity

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// orderVariable is the environment variable that names the file with the order.
const orderVariable = "PARITY_ORDERS"

// commandTimeout is how long a command may take.
const commandTimeout = 5 * time.Minute

// machine is the environment of both programs: an empty root with a few files and one network
// interface.
type machine struct {
	stage   string            // the initial state: see stages
	lacks   []string          // files of the stage that are removed
	files   map[string]string // content by path; a path that ends in a slash is a directory
	tools   []string          // programs in the PATH beside kubeadm
	ports   []string          // addresses in use
	env     []string
	input   string // standard input of every command
	runtime bool   // a container runtime listens at containerd's socket
	offline bool   // there is no interface but the loopback
	still   bool   // IP forwarding is disabled
	shares  bool   // the certificates that control planes share exist
	oneCPU  bool   // only one CPU is available
	// unnumbered means that the interface of the default route has no address.
	unnumbered bool
	// an API server listens at 10.0.0.10:6443 for the cluster of the stage
	cluster bool
	objects []string // that the cluster has besides, or instead of those with the same names
}

// order says what to run inside of the namespaces.
type order struct {
	Root, Program string
	Env, Tools    []string
	Ports         []string
	Input         string
	Steps         [][]string
	Offline       bool
	Unnumbered    bool
	OneCPU        bool
	Still         bool
	Cluster       bool
}

// commandResult is the result of a command.
type commandResult struct {
	Exit     int
	Out, Err string
}

// fileState is a file or directory on the machine.
type fileState struct {
	mode fs.FileMode
	data string
}

// outcome holds the results of a program's commands and the files on the machine afterwards.
type outcome struct {
	began time.Time
	steps []commandResult
	tree  map[string]fileState
}

// hostname is the host name of every machine.
const hostname = "cp1"

// baseFiles are on every machine; neither program writes them.
func baseFiles() map[string]string {
	return map[string]string{
		"/etc/hosts": "127.0.0.1 localhost\n", "/proc/": "", "/sys/": "", "/dev/": "", "/root/": "",
		"/run/": "", "/var/lib/": "", "/tmp/": "", "/dry/": "", "/usr/bin/kubeadm": "",
	}
}

// run creates a new machine, runs the commands one after the other and reads the files afterwards.
func (m machine) run(t *testing.T, program string, steps [][]string) outcome {
	root, err := os.MkdirTemp(memoryDir(), "parity")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	given := m.initialFiles(t)
	for name, f := range given {
		writeState(t, root+name, f)
	}
	writeState(t, root+"/var/log/", fileState{})
	for _, tool := range m.tools {
		writeState(t, root+"/usr/bin/"+tool, fileState{mode: 0o755})
	}
	if m.runtime {
		serveRuntime(t, filepath.Join(root, "run/containerd/containerd.sock"))
		if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
			t.Fatal(err)
		}
	}
	o := outcome{began: time.Now()}
	o.steps = runInNamespaces(t,
		order{Root: root, Program: program, Env: m.env, Tools: m.tools, Ports: m.ports,
			Input: m.input, Steps: steps, Offline: m.offline, Still: m.still, Cluster: m.cluster,
			Unnumbered: m.unnumbered, OneCPU: m.oneCPU})
	o.tree = listTree(t, root)
	for name, f := range given {
		name = strings.TrimSuffix(name, "/")
		if now, ok := o.tree[name]; !ok {
			o.tree[name] = fileState{data: removedMark}
		} else if now.mode.IsDir() || now == f || strings.HasPrefix(name, "/cluster/before/") {
			delete(o.tree, name)
		}
	}
	return o
}

// memoryDir is where machines are created: in memory, where that is possible. Thousands of small
// files, each synced by the program, keep a disk busy for minutes.
func memoryDir() string {
	const dir = "/dev/shm"
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) == nil && s.Type == unix.TMPFS_MAGIC && s.Bavail*uint64(s.Bsize) > 1<<30 {
		return dir
	}
	return os.TempDir()
}

// removedMark is the data of a file that was removed.
const removedMark = "<gone>"

// initialFiles are the files on the machine when the case begins; directories end in a slash.
func (m machine) initialFiles(t *testing.T) map[string]fileState {
	given := map[string]fileState{}
	for name, content := range baseFiles() {
		given[name] = fileState{mode: 0o644, data: content}
	}
	if m.stage != "" {
		maps.Copy(given, buildStage(t, m.stage))
	}
	if m.shares {
		for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt",
			"front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key", "sa.key", "sa.pub"} {
			given["/etc/kubernetes/pki/"+name] = given["/cluster/before/"+name]
		}
	}
	for _, name := range m.lacks {
		if _, ok := given[name]; !ok {
			t.Fatalf("the stage %s has no %s that could be lacking", m.stage, name)
		}
		delete(given, name)
	}
	for name, content := range m.files {
		given[name] = fileState{mode: 0o644, data: content}
	}
	if len(m.objects) > 0 {
		f := given["/cluster/before/objects.yaml"]
		f.data = strings.Join(append([]string{f.data}, m.objects...), "\n---\n")
		given["/cluster/before/objects.yaml"] = f
	}
	return given
}

// writeState writes a file, or creates a directory if its name ends in a slash.
func writeState(t *testing.T, name string, f fileState) {
	t.Helper()
	err := os.MkdirAll(name[:strings.LastIndex(name, "/")], 0o755)
	if err == nil && !strings.HasSuffix(name, "/") {
		err = os.WriteFile(name, []byte(f.data), f.mode.Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runInNamespaces executes the order in new namespaces.
func runInNamespaces(t *testing.T, o order) []commandResult {
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	file := o.Root + ".orders"
	t.Cleanup(func() { os.Remove(file) })
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{orderVariable + "=" + file, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("inside of the machine: %v\n%s", err, problems.String())
	}
	var steps []commandResult
	if err := json.Unmarshal(out, &steps); err != nil {
		t.Fatal(err)
	}
	return steps
}

// listTree lists the files on the machine; special files have no data.
func listTree(t *testing.T, root string) map[string]fileState {
	tree := map[string]fileState{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		inside := path.Join("/", strings.TrimPrefix(name, root))
		if path.Dir(inside) == "/usr/bin" || info.Mode()&fs.ModeSocket != 0 {
			return nil
		}
		f := fileState{mode: info.Mode()}
		if f.mode.IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			f.data = string(data)
		}
		tree[inside] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// format returns the output of all steps, for the log of a failed case.
func (o outcome) format(who string) string {
	var b strings.Builder
	for i, s := range o.steps {
		fmt.Fprintf(&b, "=== %s, step %d: exit %d\n%s--- stderr\n%s", who, i+1, s.Exit, s.Out,
			s.Err)
	}
	return b.String()
}
