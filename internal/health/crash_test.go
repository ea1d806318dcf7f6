package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// simulatedRuntime is a machine with containers, a clock and an API server.
type simulatedRuntime struct {
	state.Reader
	now        time.Time
	containers []state.Container
	livez      error
}

func (r *simulatedRuntime) Now() time.Time { return r.now }

func (r *simulatedRuntime) Containers(context.Context, string) ([]state.Container, error) {
	return r.containers, nil
}

func (r *simulatedRuntime) Livez(context.Context, state.Identity) error { return r.livez }

func (r *simulatedRuntime) Stat(context.Context, string) (state.FileInfo, error) {
	return state.FileInfo{}, errors.New("no such file")
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// ended is the failed container of the n-th start of a scheduler Pod, from 0.
func ended(id string, n uint32, log string) state.Container {
	return state.Container{ID: id, Name: "kube-scheduler", Component: "kube-scheduler", ExitCode: 1,
		Attempt: n, Log: log, Created: start}
}

// of is the same container for another component.
func of(component string, c state.Container) state.Container {
	c.Name, c.Component = component, component
	return c
}

// running is the same container while it runs.
func running(c state.Container) state.Container {
	c.Running, c.ExitCode, c.Log = true, 0, ""
	return c
}

func TestWaitGivesUpForCrashesDuringWait(t *testing.T) {
	other := ended("x", 9, "unknown flag")
	other.Component = "" // of a Pod that only has such a name
	line := func(n int) string {
		return fmt.Sprintf("E0101 12:00:0%d.000 %d run.go:72] no etcd at 0xc00%d", n, 1000+n, n)
	}
	for name, c := range map[string]struct {
		looks   [][]state.Container
		givesUp bool
	}{
		"ends once": {[][]state.Container{{}, {ended("a", 0, "")}}, false},
		"ends for the fifth time": {[][]state.Container{{}, {ended("a", 0, "")},
			{ended("b", 3, ""), ended("c", 4, "")}}, true},
		"the Pod had been started before": {[][]state.Container{{}, {ended("a", 5, "")}}, false},
		"an earlier Pod had been started before": {[][]state.Container{
			{withUID("old", ended("a", 1, ""))}, {withUID("new", ended("b", 25, ""))}}, false},
		"an earlier Pod ends for the fifth time": {[][]state.Container{
			{withUID("old", ended("a", 1, ""))}, {withUID("new", ended("b", 25, ""))},
			{withUID("new", ended("c", 29, ""))}}, true},
		"refuses its arguments": {[][]state.Container{{},
			{ended("a", 0, "unknown flag: --x")}}, true},
		"ended often before the wait": {[][]state.Container{{ended("a", 7, "")},
			{ended("a", 7, "")}}, false},
		"refused arguments before": {[][]state.Container{{ended("a", 0, "unknown flag: --x")},
			{ended("a", 0, "unknown flag: --x")}}, false},
		"before, and once more": {[][]state.Container{{ended("a", 7, "")},
			{ended("b", 8, "")}}, false},
		"before, and five times more": {[][]state.Container{{ended("a", 7, "")},
			{ended("b", 12, "")}}, true},
		"before, in a Pod since changed": {[][]state.Container{{ended("a", 7, "")},
			{ended("a", 7, ""), ended("b", 0, "")}}, false},
		"ran when the wait began": {[][]state.Container{{running(ended("a", 0, ""))},
			{ended("a", 0, "unknown flag: --x")}}, true},
		"had ended often, ran, ends": {[][]state.Container{{running(ended("a", 7, ""))},
			{ended("a", 7, "")}}, false},
		"a namesake elsewhere": {[][]state.Container{{}, {other}}, false},
		"three times with the same lines": {[][]state.Container{{}, {ended("a", 0, line(1))},
			{ended("b", 1, line(2))},
			{running(ended("c", 2, ""))}, {ended("c", 2, line(3))}}, true},
		"twice with the same lines": {[][]state.Container{{}, {ended("a", 0, line(1))},
			{ended("b", 1, line(2))}, {ended("b", 1, line(2))}}, false},
		"three times with other lines": {[][]state.Container{{}, {ended("a", 0, line(1))},
			{ended("b", 1, "no space")}, {ended("c", 2, line(3))}}, false},
		"three times without any lines": {[][]state.Container{{}, {ended("a", 0, "")},
			{ended("b", 1, "")}, {ended("c", 2, "")}}, false},
		"the same lines as before the wait": {[][]state.Container{{ended("a", 0, line(1))},
			{ended("b", 1, line(2))}, {ended("c", 2, line(3))}},
			false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &simulatedRuntime{now: start}
			d := diagnosis{watches: []*crashWatch{{component: "kube-scheduler"}}}
			var err error
			for _, r.containers = range c.looks {
				r.now = r.now.Add(lookInterval)
				err = d.addCause(t.Context(), r, errors.New("no answer"))
			}
			if err == nil || world.IsPermanent(err) != c.givesUp {
				t.Errorf("%v; gives up: %v", err, world.IsPermanent(err))
			}
		})
	}
}

// The API server exits repeatedly while the image of etcd is being pulled. That is no reason to
// give up.
func TestAPIServerWaitsForEtcd(t *testing.T) {
	etcd := of("etcd", ended("e", 0, ""))
	for name, c := range map[string]struct {
		beside  []state.Container
		givesUp bool
	}{
		"etcd does not exist yet": {nil, false},
		"etcd has ended":          {[]state.Container{etcd}, false},
		"etcd runs":               {[]state.Container{running(etcd)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &simulatedRuntime{now: start, livez: syscall.ECONNREFUSED}
			wait := APIServer(&node.Node{}, state.Identity{})
			err := wait.Check(t.Context(), r)
			for i, id := range []string{"a", "b", "c"} {
				server := of(release.APIServer,
					ended(id, uint32(i), "etcd grpc connection not ready\n"))
				r.now, r.containers = r.now.Add(lookInterval),
					append([]state.Container{server}, c.beside...)
				err = wait.Check(t.Context(), r)
			}
			if world.IsPermanent(err) != c.givesUp ||
				!strings.Contains(err.Error(), "etcd grpc connection not ready") {
				t.Errorf("%v; gives up: %v", err, world.IsPermanent(err))
			}
		})
	}
}

// deadline is the error of an HTTP client if the server does not answer.
type deadline struct{ error }

func (deadline) Timeout() bool { return true }

// A component that fails refuses connections, does not answer and restarts, in turn. The last
// check says least.
func TestMostInformativeCauseIsKept(t *testing.T) {
	refused, silent := fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		deadline{errors.New("no answer in time")}
	sick := errors.New("it answered 500; these checks fail: etcd")
	crashed := of(release.APIServer,
		ended("a", 0, "E0101 12:00:00.0 1 run.go:72] \"command failed\" err=\"etcd grpc connection not ready\"\n"))
	next := running(of(release.APIServer, ended("b", 1, "")))
	type look struct {
		livez      error
		containers []state.Container
	}
	for name, c := range map[string]struct {
		looks       []look
		says, lacks string
	}{
		"refused, then silent": {[]look{{refused, nil}, {silent, nil}},
			"connection refused; at the last check: no answer in time", ""},
		"silent, then refused": {[]look{{silent, nil}, {refused, nil}},
			"dial: connection refused", "no answer"},
		"sick, then refused": {[]look{{sick, nil}, {refused, nil}},
			"fail: etcd; at the last check: dial: connection refused", ""},
		"crashed, then refused": {[]look{{silent, nil}, {refused, []state.Container{crashed}},
			{refused, []state.Container{crashed, next}}},
			`etcd grpc connection not ready\""; at the last check: dial: connection refused`, ""},
		"crashed, then silent": {[]look{{silent, nil}, {refused, []state.Container{crashed}},
			{silent, []state.Container{crashed, next}}},
			`etcd grpc connection not ready\""; at the last check: no answer in time`, ""},
		"crashed, and was removed": {[]look{{silent, nil}, {refused, []state.Container{crashed}},
			{refused, []state.Container{next}}}, "etcd grpc connection not ready", ""},
		"crashed, and was replaced": {[]look{{silent, nil}, {refused, []state.Container{crashed}},
			{refused, nil}}, "dial: connection refused", "grpc"},
		"crashed unseen": {[]look{{refused, nil},
			{refused, []state.Container{crashed, next}}}, "etcd grpc connection not ready", ""},
		"crashed before the wait": {[]look{{refused, []state.Container{crashed, next}},
			{refused, []state.Container{crashed, next}}}, "dial: connection refused", "grpc"},
		"etcd crashed too": {[]look{{refused, nil},
			{refused, []state.Container{crashed, of("etcd", ended("e", 0, "no space left\n"))}}},
			`container etcd exited with code 1 (start 1): "no space left"; container kube-apiserver exited`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &simulatedRuntime{now: start}
			wait := APIServer(&node.Node{}, state.Identity{})
			var err error
			for _, l := range c.looks {
				r.now, r.livez, r.containers = r.now.Add(lookInterval), l.livez, l.containers
				err = wait.Check(t.Context(), r)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || c.lacks != "" &&
				strings.Contains(err.Error(), c.lacks) {
				t.Errorf("got  %v\nwant %s\nand not %q", err, c.says, c.lacks)
			}
		})
	}
}

func TestMissingContainersAreNamed(t *testing.T) {
	external := &node.Node{}
	external.Cluster.Etcd.External = &node.ExternalEtcd{}
	server := running(of(release.APIServer, ended("a", 0, "")))
	for name, c := range map[string]struct {
		n          *node.Node
		containers []state.Container
		says       string
	}{
		"both": {&node.Node{}, nil,
			"; there is no container of etcd, kube-apiserver"},
		"etcd": {&node.Node{}, []state.Container{server},
			"; there is no container of etcd"},
		"none": {&node.Node{},
			[]state.Container{server, running(of("etcd", ended("e", 0, "")))}, ""},
		"etcd that is elsewhere": {external, []state.Container{server}, ""},
	} {
		r := &simulatedRuntime{now: start, livez: errors.New("no answer"), containers: c.containers}
		if got, want := APIServer(c.n, state.Identity{}).Check(t.Context(), r).Error(),
			"no answer"+c.says; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestHintNamesEtcdServersArgument(t *testing.T) {
	n := &node.Node{}
	n.Cluster.APIServer.Args = []node.Arg{{Name: "etcd-servers", Value: "https://192.0.2.9:2379"}}
	hints := strings.Join(problem.Hints(WithComponentHints(n, errors.New("no answer"))), "\n")
	if !strings.Contains(hints,
		`etcd-servers to "https://192.0.2.9:2379": check that etcd answers there`) {
		t.Errorf("the hints are\n%s", hints)
	}
}

func TestComponentRecovers(t *testing.T) {
	r := &simulatedRuntime{now: start, livez: errors.New("it answered 500")}
	wait := APIServer(&node.Node{}, state.Identity{})
	_ = wait.Check(t.Context(), r)
	crashed, next := of(release.APIServer, ended("a", 0, "no space\n")),
		running(of(release.APIServer, ended("b", 1, "")))
	for i, want := range []bool{true, false} {
		age := recoveredAfter + time.Duration(i-1)*time.Second
		r.now, r.containers = start.Add(age), []state.Container{crashed, next}
		if err := wait.Check(t.Context(), r); strings.Contains(err.Error(), "no space") != want {
			t.Errorf("after %s: %v", age, err)
		}
	}
}

// TestCauseBetweenTwoLooks looks twice within the time in which containers are looked at once.
func TestCauseBetweenTwoLooks(t *testing.T) {
	r := &simulatedRuntime{now: start, containers: []state.Container{ended("a", 0, "no space left")}}
	d := diagnosis{watches: []*crashWatch{{component: "kube-scheduler"}}}
	for range 2 {
		if err := d.addCause(t.Context(), r,
			errors.New("no answer")); !strings.Contains(err.Error(), "no space left") {
			t.Errorf("the cause is not told: %v", err)
		}
		r.now = r.now.Add(lookInterval / 4)
	}
}
