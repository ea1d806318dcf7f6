package doctor

import (
	"context"
	"crypto"
	"crypto/rand"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// testNode is a machine in memory that is diagnosed.
type testNode struct {
	world *fake.World
	seen  world.World    // what the doctor sees, if it is not world
	as    state.Identity // of the user, if the user names a kubeconfig
}

// newVacantMachine is a machine on which init would succeed.
func newVacantMachine() *testNode {
	s := &testNode{world: fake.New()}
	s.world.Paths["kubelet"] = "/usr/bin/kubelet"
	return s
}

// healthyWorld is a control plane node some time after init. Tests get copies.
var healthyWorld = sync.OnceValues(func() (*fake.World, error) {
	s := newVacantMachine()
	e, err := s.env()
	if err != nil {
		return nil, err
	}
	n, _, err := config.Init(config.File{Name: "init.yaml", Data: []byte(`
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
encryptionAlgorithm: ECDSA-P256
`)}, config.NewInitFlags(), config.Facts{Tool: e.Tool, Hostname: "cp1", Addresses: s.world.Interfaces,
		Runtimes: s.world.Sockets, Random: rand.Reader})
	if err != nil {
		return nil, err
	}
	e.Local, e.Node = n.Local, engine.Resolved(n)
	e.Admin = workflow.InitAdmin(s.world, n.Local)
	e.Rand = func(string) io.Reader { return rand.Reader }
	e.Keys = func(pki.Need) (crypto.Signer, error) { return pki.NewKey(rand.Reader, pki.ECDSAP256) }
	e.Once = func(_ context.Context, _ string, generate func() (string, error)) (string, error) { return generate() }
	if err := engine.Run(context.Background(), e, workflow.Init, engine.Selection{}); err != nil {
		return nil, err
	}
	return s.world, s.world.CompleteInit()
})

var copying sync.Mutex // its clock ticks

func newHealthyNode(t *testing.T) *testNode {
	t.Helper()
	w, err := healthyWorld()
	if err != nil {
		t.Fatal(err)
	}
	copying.Lock()
	defer copying.Unlock()
	return &testNode{world: w.Clone()}
}

func (s *testNode) env() (*engine.Env, error) {
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		return nil, err
	}
	settings, _, err := config.ReadUpgradePlan(config.File{}, config.NewUpgradePlanFlags())
	if err != nil {
		return nil, err
	}
	e := engine.Env{World: s.world, Tool: tool, Emit: func(engine.Event) {},
		Local: node.Local{Paths: node.DefaultPaths(), Timeouts: settings.Timeouts}}
	if s.seen != nil {
		e.World = s.seen
	}
	return engine.New(e), nil
}

// diagnose diagnoses in a bubble, so that the checks' limits do not depend on the load of the machine
// that runs the test.
func (s *testNode) diagnose(t *testing.T) (d Diagnosis) {
	t.Helper()
	e, err := s.env()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if d, err = Diagnose(t.Context(), e, s.as); err != nil {
			t.Fatal(err)
		}
	})
	return d
}

// fix makes the fixes of a diagnosis, those with a risk too, and diagnoses again.
func (s *testNode) fix(t *testing.T, d Diagnosis) Diagnosis {
	t.Helper()
	e, err := s.env()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.Fixes() {
		if err := engine.Run(t.Context(), e, []engine.Phase{f.Phase()}, engine.Selection{}); err != nil {
			t.Fatal(err)
		}
	}
	done := d.Fixes()
	synctest.Test(t, func(t *testing.T) {
		if d, err = DiagnoseAfter(t.Context(), e, s.as, done); err != nil {
			t.Fatal(err)
		}
	})
	return d
}

func (s *testNode) editObject(t *testing.T, kind, name string, edit func(map[string]any)) {
	t.Helper()
	o := s.world.FindObject(kind, name)
	if o == nil {
		t.Fatalf("there is no %s %s", kind, name)
	}
	edit(o.Object)
}

func writeFile(name, text string) func(*testing.T, *testNode) {
	return func(_ *testing.T, s *testNode) {
		s.world.Files[name] = memory.File{Data: []byte(text), Mode: 0o600, ModTime: s.world.Now()}
	}
}

func edit(name, old, new string) func(*testing.T, *testNode) {
	return func(t *testing.T, s *testNode) {
		t.Helper()
		f := s.world.Files[name]
		if !strings.Contains(string(f.Data), old) {
			t.Fatalf("%s has no %q:\n%s", name, old, f.Data)
		}
		f.Data = []byte(strings.Replace(string(f.Data), old, new, 1))
		s.world.Files[name] = f
	}
}

func remove(name string) func(*testing.T, *testNode) {
	return func(_ *testing.T, s *testNode) { delete(s.world.Files, name) }
}

func add(documents string) func(*testing.T, *testNode) {
	return func(t *testing.T, s *testNode) {
		t.Helper()
		if err := s.world.AddObjects(documents); err != nil {
			t.Fatal(err)
		}
	}
}

func deleted(kind, name string) func(*testing.T, *testNode) {
	return func(t *testing.T, s *testNode) {
		t.Helper()
		before := len(s.world.Objects)
		maps.DeleteFunc(s.world.Objects, func(k memory.Key, _ *unstructured.Unstructured) bool {
			return k.Kind.Kind == kind && k.Name == name
		})
		if len(s.world.Objects) == before {
			t.Fatalf("there is no %s %s", kind, name)
		}
	}
}

func describeFindings(d Diagnosis) string {
	var lines []string
	for _, f := range d.Findings {
		lines = append(lines, string(f.Severity)+" "+f.Check+": "+f.Text+"\n"+f.Evidence)
	}
	return strings.Join(lines, "\n")
}

func hasFinding(d Diagnosis, check string) bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Check == check })
}

func TestNothingIsFoundOnHealthyNode(t *testing.T) {
	s := newHealthyNode(t)
	before := s.world.Snapshot()
	d := s.diagnose(t)
	if len(d.Findings) > 0 {
		t.Errorf("found:\n%s", describeFindings(d))
	}
	for _, n := range d.NotChecked {
		t.Errorf("not checked: %s: %s", n.Check, n.Reason)
	}
	if s.world.Snapshot() != before {
		t.Error("it has changed the machine or the cluster")
	}
	if d.Machine.Role != "control-plane" || len(d.Passed[Cluster]) < 10 {
		t.Errorf("got %+v", d)
	}
}

func TestNothingIsFoundOnNewMachine(t *testing.T) {
	d := newVacantMachine().diagnose(t)
	if len(d.Findings) > 0 || d.Machine.Role != "none" {
		t.Errorf("got %+v:\n%s", d.Machine, describeFindings(d))
	}
}

// What works, and looks like a defect at the first glance, is no finding.
func TestWhatWorksIsNoFinding(t *testing.T) {
	for name, plant := range map[string]func(*testing.T, *testNode){
		"kubeconfig with another name of the certificate": edit("/etc/kubernetes/scheduler.conf",
			"https://192.0.2.10:6443", "https://cp1:6443"),
		"interfaces of Pod networks": func(_ *testing.T, s *testNode) {
			for name, mtu := range map[string]int{"cilium_vxlan": 1500, "lxc1": 1500, "cilium_host": 1500,
				"vxlan-6784": 65485, "vethwepl1": 1376, "weave": 1376, "cali1": 1450, "vxlan.calico": 1450,
				"vxlan-v6.calico": 1430, "flannel.1": 1450, "flannel.ipip": 1480, "flannel-wg": 1420,
				"cni-podman0": 9000, "tunl0": 9000} {
				s.world.LinkList = append(s.world.LinkList, state.Link{Name: name, MTU: mtu})
			}
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newHealthyNode(t)
			plant(t, s)
			d := s.diagnose(t)
			if len(d.Findings) > 0 {
				t.Errorf("found:\n%s", describeFindings(d))
			}
			for _, n := range d.NotChecked {
				t.Errorf("not checked: %s: %s", n.Check, n.Reason)
			}
		})
	}
}
