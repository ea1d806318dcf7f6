package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

// migrated is the output of Migrate for a file.
func migrated(t *testing.T, file File, facts Facts) (string, RunOptions) {
	t.Helper()
	documents, run, err := Migrate(file, facts)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, d := range documents {
		texts = append(texts, encoded(t, d))
	}
	return strings.Join(texts, "---\n"), run
}

// The golden files are what "config migrate" of kubeadm v1.36.3 of the Kubernetes project, the
// last that read v1beta3, made of the same input.
func TestMigrateMatchesUpstream(t *testing.T) {
	for _, name := range []string{"v1beta3", "v1beta3-join"} {
		t.Run(name, func(t *testing.T) {
			got, run := migrated(t,
				File{Name: name, Data: peerFile(t, name+".yaml"), AllowDeprecated: true},
				testFacts(t))
			same(t, name+".golden", got)
			if len(run.Warnings) > 0 {
				t.Errorf("warnings: %q", run.Warnings)
			}
			again, _ := migrated(t, File{Name: "again", Data: []byte(got)}, testFacts(t))
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("migrating again changes it (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestCommandsAcceptOldVersions(t *testing.T) {
	n, run, err := Init(File{Name: "old", Data: peerFile(t, "v1beta3.yaml")}, NewInitFlags(),
		testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if arg, _ := node.LastArg(n.Cluster.APIServer.Args, "audit-log-path"); arg != "-" ||
		n.Timeouts.ControlPlane.String() != "7m0s" {
		t.Errorf("audit-log-path is %q, the limit for the control plane %s", arg,
			n.Timeouts.ControlPlane)
	}
	if len(run.Warnings) < 2 ||
		!strings.Contains(run.Warnings[0],
			"document 1 (InitConfiguration) has apiVersion kubeadm.k8s.io/v1beta3") {
		t.Errorf("warnings: %q", run.Warnings)
	}
	local, _, err := Join(File{Name: "old", Data: peerFile(t, "v1beta3-join.yaml")}, NewJoinFlags(),
		testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if local.Timeouts.Discovery.String() != "9m0s" ||
		local.Discovery.File != "/etc/discovery.conf" {
		t.Errorf("the limit for discovery is %s, the file %q", local.Timeouts.Discovery,
			local.Discovery.File)
	}
}

func TestExperimentalVersion(t *testing.T) {
	const text = "apiVersion: kubeadm.k8s.io/v1\nkind: ClusterConfiguration\nkubernetesVersion: v1.37.0\n" +
		"controllerManager: {extraArgs: [{name: controllers, value: ',-x', mergeMethod: append}, {name: v, value: '3', mergeMethod: ''}]}\n"
	file := File{Name: "kubeadm.yaml", Data: []byte(text), AllowExperimental: true}
	documents, run, err := Migrate(file, testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []v1beta4.Arg{{Name: "controllers", Value: ",-x"}, {Name: "v", Value: "3"}}
	if diff := cmp.Diff(want,
		documents[1].(*v1beta4.ClusterConfiguration).ControllerManager.ExtraArgs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(strings.Join(run.Warnings, "\n"),
		`controllerManager.extraArgs[0].mergeMethod: "append" is not supported by v1beta4`) {
		t.Errorf("warnings: %q", run.Warnings)
	}
	file.Data = []byte(strings.Replace(text, "append", "insert", 1))
	_, _, err = Migrate(file, testFacts(t))
	if err == nil || !strings.Contains(err.Error(),
		"controllerManager.extraArgs[0].mergeMethod: must be one of append, prepend") {
		t.Errorf("a merge method that does not exist: %v", err)
	}
	reset := File{Name: "r",
		Data: []byte("apiVersion: kubeadm.k8s.io/v1\nkind: ResetConfiguration\nforce: true\n")}
	if r, _, err := Reset(reset, NewResetFlags(), testFacts(t)); err != nil || !r.Force {
		t.Errorf("reset by v1: force %v, %v", r.Force, err)
	}
}

func TestMigrateErrors(t *testing.T) {
	const upgradeHead = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"strangers": {"apiVersion: example.org/v1\nkind: Thing\n---\n" +
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfig\n", []string{
			"document 1 (Thing) of example.org/v1 is not supported",
			"document 2 (JoinConfig) of kubeadm.k8s.io/v1beta4 is not supported: did you mean JoinConfiguration?"}},
		"a component alone": {"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 3\n", []string{
			"document 1 (KubeletConfiguration): unknown field maxPod: did you mean maxPods?"}},
		"a component beside a join": {joinHead +
			"---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 3\n", []string{
			"JoinConfiguration discovery: Required value: set bootstrapToken (kubeadm join HOST:PORT --token …) or file (--discovery-file)",
			"configuration file kubeadm.yaml: document 2 (KubeletConfiguration): unknown field maxPod: did you mean maxPods?"}},
		"an upgrade": {upgradeHead +
			"apply: {imagePullPolicy: Sometimes, patches: {directory: here}}\nplan: {ignorePreflightErrors: [all, Swap]}\n", []string{
			`UpgradeConfiguration apply.imagePullPolicy: Invalid value: "Sometimes": must be one of Always, IfNotPresent, Never`,
			`UpgradeConfiguration apply.patches.directory: Invalid value: "here": must be an absolute path`,
			`UpgradeConfiguration plan.ignorePreflightErrors: Invalid value: "all,Swap": "all" includes every check: use either "all" or single checks`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Migrate(fileOf(c.text), testFacts(t))
			if diff := cmp.Diff(c.want,
				faultsOf(t, err, "configuration file kubeadm.yaml")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	_, _, err := Migrate(fileOf(initHead+"certificateKey: x\n---\n"+resetHead+
		"certificatesDir: here\n"), testFacts(t))
	if err == nil || !strings.Contains(err.Error(), "InitConfiguration certificateKey") ||
		!strings.Contains(err.Error(), "ResetConfiguration certificatesDir") {
		t.Errorf("faults of two commands' documents are not told together: %v", err)
	}
}
