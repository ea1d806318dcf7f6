package laws

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/cli"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/worldtest/keys"
)

// commandLine is a command with its arguments, and a machine on which it succeeds.
type commandLine struct {
	name    string
	machine func(t testing.TB) *fake.World
	args    func(t testing.TB) []string
	config  string // the file that --config names, if any
}

const configFile = "/srv/kubeadm.yaml"

// commandLines are all commands that record in the journal that they have finished, in all their
// variants.
func commandLines() []commandLine {
	byConfig := func(more ...string) func(testing.TB) []string {
		return func(testing.TB) []string {
			return append([]string{"init", "--config", configFile}, more...)
		}
	}
	joining := func(more func(t testing.TB) []string) func(testing.TB) []string {
		return func(t testing.TB) []string {
			return append([]string{"join", "192.0.2.10:6443", "--token", joinToken,
				"--discovery-token-ca-cert-hash", clusterPin(t)}, more(t)...)
		}
	}
	rootlessConfig := strings.Replace(initConfig, "networking:",
		"featureGates:\n  RootlessControlPlane: true\nnetworking:", 1)
	return []commandLine{
		{"init", newInitMachine, byConfig("--upload-certs"), initConfig},
		{"init that ignores preflight errors", newInitMachine,
			byConfig("--ignore-preflight-errors=all"), initConfig},
		{"init that skips a phase", newInitMachine, byConfig("--skip-phases=mark-control-plane"),
			initConfig},
		{"init without root", newRootlessMachine, byConfig(), rootlessConfig},
		{"init with an external CA", newExternalCAMachine, byConfig(), initConfig},
		{"join", newWorkerMachine, joining(func(testing.TB) []string { return nil }), ""},
		{"join without a pin", newWorkerMachine, func(testing.TB) []string {
			return []string{"join", "192.0.2.10:6443", "--token", joinToken,
				"--discovery-token-unsafe-skip-ca-verification"}
		}, ""},
		{"join that ignores preflight errors", newWorkerMachine,
			joining(func(testing.TB) []string { return []string{"--ignore-preflight-errors=all"} }),
			""},
		{"join by a file", newFileDiscoveryMachine, func(testing.TB) []string {
			return []string{"join", "--discovery-file", discoveryFile, "--tls-bootstrap-token",
				joinToken}
		}, ""},
		{"join a control plane", newControlPlaneMachine, joining(func(t testing.TB) []string {
			initializedMachine(t)
			return []string{"--control-plane", "--certificate-key", sharedCluster.key}
		}), ""},
		{"join a control plane with an external CA", newExternalCAControlPlaneMachine,
			joining(func(testing.TB) []string {
				return []string{"--control-plane"}
			}), ""},
	}
}

// findCommandLine returns the command of that name.
func findCommandLine(name string) commandLine {
	all := commandLines()
	i := slices.IndexFunc(all, func(c commandLine) bool { return c.name == name })
	if i < 0 {
		panic("there is no command " + name)
	}
	return all[i]
}

func clusterPin(t testing.TB) string {
	t.Helper()
	certs, err := pki.ParseCertificates(initializedMachine(t).Files[caFile].Data)
	if err != nil {
		t.Fatal(err)
	}
	return pki.PinOf(certs[0]).String()
}

// finishedRun is a machine on which a command has finished.
type finishedRun struct {
	commandLine
	machine *fake.World
	store   *journal.Memory
}

// finish runs the command on a new machine until it has finished.
func (c commandLine) finish(t testing.TB) finishedRun {
	t.Helper()
	r := finishedRun{c, c.machine(t), &journal.Memory{}}
	if c.config != "" {
		r.machine.Files[configFile] = memory.File{Data: []byte(c.config), Mode: 0o644}
	}
	if out, err := r.run(t, r.machine); err != nil {
		t.Fatalf("the first run: %v\n%s", err, out)
	}
	return r
}

// clone copies the machine and the journal.
func (r finishedRun) clone(t testing.TB) finishedRun {
	t.Helper()
	r.machine = r.machine.Clone()
	var err error
	if r.store, err = journal.Copy(r.store); err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs the command in that world.
func (r finishedRun) run(t testing.TB, in world.World, more ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	host := cli.Host{
		In: strings.NewReader(""), Out: &out, Err: &out,
		Getenv:  func(string) (string, bool) { return "", false },
		World:   func() world.World { return in },
		Journal: func(string) (cli.Journal, error) { return readJournal{r.store, in}, nil },
		Random:  func(string) io.Reader { return rand.Reader },
		NewKey:  new(keys.Pool).ForMachine(),
		Chroot:  func(string) error { return nil },
		Log:     func(int, string) error { return nil },
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"},
	}
	err := cli.Run(context.Background(), host, append(r.args(t), more...))
	return out.String(), err
}

// readJournal is a journal without a lock, whose reads can fail like those of the world.
type readJournal struct {
	*journal.Memory
	in world.World
}

func (j readJournal) Load(name string) ([]byte, error) {
	if w, ok := j.in.(*fault.Reads); ok {
		// that would be a machine without a journal
		if err := w.Fail(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return j.Memory.Load(name)
}

func (readJournal) Close() error { return nil }

// snapshot describes everything that a run could change.
func (r finishedRun) snapshot(t testing.TB) string {
	t.Helper()
	text := r.machine.Snapshot()
	for _, name := range []string{"journal", "values"} {
		data, err := r.store.Load(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s\n%s\n", name, data)
	}
	return text
}

// edit changes the machine and its cluster as users do after a command has finished: a run that
// executed the phases again would revert all of it.
func (r finishedRun) edit() {
	w := r.machine
	maps.DeleteFunc(w.Discovery,
		func(key, _ string) bool {
			return strings.HasPrefix(key,
				bootstrapapi.JWSSignatureKeyPrefix)
		})
	for k, o := range w.Objects {
		switch {
		case k.Kind.Kind == "Secret":
			delete(w.Objects, k)
		case k.Kind.Kind == "ConfigMap" && k.Name != "cluster-info":
			_ = unstructured.SetNestedField(o.Object, "edited", "data", "edited")
		case k.Kind.Kind == "Node":
			unstructured.RemoveNestedField(o.Object, "spec", "taints")
			o.SetLabels(map[string]string{"kubernetes.io/hostname": k.Name, "edited": "yes"})
		}
	}
	for name, f := range w.Files {
		if strings.HasSuffix(name, ".yaml") && strings.HasPrefix(name, "/var/lib/kubelet/") {
			f.Data = append(slices.Clone(f.Data), "\n# edited\n"...)
			w.Files[name] = f
		}
	}
}

// forEachFinished tries a law on every finished command, on a machine that was edited afterwards.
func forEachFinished(t *testing.T, law func(t *testing.T, r finishedRun)) {
	for _, c := range commandLines() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := c.finish(t)
			r.edit()
			law(t, r)
		})
	}
}

func TestRerunOfFinishedCommandChangesNothing(t *testing.T) {
	forEachFinished(t, func(t *testing.T, r finishedRun) {
		before, ahead := r.snapshot(t), r.clone(t)
		out, err := r.run(t, r.machine)
		closing := "This node has joined the cluster"
		if r.config != "" {
			closing = "Your Kubernetes control-plane has initialized successfully!"
		}
		if err != nil || !strings.Contains(out, "nothing was changed") ||
			!strings.Contains(out, closing) {
			t.Errorf("%v; the output is:\n%s", err, out)
		}
		if diff := diffLines(before, r.snapshot(t)); diff != "" {
			t.Errorf("after the re-run (-before +after):\n%s", diff)
		}
		if r.config != "" { // --dry-run cannot be set beside --config
			ahead.machine.Files[configFile] = memory.File{Data: []byte(strings.Replace(r.config,
				"InitConfiguration\n", "InitConfiguration\ndryRun: true\n", 1))}
			out, err = ahead.run(t, ahead.machine)
		} else {
			out, err = ahead.run(t, ahead.machine, "--dry-run")
		}
		if err != nil || announcedPattern.MatchString(out) {
			t.Errorf("%v; a dry run announces changes:\n%s", err, out)
		}
	})
}

// announcedPattern matches a change that a dry run announces.
var announcedPattern = regexp.MustCompile(
	`would (write|apply|start|stop|remove|delete|label|pull|add)`)

// Files that users may remove after a command has finished are not needed: CA keys,
// super-admin.conf, and the discovery file.
func TestRerunAfterOptionalFilesWereRemoved(t *testing.T) {
	forEachFinished(t, func(t *testing.T, r finishedRun) {
		maps.DeleteFunc(r.machine.Files, func(name string, _ memory.File) bool {
			return strings.HasSuffix(name, "ca.key") ||
				strings.HasSuffix(name, "super-admin.conf") || name == discoveryFile
		})
		before := r.snapshot(t)
		out, err := r.run(t, r.machine)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if diff := diffLines(before, r.snapshot(t)); diff != "" {
			t.Errorf("after the re-run (-before +after):\n%s", diff)
		}
	})
}

// A missing file that the machine needs is named, with a hint, and not created again.
func TestRerunNamesMissingFiles(t *testing.T) {
	for _, c := range []struct{ file, command, hint string }{
		{"/etc/kubernetes/admin.conf", "init", "kubeadm init phase kubeconfig admin"},
		{"/etc/kubernetes/manifests/kube-apiserver.yaml", "init",
			"kubeadm init phase control-plane apiserver"},
		{"/etc/kubernetes/manifests/etcd.yaml", "init", "kubeadm init phase etcd local"},
		{"/etc/kubernetes/pki/etcd/peer.key", "init", "kubeadm init phase certs etcd-peer"},
		{"/etc/kubernetes/pki/sa.key", "init", "restore them from a backup"},
		{"/etc/kubernetes/pki/ca.crt", "init", "restore them from a backup"},
		{"/var/lib/kubelet/config.yaml", "init", "kubeadm init phase kubelet-start"},
		{"/etc/kubernetes/kubelet.conf", "join", "kubeadm reset"},
		{"/etc/kubernetes/pki/ca.crt", "join", "kubeadm reset"},
		{"/etc/kubernetes/admin.conf", "join a control plane", "kubeadm reset"},
		{"/etc/kubernetes/manifests/etcd.yaml", "join a control plane", "kubeadm reset"},
	} {
		t.Run(c.command+c.file, func(t *testing.T) {
			t.Parallel()
			r := findCommandLine(c.command).finish(t)
			r.edit()
			if _, there := r.machine.Files[c.file]; !there {
				t.Fatal("the file did not exist before")
			}
			delete(r.machine.Files, c.file)
			before := r.snapshot(t)
			_, err := r.run(t, r.machine)
			hints := strings.Join(problem.Hints(err), "\n")
			if err == nil || !strings.Contains(err.Error(), c.file) ||
				!strings.Contains(hints, c.hint) || !strings.Contains(hints, "kubeadm reset") {
				t.Errorf("%v, with the hints:\n%s", err, hints)
			}
			if diff := diffLines(before, r.snapshot(t)); diff != "" {
				t.Errorf("after the re-run (-before +after):\n%s", diff)
			}
		})
	}
}

// Another program's reset leaves our journal. The files that it lists are gone, so the command
// runs as on a new machine.
func TestRunAfterResetByAnotherProgram(t *testing.T) {
	for command, made := range map[string]string{"init": "/etc/kubernetes/manifests/kube-apiserver.yaml", "join": "/var/lib/kubelet/config.yaml"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			r := findCommandLine(command).finish(t)
			other := r
			other.args = func(testing.TB) []string { return []string{"reset", "--force"} }
			other.store = &journal.Memory{} // so that ours stays
			if out, err := other.run(t, r.machine); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if _, there := r.machine.Files[made]; there {
				t.Fatal("nothing was reset")
			}
			if out, err := r.run(t, r.machine); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if _, there := r.machine.Files[made]; !there {
				t.Errorf("%s was not created again", made)
			}
		})
	}
}

func TestRerunOfJoinToAnotherClusterIsRefused(t *testing.T) {
	foreign := newOtherCA(t)
	certs, err := pki.ParseCertificates(foreign)
	if err != nil {
		t.Fatal(err)
	}
	file, err := pki.KubeconfigSpec{Server: "https://192.0.2.99:6443", Cluster: "kubernetes",
		User: "u", CA: foreign}.WithToken("x").Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"join": {"join", "192.0.2.10:6443", "--token", joinToken,
			"--discovery-token-ca-cert-hash", pki.PinOf(certs[0]).String()},
		"join by a file": {"join", "--discovery-file", discoveryFile, "--tls-bootstrap-token",
			joinToken},
	} {
		r := findCommandLine(name).finish(t)
		r.commandLine.args = func(testing.TB) []string { return args }
		overwriteFile(r.machine, discoveryFile, file)
		before := r.snapshot(t)
		out, err := r.run(t, r.machine)
		if err == nil || !strings.Contains(err.Error(), "a different cluster") ||
			r.snapshot(t) != before {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestRerunOfJoinNamesDeletedNode(t *testing.T) {
	r := findCommandLine("join").finish(t)
	delete(r.machine.Objects, memory.Key{Kind: state.NodeKind.GroupKind(), Name: "worker1"})
	kubelet := r.machine.Services["kubelet"]
	kubelet.Since = kubelet.Since.Add(-time.Minute) // one that has just started may register it yet
	r.machine.Services["kubelet"] = kubelet
	before := r.snapshot(t)
	_, err := r.run(t, r.machine)
	if err == nil || !strings.Contains(err.Error(), "no Node worker1") ||
		!slices.Contains(problem.Hints(err),
			"restart the kubelet, which registers it again: systemctl restart kubelet") {
		t.Errorf("%v, %q", err, problem.Hints(err))
	}
	if diff := diffLines(before, r.snapshot(t)); diff != "" {
		t.Errorf("after the re-run (-before +after):\n%s", diff)
	}
}

// A re-run without --skip-phases does not run the phases that the finished run skipped, and names
// them.
func TestRerunOfInitNamesSkippedPhases(t *testing.T) {
	r := findCommandLine("init that skips a phase").finish(t)
	r.commandLine.args = findCommandLine("init").args
	before := r.snapshot(t)
	out, err := r.run(t, r.machine)
	if err != nil || !strings.Contains(out, "kubeadm init phase mark-control-plane") ||
		r.snapshot(t) != before {
		t.Errorf("%v\n%s", err, out)
	}
}

// Whether one read fails or that one and all later reads: a finished command changes nothing.
func TestRerunChangesNothingWhateverReadFails(t *testing.T) {
	failures := map[string]error{
		"an error":  fault.ErrInjected,
		"not found": notFoundError{},
		"connection refused": &url.Error{Op: "Get", URL: "https://192.0.2.10:6443",
			Err: syscall.ECONNREFUSED},
	}
	forEachFinished(t, func(t *testing.T, r finishedRun) {
		before := r.snapshot(t)
		healthy := r.clone(t)
		counting := &fault.Reads{World: healthy.machine, At: -1}
		if out, err := healthy.run(t, counting); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if counting.Count() < 5 {
			t.Fatalf("only %d reads were seen", counting.Count())
		}
		for what, failure := range failures {
			for at := range counting.Count() {
				for _, later := range []bool{false, true} {
					one := r.clone(t)
					out, err := one.run(t,
						&fault.Reads{World: one.machine, At: at, Later: later, Err: failure})
					if diff := diffLines(before, one.snapshot(t)); diff != "" {
						t.Fatalf("read %d returns %s, all later ones too: %v; the run returned %v (-before +after):\n%s\n%s", at, what, later, err, diff, out)
					}
				}
			}
		}
	})
}

// notFoundError is the error of a read that finds neither file nor object.
type notFoundError struct{}

func (notFoundError) Error() string { return "not found" }

func (notFoundError) Is(target error) bool { return target == fs.ErrNotExist }

func (notFoundError) As(target any) bool {
	if status, ok := target.(*apierrors.APIStatus); ok {
		*status = apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, "x")
		return true
	}
	return false
}
