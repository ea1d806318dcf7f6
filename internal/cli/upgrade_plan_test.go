package cli

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

// newClusterMachine returns a control plane of a v1.36.3 cluster with older kubelets on its
// workers.
func newClusterMachine(t *testing.T, objects ...string) *testMachine {
	t.Helper()
	s := newTestMachine(t)
	err := s.world.AddCluster(fake.ExistingCluster{
		Version: "v1.36.3", Kubelet: "v1.36.3", EtcdTag: "3.6.8-0", CoreDNSTag: "v1.14.2",
		ControlPlanes: []string{"cp1", "cp2"},
	})
	for _, name := range []string{"vm", "worker"} {
		objects = append(objects, "{apiVersion: v1, kind: Node, metadata: {name: "+name+"}, "+
			"status: {nodeInfo: {kubeletVersion: v1.36.2}}}")
	}
	for _, o := range objects {
		if err == nil {
			err = s.world.AddObjects(o)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The golden files are what upstream's kubeadm v1.37.1 prints for such a cluster.
func TestUpgradePlanAsObject(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		want, err := os.ReadFile("testdata/upgrade_plan." + format)
		if err != nil {
			t.Fatal(err)
		}
		s := newClusterMachine(t)
		if err := s.run(t.Context(), "upgrade", "plan", "v1.36.9", "--output", format); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), s.out.String()); diff != "" {
			t.Error(diff)
		}
		if s.err.Len() > 0 {
			t.Errorf("on standard error:\n%s", s.err.String())
		}
	}
}

// Text and JSON have the same rows and commands.
func TestUpgradePlanAsText(t *testing.T) {
	s := newClusterMachine(t)
	s.world.Names["dl.k8s.io"] = []string{"192.0.2.80"}
	s.world.Published = map[string]string{"stable": "v1.37.1", "stable-1.36": "v1.36.4"}
	if err := s.run(t.Context(), "upgrade", "plan", "--output", "json"); err != nil {
		t.Fatal(err)
	}
	var plan upgradePlan
	if err := json.Unmarshal(s.out.Bytes(), &plan); err != nil {
		t.Fatal(err)
	}
	before := s.world.Snapshot()
	if err := s.run(t.Context(), "upgrade", "plan"); err != nil {
		t.Fatal(err)
	}
	if s.world.Snapshot() != before {
		t.Error("the plan changed something")
	}
	rows := map[string]bool{}
	for line := range strings.Lines(s.out.String()) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}
	if len(plan.AvailableUpgrades) != 2 {
		t.Fatalf("there are %d upgrades", len(plan.AvailableUpgrades))
	}
	for _, a := range plan.AvailableUpgrades {
		for _, c := range a.Components {
			row := strings.Fields(
				strings.Join([]string{c.Name, c.NodeName, c.CurrentVersion, c.NewVersion}, " "))
			if !rows[strings.Join(row, " ")] && c.Name != "kubeadm" {
				t.Errorf("the text has no row %q:\n%s", row, s.out.String())
			}
		}
	}
	for _, command := range []string{"kubeadm upgrade apply v1.36.4",
		"kubeadm upgrade apply v1.37.1"} {
		if !strings.Contains(s.out.String(), "\n\n\t"+command+"\n\n") {
			t.Errorf("the text does not show %q:\n%s", command, s.out.String())
		}
	}
}

// A setting that keeps a component of the new version from starting is named before the upgrade begins.
func TestUpgradePlanNamesSettingsToCorrect(t *testing.T) {
	s := newClusterMachine(t)
	for name, text := range map[string][2]string{
		"kubeadm-config": {"ClusterConfiguration",
			"apiServer: {extraArgs: [{name: feature-gates, value: APIServerTracing=true}]}\n" +
				"controllerManager: {extraArgs: [{name: nonsense, value: \"1\"}]}\n"},
		"kubelet-config": {"kubelet", "featureGates: {SidecarContainers: true}\n"},
		"kube-proxy":     {"config.conf", "featureGates: {PreventStaticPodAPIReferences: true}\n"},
	} {
		s.editObject(t, "ConfigMap", name, func(o map[string]any) {
			data := o["data"].(map[string]any)
			data[text[0]] = data[text[0]].(string) + text[1]
		})
	}
	if err := s.run(t.Context(), "upgrade", "plan", "v1.36.9"); err != nil {
		t.Fatal(err)
	}
	said := s.out.String() + s.err.String()
	if strings.Count(said, "will be refused") != 1 || !strings.Contains(said, "no flag --nonsense") ||
		!strings.Contains(said, "feature gate SidecarContainers has no effect: kubelet 1.36.9") {
		t.Errorf("for v1.36.9 it says:\n%s", said)
	}
	for _, format := range []string{"text", "json"} {
		s.out.Reset()
		s.err.Reset()
		if err := s.run(t.Context(), "upgrade", "plan", "v1.37.1", "--output", format); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"the upgrade to v1.37.1 will be refused: apiServer.extraArgs[0]: kube-apiserver 1.37.1 has no feature gate APIServerTracing (removed in 1.37)",
			"controllerManager.extraArgs[0]: kube-controller-manager 1.37.1 has no flag --nonsense",
			"KubeletConfiguration featureGates: kubelet 1.37.1 has no feature gate SidecarContainers",
			"KubeProxyConfiguration featureGates: kube-proxy 1.37.1 has no feature gate PreventStaticPodAPIReferences",
			"kubectl edit configmap kube-proxy"} {
			if !strings.Contains(s.err.String(), want) {
				t.Errorf("%s lacks %q:\n%s", format, want, s.err.String())
			}
		}
	}
}

func TestUpgradePlanFromFile(t *testing.T) {
	s := newClusterMachine(t)
	s.world.Files["u.yaml"] = s.world.Files["/etc/kubernetes/admin.conf"]
	f := s.world.Files["u.yaml"]
	f.Data = []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\nplan:\n" +
		"  kubernetesVersion: v1.36.9\n  etcdUpgrade: false\n  printConfig: true\n" +
		"  ignorePreflightErrors: [CreateJob]\n")
	s.world.Files["u.yaml"] = f
	if err := s.run(t.Context(), "upgrade", "plan", "--config", "u.yaml"); err != nil {
		t.Fatal(err)
	}
	said := s.out.String()
	if strings.Contains(said, "\netcd ") ||
		!strings.Contains(said, "\tkubernetesVersion: v1.36.3\n") ||
		!strings.Contains(said, "\tkubeadm upgrade apply v1.36.9\n") {
		t.Errorf("the file has no effect:\n%s", said)
	}
	if err := s.run(t.Context(), "upgrade", "plan", "v1.36.8", "--config", "u.yaml"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.out.String(), "apply v1.36.8\n") {
		t.Errorf("the argument does not override the file:\n%s", s.out.String())
	}
}

func TestUpgradePlanWithoutAPIServer(t *testing.T) {
	s := newClusterMachine(t)
	s.world.RemoteAPIServer = false
	s.world.Services["kubelet"] = state.Service{Exists: true} // so no API server runs here
	err := s.run(t.Context(), "upgrade", "plan")
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the error is %v", err)
	}
}

// If any single read fails, there is an error or a plan, and nothing is changed.
func TestUpgradePlanWithEachReadFailing(t *testing.T) {
	s := newClusterMachine(t)
	before := s.world.Snapshot()
	host, failed, read := s.Host, 0, 0
	for at := 0; ; at++ {
		reads := &fault.Reads{World: s.world, At: at, Err: errors.New("it does not answer")}
		host.World = func() world.World { return reads }
		s.out.Reset()
		err := Run(t.Context(), host, []string{"upgrade", "plan", "v1.37.1", "--output", "json"})
		switch read = reads.Count(); {
		case err != nil:
			failed++
			if !strings.Contains(err.Error(), "it does not answer") || s.out.Len() > 0 {
				t.Errorf("read %d: %v\n%s", at, err, s.out.String())
			}
		case !strings.Contains(s.out.String(), "UpgradePlan"):
			t.Errorf("read %d: neither an error nor a plan", at)
		}
		if read <= at {
			break
		}
	}
	if failed < 8 {
		t.Errorf("%d of %d failing reads are errors", failed, read)
	}
	if s.world.Snapshot() != before {
		t.Error("the plan changed something")
	}
}
