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
)

// orderVariable is the variable of the environment that names the file with what is to be done inside.
const orderVariable = "PARITY_ORDERS"

// commandTimeout is how long one command may take; none waits for anything that could come.
const commandTimeout = 5 * time.Minute

// machine is what both programs find: an empty root with a few files, one network interface and no way out.
type machine struct {
	stage   string            // what was done on it before: see stages
	lacks   []string          // files of the stage that are not there after all
	files   map[string]string // path to content; of those ending in a slash folders
	tools   []string          // programs in the PATH beside kubeadm
	ports   []string          // addresses that somebody listens on
	env     []string
	runtime bool // a container runtime answers at containerd's socket
	offline bool // there is no interface but the loopback
	still   bool // packets are not forwarded
	shares  bool // the certificates that the control planes of that cluster share are there
	oneCPU  bool // all but one CPU are out of reach
	// unnumbered says that the interface of the default route has no address.
	unnumbered bool
	cluster    bool // an API server answers at 10.0.0.10:6443 for the cluster of the stage "cluster"
}

// order is what is done inside of the namespaces.
type order struct {
	Root, Program string
	Env, Tools    []string
	Ports         []string
	Steps         [][]string
	Offline       bool
	Unnumbered    bool
	OneCPU        bool
	Still         bool
	Cluster       bool
}

// commandResult is what one command came to.
type commandResult struct {
	Exit     int
	Out, Err string
}

// fileState is a file or folder on the machine afterwards.
type fileState struct {
	mode fs.FileMode
	data string
}

// outcome is what can be seen of a program after a case.
type outcome struct {
	began time.Time
	steps []commandResult
	tree  map[string]fileState
}

// hostname is that of every machine; capitals and dots are for cases that give a name.
const hostname = "cp1"

// baseFiles is on every machine and made by no program under test.
func baseFiles() map[string]string {
	return map[string]string{
		"/etc/hosts": "127.0.0.1 localhost\n", "/proc/": "", "/sys/": "", "/dev/": "", "/root/": "", "/run/": "", "/var/lib/": "", "/tmp/": "", "/dry/": "", "/usr/bin/kubeadm": "",
	}
}

// run makes a new machine, gives the commands one after the other and looks at what is there afterwards.
func (m machine) run(t *testing.T, program string, steps [][]string) outcome {
	root, err := os.MkdirTemp("", "parity")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	given := m.initialFiles(t)
	for name, f := range given {
		writeState(t, root+name, f)
	}
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
	o.steps = runInNamespaces(t, order{Root: root, Program: program, Env: m.env, Tools: m.tools, Ports: m.ports, Steps: steps, Offline: m.offline, Still: m.still, Cluster: m.cluster,
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

// removedMark is the data of what was there before.
const removedMark = "<gone>"

// initialFiles is what is on the machine when the case begins; folders end in a slash.
func (m machine) initialFiles(t *testing.T) map[string]fileState {
	given := map[string]fileState{}
	for name, content := range baseFiles() {
		given[name] = fileState{mode: 0o644, data: content}
	}
	if m.stage != "" {
		maps.Copy(given, buildStage(t, m.stage))
	}
	if m.shares {
		for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key", "sa.key", "sa.pub"} {
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
	return given
}

// writeState writes a file, or makes a folder if its name ends in a slash.
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

// runInNamespaces carries out the order in new namespaces.
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

// listTree lists what is on the machine; sockets and other special files come without data.
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

// format is for whoever has to find out about a difference.
func (o outcome) format(who string) string {
	var b strings.Builder
	for i, s := range o.steps {
		fmt.Fprintf(&b, "=== %s, step %d: exit %d\n%s--- stderr\n%s", who, i+1, s.Exit, s.Out, s.Err)
	}
	return b.String()
}
