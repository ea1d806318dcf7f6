package laws

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// Two commands that write one file write the same bytes, whichever runs last: kubespray runs phases of
// init on all control planes, joined ones too, after it has upgraded them.
func TestPhasesOfInitKeepFilesOfOtherCommands(t *testing.T) {
	setUp := func(t testing.TB, e *engine.Env) error {
		return setUpInitWith(t, e, config.NewInitFlags(), initConfig)
	}
	upgradeNode := upgradeSubjects()[1]
	upgradeNode.setUp = setUpUpgradeNode // with etcd
	externalEtcd := findSubject("init")
	externalEtcd.name, externalEtcd.setUp = "init with external etcd",
		func(t testing.TB, e *engine.Env) error {
			flags := config.NewInitFlags()
			flags.IgnorePreflightErrors = []string{"ExternalEtcdVersion"} // nothing answers there
			return setUpInitWith(t, e, flags, initConfig+externalEtcdConfig)
		}
	for _, s := range []subject{findSubject("init"), findSubject("join a control plane"),
		findSubject("init with an external CA"), externalEtcd, upgradeSubjects()[0], upgradeNode,
		newRenewSubject()} {
		w := s.machine(t)
		s.newRun(w).mustSucceed(t)
		w.Files["/var/lib/etcd/member"] = memory.File{Mode: fs.ModeDir | 0o700}
		for _, phase := range []string{"certs", "kubeconfig", "etcd", "control-plane"} {
			t.Run(s.name+", then "+phase, func(t *testing.T) {
				t.Parallel()
				later := subject{name: "init phase " + phase, setUp: setUp, node: s.node,
					phases: findPhases(t, phase)}
				if strings.Contains(s.name, "external") {
					later.setUp = s.setUp
				}
				out := later.newRun(w.Clone()).mustSucceed(t)
				// As with upstream's kubeadm, only init writes that file.
				did := slices.DeleteFunc(describeChanges(out.did),
					func(d string) bool { return strings.HasSuffix(d, "/super-admin.conf") })
				if len(did) > 0 {
					t.Errorf("it changes %v", did)
				}
			})
		}
	}
}

// The phases of join, run on their own on a joined control plane, change no file that join or a later
// renewal has written there.
func TestPhasesOfJoinKeepFilesOfJoinAndRenew(t *testing.T) {
	join := findSubject("join a control plane")
	later := []subject{
		{name: "nothing"},
		{name: "renew", phases: workflow.Renew, node: join.node, setUp: func(t testing.TB, e *engine.Env) error {
			return setUpInitWith(t, e, config.NewInitFlags(), initConfig)
		}},
	}
	for _, etcd := range []string{"local", "external"} {
		joined := join.machine(t)
		if etcd == "external" {
			useExternalEtcd(t, joined)
			later[1].setUp = func(t testing.TB, e *engine.Env) error {
				return setUpInitWith(t, e, config.NewInitFlags(), initConfig+externalEtcdConfig)
			}
		}
		join.newRun(joined).mustSucceed(t)
		if etcd == "local" {
			joined.Files["/var/lib/etcd/member"] = memory.File{Mode: fs.ModeDir | 0o700}
		}
		for _, s := range later {
			w := joined.Clone()
			if s.phases != nil {
				s.newRun(w).mustSucceed(t)
			}
			for _, phase := range []string{"control-plane-prepare", "kubelet-start", "etcd-join"} {
				t.Run(etcd+" etcd, "+s.name+", then "+phase, func(t *testing.T) {
					r := join.newRun(w.Clone())
					r.sel.Only = phase
					did := slices.DeleteFunc(describeChanges(r.mustSucceed(t).did),
						func(d string) bool { return !strings.Contains(d, "file:") })
					if len(did) > 0 {
						t.Errorf("it changes %v", did)
					}
				})
			}
		}
	}
}

// externalEtcdConfig makes a ClusterConfiguration use an etcd on other machines.
const externalEtcdConfig = "etcd:\n  external:\n    endpoints: [\"http://192.0.2.50:2379\"]\n"

// useExternalEtcd changes the stored ClusterConfiguration.
func useExternalEtcd(t testing.TB, m *fake.World) {
	t.Helper()
	key := memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system", Name: "kubeadm-config"}
	data, _, err := unstructured.NestedStringMap(m.Objects[key].Object, "data")
	if err != nil || !strings.Contains(data["ClusterConfiguration"], "local:") {
		t.Fatalf("%v: %v", err, data)
	}
	local := regexp.MustCompile("(?m)^etcd:\n(  .*\n)*")
	data["ClusterConfiguration"] = local.ReplaceAllString(data["ClusterConfiguration"],
		externalEtcdConfig)
	if err := unstructured.SetNestedStringMap(m.Objects[key].Object, data, "data"); err != nil {
		t.Fatal(err)
	}
}

// A member whose data are gone begins a new cluster: its manifest must not name members of the old one.
func TestEtcdPhaseWithoutDataBeginsNewCluster(t *testing.T) {
	const file = "/etc/kubernetes/manifests/etcd.yaml"
	const data = "/var/lib/etcd/member"
	s := findSubject("join a control plane")
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	for _, hasData := range []bool{true, false} {
		if !hasData {
			delete(w.Files, data)
		} else {
			w.Files[data] = memory.File{Mode: fs.ModeDir | 0o700}
		}
		later := subject{name: "init phase etcd local", node: s.node, phases: findPhases(t, "etcd"),
			setUp: func(t testing.TB, e *engine.Env) error {
				return setUpInitWith(t, e, config.NewInitFlags(), initConfig)
			}}
		m := w.Clone()
		later.newRun(m).mustSucceed(t)
		if got := isJoined(m, file); got != hasData {
			t.Errorf("with data: %v; joins the other members: %v", hasData, got)
		}
	}
}

func isJoined(m *fake.World, file string) bool {
	text := string(m.Files[file].Data)
	return strings.Contains(text, "--initial-cluster-state=existing") &&
		strings.Contains(text, "cp1=https://192.0.2.10:2380")
}

// findPhases returns the phase of init with that name.
func findPhases(t testing.TB, name string) []engine.Phase {
	for _, p := range allPhases(workflow.Init) {
		if p.Name == name {
			return []engine.Phase{p}
		}
	}
	t.Fatalf("init has no phase %s", name)
	return nil
}

// allPhases are phases with those of the groups that have no name.
func allPhases(phases []engine.Phase) (all []engine.Phase) {
	for _, p := range phases {
		all = append(all, p)
		if p.Name == "" {
			all = append(all, allPhases(p.Phases)...)
		}
	}
	return all
}
