package check_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/check"
	"kubeadm/internal/release"
	"kubeadm/internal/world/fake"
)

const scheduler = "registry.k8s.io/kube-scheduler:v1.37.1"

// asked is a run of a preflight phase: its machine, node and events.
type asked struct {
	*fake.World
	node   *node.Node
	mu     sync.Mutex
	events []engine.Event
}

// machine returns a machine that can become the first control plane.
func machine() *asked {
	w := fake.New()
	return &asked{World: w, node: &node.Node{
		Local: node.Local{
			Name: "cp1", Role: node.ControlPlane, Address: "192.0.2.10", BindPort: 6443,
			CRISocket:  w.Sockets[0],
			PullPolicy: corev1.PullIfNotPresent, PullSerially: true, Paths: node.DefaultPaths(),
		},
		Cluster: node.Cluster{
			Version: "v1.37.1", ImageRepository: "registry.k8s.io", ServiceSubnet: "10.96.0.0/12",
			Etcd: node.Etcd{DataDir: "/var/lib/etcd"},
		},
	}}
}

func (a *asked) run(t *testing.T, p engine.Phase) error {
	t.Helper()
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Env{
		World: a.World, Local: a.node.Local, Tool: tool,
		Emit: a.note,
		Node: func(context.Context) (*node.Node, error) { return a.node, nil },
	})
	return engine.Run(t.Context(), e, []engine.Phase{p}, engine.Selection{})
}

func (a *asked) note(e engine.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
}

// pulled returns the images that were pulled, in order.
func (a *asked) pulled() []string {
	var all []string
	for _, e := range a.events {
		if image, ok := e.Change.(change.PullImage); ok && e.Kind == engine.Did {
			all = append(all, image.Ref)
		}
	}
	return all
}

// doubts returns the checks that warned.
func (a *asked) doubts() []string {
	var all []string
	for _, e := range a.events {
		if e.Check != "" {
			all = append(all, e.Check)
		}
	}
	return all
}

func TestImagePullPolicy(t *testing.T) {
	for policy, want := range map[corev1.PullPolicy]int{corev1.PullIfNotPresent: 6,
		corev1.PullAlways: 7, corev1.PullNever: 0} {
		a := machine()
		a.node.PullPolicy = policy
		a.ImageList[scheduler] = true
		if err := a.run(t, check.Init); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
		if got := a.pulled(); len(got) != want {
			t.Errorf("%s: pulled %d, want %d: %v", policy, len(got), want, got)
		}
	}
}

func TestAllFailedImagesAreNamed(t *testing.T) {
	const etcd = "registry.k8s.io/etcd:3.7.0-0"
	for name, serially := range map[string]bool{"one after the other": true,
		"side by side": false} {
		a := machine()
		a.node.PullSerially = serially
		a.MissingImages = []string{scheduler, etcd}
		err := a.run(t, check.Init)
		if err == nil || !strings.Contains(err.Error(), "[ERROR ImagePull]") ||
			!strings.Contains(err.Error(), scheduler) || !strings.Contains(err.Error(), etcd) {
			t.Errorf("%s: %v", name, err)
		}
		if got := a.pulled(); len(got) != 5 {
			t.Errorf("%s: the others did not come: %v", name, got)
		}
	}
}

func TestIgnoredImagePull(t *testing.T) {
	for _, ignore := range []node.IgnoredChecks{{"imagepull"}, {"all"}} {
		a := machine()
		a.node.IgnoredChecks = ignore
		a.MissingImages = []string{scheduler}
		if err := a.run(t, check.Init); err != nil ||
			!slices.Equal(a.doubts(), []string{"ImagePull"}) {
			t.Errorf("ignoring %v: %v, doubts %v", ignore, err, a.doubts())
		}
	}
}

func TestUnreachableRuntimeIsReportedOnce(t *testing.T) {
	a := machine()
	a.Sockets = nil
	a.node.IgnoredChecks = node.IgnoredChecks{"cri", "containerruntimeversion"}
	err := a.run(t, check.Init)
	if err == nil || strings.Count(err.Error(), "is not responding") != 1 ||
		!strings.Contains(err.Error(), "[ERROR ImagePull]: images cannot be pulled") {
		t.Errorf("got %v", err)
	}
}

func TestFailedChecksStopLaterChecks(t *testing.T) {
	a := machine()
	a.Info.UserID, a.Info.CPUs = 1000, 1
	err := a.run(t, check.Init)
	if err == nil || !strings.Contains(err.Error(), "IsPrivilegedUser") ||
		strings.Contains(err.Error(), "NumCPU") {
		t.Errorf("who is not root: %v", err)
	}
	a.Info.UserID = 0
	err = a.run(t, check.Init)
	if err == nil || !strings.Contains(err.Error(), "NumCPU") || len(a.pulled()) != 0 {
		t.Errorf("one CPU: %v, pulled %v", err, a.pulled())
	}
}

func TestIgnoredFailuresAreWarnings(t *testing.T) {
	a := machine()
	a.Info.UserID, a.Info.CPUs = 1000, 1
	a.node.IgnoredChecks = node.IgnoredChecks{"numcpu", "isprivilegeduser"}
	if err := a.run(t, check.Init); err != nil {
		t.Fatal(err)
	}
	if got := a.doubts(); !slices.Equal(got, []string{"IsPrivilegedUser", "NumCPU"}) ||
		len(a.pulled()) != 7 {
		t.Errorf("doubts %v, pulled %v", got, a.pulled())
	}
}

func TestUnreachableRegistryIsAskedOnce(t *testing.T) {
	a := machine()
	a.UnreachableRegistries = []string{"registry.k8s.io"}
	err := a.run(t, check.Init)
	if err == nil || len(a.Attempts) != 1 || strings.Count(err.Error(), "no such host") != 1 ||
		strings.Count(err.Error(), "\n\t\tregistry.k8s.io/") != 7 {
		t.Errorf("asked for %q: %v", a.Attempts, err)
	}
}

func TestSandboxImageWarning(t *testing.T) {
	a := machine()
	a.CRI.SandboxImage = "registry.k8s.io/pause:3.1"
	if err := a.run(t, check.Init); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(a.events, func(e engine.Event) bool {
		return e.Kind == engine.Warned && strings.Contains(e.Text, "pause:3.1,") &&
			strings.Contains(e.Text, "pause:3.10.2")
	}) {
		t.Errorf("it is not told: %v", a.events)
	}
}

func TestWorkerPullsNothing(t *testing.T) {
	a := machine()
	a.node.Role = node.Worker
	a.node.CACertPath = "/etc/kubernetes/pki/ca.crt"
	if err := a.run(t, check.Join); err != nil || len(a.pulled()) != 0 {
		t.Errorf("%v, pulled %v", err, a.pulled())
	}
}

func TestControlPlaneJoinNeedsSharedEndpoint(t *testing.T) {
	a := machine()
	if err := a.run(t, check.Join); err == nil ||
		!strings.Contains(err.Error(), "controlPlaneEndpoint") {
		t.Errorf("without an endpoint: %v", err)
	}
	a.node.Cluster.Endpoint = "cluster.example:6443"
	err := a.run(t, check.Join)
	for _, missing := range []string{"pki/ca.crt", "front-proxy-ca.crt", "etcd/ca.crt", "sa.key",
		"sa.pub"} {
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without certificates: %s is not named in %v", missing, err)
		}
	}
	a.node.CertificateKey = strings.Repeat("0", 64)
	if err := a.run(t, check.Join); err != nil || len(a.pulled()) != 7 {
		t.Errorf("with a certificate key: %v, pulled %v", err, a.pulled())
	}
}

func TestResetChecksForRootOnly(t *testing.T) {
	a := machine()
	a.Info.CPUs, a.Sockets = 1, nil
	if err := a.run(t, check.Reset); err != nil {
		t.Error(err)
	}
	a.Info.UserID = 1000
	if err := a.run(t, check.Reset); err == nil ||
		!strings.Contains(err.Error(), "IsPrivilegedUser") {
		t.Errorf("who is not root: %v", err)
	}
	a.node.IgnoredChecks = node.IgnoredChecks{"all"}
	if err := a.run(t, check.Reset); err != nil {
		t.Error(err)
	}
}
