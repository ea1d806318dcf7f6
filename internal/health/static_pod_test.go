package health

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// probedMachine is a machine whose components answer at the URLs in answers.
type probedMachine struct {
	simulatedRuntime
	answers []string
	kubelet bool
	asked   state.Identity // of the last request to the API server
}

func (p *probedMachine) Livez(_ context.Context, as state.Identity) error {
	p.asked = as
	return p.livez
}

func (p *probedMachine) Fetch(_ context.Context, req state.Request) (state.Response, error) {
	if slices.Contains(p.answers, req.URL) && req.Loopback {
		return state.Response{Status: 200}, nil
	}
	return state.Response{}, errors.New("connection refused")
}

func (p *probedMachine) Service(context.Context, string) (state.Service, error) {
	return state.Service{Exists: true, Active: p.kubelet}, nil
}

func parsePod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

const schedulerPod = `
spec:
  containers:
  - name: kube-scheduler
    ports: [{name: probe-port, containerPort: 7}]
    startupProbe: {httpGet: {host: "::1", path: /livez, port: probe-port, scheme: HTTPS}}
`

const schedulerURL = "https://[::1]:7/livez"

// withUID returns a container of the Pod with that UID.
func withUID(uid string, c state.Container) state.Container {
	c.PodUID, c.ID = uid, uid+c.ID
	return c
}

func TestStaticPodCondition(t *testing.T) {
	previous, wanted := withUID("old", running(ended("a", 0, ""))),
		withUID("new", running(ended("b", 0, "")))
	rejects := withUID("new", ended("c", 0, "unknown flag: --x\n"))
	exitsOnce := withUID("new", ended("c", 0, "no space left\n"))
	for name, c := range map[string]struct {
		containers []state.Container
		ignored    []string
		unhealthy  bool // it does not answer
		want       string
		permanent  bool
	}{
		"healthy": {containers: []state.Container{wanted}},
		"healthy beside exited container of old Pod": {containers: []state.Container{withUID("old",
			ended("a", 0, "unknown flag")), wanted}},
		"not started": {
			want: "no container of this manifest is running; " +
				"there is no container of kube-scheduler"},
		"old Pod": {containers: []state.Container{previous},
			want: "the container of another manifest is still running"},
		"both Pods": {containers: []state.Container{previous, wanted},
			want: "is still running"},
		"does not answer": {containers: []state.Container{wanted}, unhealthy: true,
			want: "connection refused"},
		"rejected argument": {containers: []state.Container{rejects},
			want: "unknown flag: --x", permanent: true},
		"rejected argument before": {containers: []state.Container{rejects},
			ignored: []string{rejects.ID}, want: "unknown flag: --x"},
		"one exit": {containers: []state.Container{exitsOnce},
			want: "no space left"},
		"one exit of a Pod with a manifest that it had before": {
			containers: []state.Container{withUID("new", ended("c", 25, "no space left\n"))},
			want:       "no space left"},
		"old Pod rejected an argument": {containers: []state.Container{withUID("old",
			ended("a", 0, "unknown flag"))}, want: "there is no container of"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &probedMachine{simulatedRuntime: simulatedRuntime{now: start, containers: c.containers}}
			if !c.unhealthy {
				p.answers = []string{schedulerURL}
			}
			wait := newTestCondition(t, StaticPod{
				Component: "kube-scheduler", Pod: parsePod(t, schedulerPod), IgnoreExits: c.ignored,
				Matches: func(c state.Container) bool { return c.PodUID != "old" },
			})
			err := wait.Check(t.Context(), p)
			if c.want == "" && err != nil || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if world.IsPermanent(err) != c.permanent {
				t.Errorf("permanent: %v", world.IsPermanent(err))
			}
		})
	}
}

func newTestCondition(t *testing.T, p StaticPod) world.Condition {
	t.Helper()
	n := &node.Node{Local: node.Local{Address: "192.0.2.1", BindPort: 6443}}
	wait, err := p.Condition(n, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

func TestKeptPodIsAccepted(t *testing.T) {
	p := &probedMachine{simulatedRuntime: simulatedRuntime{now: start,
		containers: []state.Container{withUID("old", running(ended("a", 0, "")))}},
		answers: []string{schedulerURL}}
	wait := newTestCondition(t, StaticPod{
		Component: "kube-scheduler", Pod: parsePod(t, schedulerPod), KeptPodAfter: time.Minute,
		Matches: func(c state.Container) bool { return c.PodUID != "old" },
	})
	for _, c := range []struct {
		after   time.Duration
		kubelet bool
		met     bool
	}{{0, true, false}, {time.Minute - 1, true, false}, {time.Minute, false, false},
		{time.Minute, true, true}} {
		p.now, p.kubelet = start.Add(c.after), c.kubelet
		if err := wait.Check(t.Context(), p); (err == nil) != c.met {
			t.Errorf("after %s, kubelet %v: %v", c.after, c.kubelet, err)
		}
	}
}

func TestStableFor(t *testing.T) {
	p := &probedMachine{simulatedRuntime: simulatedRuntime{now: start,
		containers: []state.Container{running(ended("a", 0, ""))}}}
	wait := newTestCondition(t, StaticPod{
		Component: "kube-scheduler", Pod: parsePod(t, schedulerPod), StableFor: 5 * time.Second,
		Matches: func(state.Container) bool { return true },
	})
	for i, answers := range []bool{true, true, false, true, true, true} {
		p.now, p.answers = p.now.Add(3*time.Second), nil
		if answers {
			p.answers = []string{schedulerURL}
		}
		if err := wait.Check(t.Context(), p); (err == nil) != (i == 5) {
			t.Errorf("check %d: %v", i, err)
		}
	}
}

func TestAPIServerIdentity(t *testing.T) {
	p := &probedMachine{simulatedRuntime: simulatedRuntime{now: start,
		containers: []state.Container{running(of(release.APIServer, ended("a", 0, "")))}}}
	wait := newTestCondition(t, StaticPod{
		Component: release.APIServer,
		Pod:       parsePod(t, "spec: {containers: [{name: kube-apiserver}]}"),
		As: state.Identity{Kubeconfig: "/admin.conf",
			Server: "https://load-balancer.example:6443"},
		Matches: func(state.Container) bool { return true },
	})
	if err := wait.Check(t.Context(), p); err != nil ||
		!strings.Contains(wait.Name, "https://192.0.2.1:6443/livez") {
		t.Errorf("%s: %v", wait.Name, err)
	}
	if p.asked.Server != "https://192.0.2.1:6443" || p.asked.Kubeconfig != "/admin.conf" {
		t.Errorf("asked as %+v", p.asked)
	}
	p.livez = errors.New("it answered 500")
	if err := wait.Check(t.Context(), p); err == nil ||
		!strings.Contains(err.Error(), "it answered 500") {
		t.Error(err)
	}
}

// refusing is a machine whose API server answers every request with a status.
type refusing struct {
	probedMachine
	status int
}

func (r *refusing) Fetch(context.Context, state.Request) (state.Response, error) {
	return state.Response{Status: r.status}, nil
}

func TestAnonymousAPIServer(t *testing.T) {
	r := &refusing{probedMachine: probedMachine{simulatedRuntime: simulatedRuntime{now: start, livez: errors.New("bad credential"),
		containers: []state.Container{running(of(release.APIServer, ended("a", 0, "")))}}}}
	wait := newTestCondition(t, StaticPod{Component: release.APIServer, Anonymous: true,
		Pod:     parsePod(t, "spec: {containers: [{name: kube-apiserver}]}"),
		Matches: func(state.Container) bool { return true }})
	for status, isAlive := range map[int]bool{200: true, 401: true, 403: true, 500: false} {
		r.status = status
		if err := wait.Check(t.Context(), r); (err == nil) != isAlive {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestProbeURL(t *testing.T) {
	n := &node.Node{Local: node.Local{Address: "192.0.2.1"}}
	for name, c := range map[string]struct{ component, pod, want, wantErr string }{
		"startup probe": {"kube-scheduler", schedulerPod, schedulerURL, ""},
		"number, no host and scheme": {"etcd",
			"spec: {containers: [{name: etcd, livenessProbe: {httpGet: {path: /x, port: 9}}}]}",
			"http://127.0.0.1:9/x", ""},
		"none, etcd": {"etcd", "spec: {containers: [{name: etcd}]}",
			"http://127.0.0.1:2381/health", ""},
		"none, controller manager": {release.ControllerManager,
			"spec: {containers: [{name: kube-controller-manager}]}",
			"https://127.0.0.1:10257/healthz", ""},
		"none, scheduler": {release.Scheduler, "spec: {containers: [{name: kube-scheduler}]}",
			"https://127.0.0.1:10259/livez", ""},
		"unknown port": {"etcd",
			"spec: {containers: [{name: etcd, livenessProbe: {httpGet: {port: nope}}}]}", "",
			"no port nope"},
		"no container": {"etcd", "spec: {containers: [{name: other}]}", "", `no container "etcd"`},
	} {
		got, err := probeURL(parsePod(t, c.pod), c.component, n)
		if got != c.want || c.wantErr == "" && err != nil || c.wantErr != "" &&
			(err == nil || !strings.Contains(err.Error(), c.wantErr)) {
			t.Errorf("%s: got %q and %v", name, got, err)
		}
	}
}

func TestRejectedArgument(t *testing.T) {
	for line, want := range map[string]string{
		`Error: unknown flag: --profilingg`:                                 "--profilingg",
		`flag provided but not defined: -nope`:                              "-nope",
		`invalid value "x" for flag -quota-backend-bytes: parse error`:      "-quota-backend-bytes",
		`invalid argument "Foo=1" for "--feature-gates" flag: unrecognized`: "--feature-gates",
		`unknown shorthand flag: 'x' in -xyz`:                               "-xyz",
		`open /nope: no such file`:                                          "",
	} {
		for _, err := range []error{errors.New(line),
			errors.New("exited: \"" + strings.ReplaceAll(line, `"`, `\"`) + "\"")} {
			if got := RejectedArgument(err); got != want {
				t.Errorf("%s: got %q, want %q", err, got, want)
			}
		}
	}
	if got := RejectedArgument(nil); got != "" {
		t.Errorf("got %q", got)
	}
}
