package kubeletwatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// machine is one with the kubelet's service, its log, containers and a clock.
type machine struct {
	state.Reader
	now        time.Time
	service    state.Service
	log        string
	containers []state.Container
}

func (m *machine) Now() time.Time { return m.now }

func (m *machine) Service(context.Context, string) (state.Service, error) { return m.service, nil }

func (m *machine) ServiceLog(context.Context, string, time.Time, int) (string, error) {
	return m.log, nil
}

func (m *machine) Containers(context.Context, string) ([]state.Container, error) {
	return m.containers, nil
}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// runs is a kubelet that was restarted that often and runs since that second.
func runs(restarts uint32, since int) state.Service {
	return state.Service{Exists: true, Enabled: true, Active: true, Restarts: restarts,
		Since: begin.Add(time.Duration(since) * time.Second)}
}

// exited is one that exited in that second and is about to be restarted.
func exited(restarts uint32, at int) state.Service {
	end := begin.Add(time.Duration(at) * time.Second)
	return state.Service{Exists: true, Enabled: true, Active: true, Restarts: restarts,
		LastExit: state.Exit{Started: end.Add(-time.Second), Time: end, Code: 2}}
}

// look is what the machine shows in that second.
type look struct {
	at      int
	service state.Service
	log     string
}

const panicked = `I0101 00:00:01.0 1 server.go:1] "Golang settings"
panic: failed to merge global and in-flight KubeletConfiguration, error: cannot register gate X

goroutine 1 [running]:
k8s.io/kubernetes/cmd/kubelet/app.loadConfigFile({0x6040110, 0x9e36ce0}, {0x7ffd20cac9f1, 0x6})
	k8s.io/kubernetes@v1.37.1/cmd/kubelet/app/server.go:464 +0x23f
main.main()
	kubeadm/components/kubernetes/hyperkube/main.go:49 +0x1ad
`

func inotify(pid int) string {
	return fmt.Sprintf("E0101 00:00:01.0 %d kubelet.go:1688] \"Failed to start cAdvisor\" err=\"inotify_init: too many open files\"\n", pid)
}

// TestExitsAreNamedAndCounted runs a kubelet that was started in second 0.
func TestExitsAreNamedAndCounted(t *testing.T) {
	failed := exited(0, 1)
	failed.Active = false
	for name, c := range map[string]struct {
		looks       []look
		says, lacks string
		givesUp     bool
	}{
		"it runs": {looks: []look{{1, runs(0, 0), inotify(1)}}, lacks: "kubelet"},
		"a panic, not its stack": {looks: []look{{1, exited(0, 1), panicked}},
			says: `the kubelet exited with code 2: "panic: failed to merge global`, lacks: "main.go"},
		"the same panic three times": {looks: []look{{1, exited(0, 1), panicked},
			{11, exited(1, 11), panicked}, {12, runs(2, 12), ""}, {21, exited(2, 21), panicked}},
			says: "(3 times)", givesUp: true},
		"healthy once, then too many open files": {looks: []look{{1, runs(0, 0), ""},
			{40, runs(0, 0), ""}, {41, exited(0, 41), inotify(1)}, {52, exited(1, 52), inotify(2)},
			{63, exited(2, 63), inotify(3)}}, says: "too many open files", givesUp: true},
		"a setting that cannot work": {looks: []look{{1, exited(0, 1),
			"E0101 00:00:01.0 1 run.go:72] \"command failed\" err=\"unrecognized feature gate: X\"\n"}},
			says: "unrecognized feature gate", givesUp: true},
		"it exited before it was started": {looks: []look{{1, exited(9, -3), panicked}},
			lacks: "kubelet"},
		"two exits between two looks": {looks: []look{{1, runs(0, 0), ""}, {2, runs(2, 2), panicked}},
			says: "the kubelet exited: "},
		"the container runtime restarts": {looks: []look{
			{1, exited(0, 1), "E0101 00:00:01.0 1 run.go:72] \"command failed\" err=\"dial unix /run/c.sock: connection refused\"\n"},
			{11, exited(1, 11), "E0101 00:00:01.0 1 run.go:72] \"command failed\" err=\"dial unix /run/c.sock: connection refused\"\n"},
			{21, exited(2, 21), "E0101 00:00:01.0 1 run.go:72] \"command failed\" err=\"dial unix /run/c.sock: connection refused\"\n"}},
			says: "connection refused"},
		"other errors five times": {looks: []look{{1, exited(0, 1), "a"}, {11, exited(1, 11), "b"},
			{21, exited(2, 21), "c"}, {31, exited(3, 31), "d"}, {41, exited(4, 41), "e"}},
			says: `(5 times): "e"`, givesUp: true},
		"it has recovered": {looks: []look{{1, exited(0, 1), panicked}, {11, runs(1, 11), ""},
			{72, runs(1, 11), ""}}, lacks: "kubelet"},
		"it was just restarted": {looks: []look{{1, exited(0, 1), panicked}, {11, runs(1, 11), ""}},
			says: "at the last check: no answer"},
		"systemd does not restart it": {looks: []look{{1, failed, "a"}, {2, failed, "a"}},
			says: "code 2", givesUp: true},
		"the log is late": {looks: []look{{1, exited(0, 1), ""}, {2, exited(0, 1), panicked}},
			says: "panic: failed"},
		"it was stopped":      {looks: []look{{1, state.Service{Exists: true}, panicked}}, lacks: "kubelet"},
		"there is no kubelet": {looks: []look{{1, state.Service{}, panicked}}, lacks: "kubelet"},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch
			w.Begin(begin)
			m := &machine{}
			var err error
			for _, l := range c.looks {
				m.now = begin.Add(time.Duration(l.at) * time.Second)
				m.service, m.log = l.service, l.log
				err = w.AddCause(t.Context(), m, "", errors.New("no answer"))
			}
			if text := err.Error(); !strings.Contains(text, c.says) ||
				c.lacks != "" && strings.Contains(text, c.lacks) || world.IsPermanent(err) != c.givesUp {
				t.Errorf("%s; gives up: %v", text, world.IsPermanent(err))
			}
		})
	}
}

// A kubelet that exited before a command began to wait for it is named, but the command waits: the
// user may have fixed that.
func TestExitBeforeWaitIsNamed(t *testing.T) {
	var w Watch
	m := &machine{now: begin, service: exited(7, -1), log: "unknown flag: --x\n"}
	for range 2 {
		err := w.AddCause(t.Context(), m, "", errors.New("no answer"))
		if world.IsPermanent(err) || !strings.Contains(err.Error(), "unknown flag: --x") {
			t.Errorf("%v", err)
		}
		m.now = m.now.Add(lookInterval)
	}
	m.service = exited(8, 1)
	if err := w.AddCause(t.Context(), m, "", errors.New("no answer")); !world.IsPermanent(err) {
		t.Errorf("after one more exit: %v", err)
	}
}

func TestCauseIsAddedOnce(t *testing.T) {
	m := &machine{now: begin, service: exited(0, 1), log: "boom\n"}
	var inner, outer Watch
	outer.Begin(begin)
	err := inner.AddCause(t.Context(), m, "", errors.New("no answer"))
	err = outer.AddCause(t.Context(), m, "", err)
	if strings.Count(err.Error(), "boom") != 1 {
		t.Error(err)
	}
	final := world.Permanent(errors.New("removed"))
	if got := outer.AddCause(t.Context(), m, "", final); !errors.Is(got, final) {
		t.Error(got)
	}
	if err := outer.AddCause(t.Context(), m, "", nil); err != nil {
		t.Error(err)
	}
}

// syncLine is what the kubelet 1.37 logs when it cannot create a sandbox.
func syncLine(second int, pod, action, reason, text string) string {
	return fmt.Sprintf("E0101 00:00:%02d.1 700 pod_workers.go:1324] \"Error syncing pod, skipping\" err=%q pod=%q podUID=\"0123\"\n",
		second, fmt.Sprintf("failed to %q for %q with %s: %q", action, pod+"_kube-system(0123)", reason,
			fmt.Sprintf("Failed to do that for pod \"%s\": rpc error: code = Unknown desc = %s", pod, text)),
		"kube-system/"+pod)
}

func TestSandboxFailures(t *testing.T) {
	sandbox := func(second int, text string) string {
		return syncLine(second, "etcd-cp1", "CreatePodSandbox", "CreatePodSandboxError", text)
	}
	const runc = "failed to start sandbox: runc create failed: exec: \"/usr/bin/runc\": permission denied"
	json := `{"ts":1,"caller":"kubelet/pod_workers.go:1324","msg":"Error syncing pod, skipping","pod":{"name":"etcd-cp1","namespace":"kube-system"},"err":"failed to \"CreatePodSandbox\" for \"etcd-cp1_kube-system(1)\" with CreatePodSandboxError: \"rpc error: code = Unknown desc = no runc\""}` + "\n"
	for name, c := range map[string]struct {
		log        string
		containers []state.Container
		says       string
		givesUp    bool
	}{
		"nothing": {log: "I0101 fine\n"},
		"once": {log: sandbox(1, runc),
			says: `the container runtime cannot create the sandbox of Pod etcd-cp1: "failed to start sandbox: runc`},
		"three times": {log: sandbox(1, runc) + sandbox(12, runc) + sandbox(25, runc), says: "(3 attempts)",
			givesUp: true},
		"three errors": {log: sandbox(1, "a") + sandbox(12, "b") + sandbox(25, "c"), says: `"c"`},
		"the registry does not answer": {log: strings.Repeat(sandbox(1,
			"failed to pull image \"registry.k8s.io/pause:3.10.2\": dial tcp: i/o timeout"), 4),
			says: "(4 attempts): \"failed to pull image"},
		"it runs by now": {log: sandbox(1, runc), containers: []state.Container{
			{Name: "etcd", Pod: "etcd-cp1", Namespace: "kube-system", Running: true}}},
		"another one runs": {log: sandbox(1, runc), containers: []state.Container{
			{Name: "x", Pod: "kube-scheduler-cp1", Namespace: "kube-system", Running: true}}, says: "etcd-cp1"},
		"a missing image": {log: syncLine(1, "kube-apiserver-cp1", "StartContainer", "ErrImagePull",
			"manifest unknown"), says: `the kubelet cannot start Pod kube-apiserver-cp1: StartContainer: ErrImagePull: "manifest unknown"`},
		"a crashing container has its own cause": {log: syncLine(1, "etcd-cp1", "StartContainer",
			"CrashLoopBackOff", "back-off 10s")},
		"a Pod of a user": {log: syncLine(1, "coredns-7b", "CreatePodSandbox", "CreatePodSandboxError", runc)},
		"JSON":            {log: json, says: `etcd-cp1: "no runc"`},
		"escapes": {log: sandbox(1, "\x1b[2Jcleared"),
			says: `etcd-cp1: "\x1b[2Jcleared"`},
		"cut in the middle": {log: sandbox(1, runc)[:90]},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch
			w.Begin(begin)
			m := &machine{now: begin.Add(logInterval), service: runs(0, 0), log: c.log,
				containers: c.containers}
			err := w.AddCause(t.Context(), m, "", errors.New("no answer"))
			if c.says == "" && err.Error() != "no answer" || !strings.Contains(err.Error(), c.says) ||
				world.IsPermanent(err) != c.givesUp {
				t.Errorf("%v; gives up: %v", err, world.IsPermanent(err))
			}
		})
	}
}
