package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

func corefile(text string) string {
	indented := strings.ReplaceAll(text, "\n", "\n    ")
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: coredns, namespace: kube-system}\n" +
		"data:\n  Corefile: |\n    " + indented + "\n"
}

func coreDNSDeployment(image string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: coredns, namespace: kube-system, " +
		"labels: {k8s-app: kube-dns}}, spec: {template: {spec: {containers: [{image: \"" + image +
		"\"}]}}}}"
}

func controllerManagerLease(spec string) string {
	return "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kube-controller-manager, " +
		"namespace: kube-system}, spec: {" + spec + "}}"
}

func TestChecks(t *testing.T) {
	noDeployment := strings.TrimSuffix(coreDNSDeployment(""), "}") + ", deleted: true}"
	for name, c := range map[string]struct {
		objects []string
		alter   func(*fake.World)
		want    []string // beginnings of findings
	}{
		"a cluster in order": {},
		"same CoreDNS, Corefile that no migration knows": {objects: []string{
			coreDNSDeployment("coredns:v1.14.6"), corefile(".:53 {\n    mystery\n}")}},
		"unknown plugin": {objects: []string{corefile(".:53 {\n    mystery\n}")}, want: []string{
			"[ERROR CoreDNSUnsupportedPlugins]: the Corefile has plugins or options that cannot be migrated " +
				"from CoreDNS 1.14.2 to 1.14.6: mystery;"}},
		"unknown plugin, DNS disabled": {objects: []string{
			corefile(".:53 {\n    mystery\n}"), stored("dns: {disabled: true}")}},
		"CoreDNS that the migration does not know": {objects: []string{coreDNSDeployment(
			"coredns:v9.9.9")}, want: []string{
			"[ERROR CoreDNSUnsupportedPlugins]: the Corefile cannot be migrated from CoreDNS 9.9.9 to 1.14.6",
			"[ERROR CoreDNSMigration]: the Corefile cannot be migrated from CoreDNS 9.9.9 to 1.14.6"}},
		"CoreDNS is not deployed": {objects: []string{noDeployment}, want: []string{
			"[ERROR CoreDNSUnsupportedPlugins]: the Corefile's CoreDNS version is unknown",
			"[WARNING CoreDNSMigration]: CoreDNS is not deployed, and the upgrade will deploy it"}},
		"no Corefile either": {objects: []string{noDeployment, deleted("ConfigMap", "coredns")},
			want: []string{
				"[WARNING CoreDNSMigration]: CoreDNS is not deployed, and the upgrade will deploy it"}},
		"Job refused": {alter: func(w *fake.World) {
			w.Refused = map[string]error{"Job": errors.New("webhook says no")}
		}, want: []string{"[ERROR CreateJob]: no Job can be created in namespace kube-system: webhook says no;"}},
		"webhook without dry runs": {alter: func(w *fake.World) {
			w.Refused = map[string]error{"Job": apierrors.NewBadRequest(
				"admission webhook \"a\" does not support dry run")}
		}, want: []string{"[WARNING CreateJob]: cannot tell whether a Job could be created"}},
		"controller manager without a leader": {objects: []string{controllerManagerLease("")},
			want: []string{
				"[ERROR CreateJob]: kube-controller-manager has no leader"}},
		"leader gone": {objects: []string{controllerManagerLease(
			`holderIdentity: cp2_abc, renewTime: "2020-01-01T00:00:00.000000Z"`)}, want: []string{
			"[ERROR CreateJob]: kube-controller-manager has had no leader since 2020-01-01T00:00:00Z"}},
		"no leader election": {objects: []string{controllerManagerLease(""),
			stored("controllerManager: {extraArgs: [{name: leader-elect, value: \"false\"}]}")}},
		"no Lease": {objects: []string{"{apiVersion: coordination.k8s.io/v1, kind: Lease, " +
			"metadata: {name: kube-scheduler, namespace: kube-system}, deleted: true}"},
			want: []string{
				"[WARNING CreateJob]: cannot tell whether kube-scheduler is running"}},
		"control plane not ready": {objects: []string{`{apiVersion: v1, kind: Node, metadata: {name: cp2, labels:
  {node-role.kubernetes.io/control-plane: ""}}, status: {conditions: [{type: Ready, status: Unknown}]}}`}, want: []string{
			"[ERROR ControlPlaneNodesReady]: control plane nodes are not ready: cp2;"}},
		"control plane with a label of another value": {objects: []string{`{apiVersion: v1, kind: Node, metadata: {name: cp2, labels:
  {node-role.kubernetes.io/control-plane: "true"}}, status: {conditions: [{type: Ready, status: Unknown}]}}`}, want: []string{
			"[ERROR ControlPlaneNodesReady]: control plane nodes are not ready: cp2;"}},
		"worker not ready": {objects: []string{
			`{apiVersion: v1, kind: Node, metadata: {name: worker}, status: {conditions: [{type: Ready, status: "False"}]}}`}},
		"no manifests": {alter: func(w *fake.World) {
			delete(w.Files, "/etc/kubernetes/manifests/kube-scheduler.yaml")
		}, want: []string{"[ERROR StaticPodManifest]: control plane manifests are missing on this machine: " +
			"/etc/kubernetes/manifests/kube-scheduler.yaml;"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := testWorld(t, c.objects...)
			cluster, _, err := ReadCluster(t.Context(), w, state.Identity{})
			if err != nil {
				t.Fatal(err)
			}
			if c.alter != nil {
				c.alter(w)
			}
			before := w.Snapshot()
			checks := cluster.Checks(state.Identity{}, node.DefaultPaths(), "v1.14.6")
			found := preflight.Run(t.Context(), w, checks, nil).Findings
			if len(found) != len(c.want) {
				t.Errorf("found %v, want %q", found, c.want)
			}
			for i := range min(len(found), len(c.want)) {
				if !strings.HasPrefix(found[i].String(), c.want[i]) {
					t.Errorf("found %s\nwant  %s", found[i], c.want[i])
				}
			}
			if w.Snapshot() != before {
				t.Error("the checks left something behind")
			}
		})
	}
}

// The names are public: --ignore-preflight-errors takes them.
func TestNamesOfChecks(t *testing.T) {
	var names []string
	for _, c := range testCluster(t).Checks(state.Identity{}, node.DefaultPaths(), "v1.14.6") {
		names = append(names, c.Name)
	}
	want := []string{"CoreDNSUnsupportedPlugins", "CoreDNSMigration", "CreateJob",
		"ControlPlaneNodesReady",
		"StaticPodManifest"}
	if !slices.Equal(names, want) {
		t.Errorf("the checks are %q", names)
	}
	if unknown := preflight.UnknownNames(node.IgnoredChecks(names)); len(unknown) > 0 {
		t.Error(unknown)
	}
}

// jobReader keeps the object that it is asked about.
type jobReader struct {
	state.Reader
	asked state.Object
}

func (r *jobReader) TryCreate(_ context.Context, o state.Object, _ state.Identity) error {
	r.asked = o
	return nil
}

func TestHealthCheckJob(t *testing.T) {
	r := &jobReader{Reader: testWorld(t)}
	cluster := testCluster(t)
	preflight.Run(t.Context(), r, cluster.Checks(state.Identity{}, node.DefaultPaths(), "v1.14.6"),
		nil)
	if r.asked == nil || !strings.HasPrefix(r.asked.GetName(), "upgrade-health-check-") ||
		r.asked.GetNamespace() != "kube-system" {
		t.Errorf("asked about %v", r.asked)
	}
}

// After a power cut the Lease of a dead leader looks recent for a minute. One that another machine's
// clock calls old is alive if it is renewed.
func TestLeadersRenewOldLeases(t *testing.T) {
	w := testWorld(t)
	cluster, _, err := ReadCluster(t.Context(), w, state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	now, leaders := w.Now(), cluster.Leaders(state.Identity{})
	for _, c := range []struct {
		age  time.Duration
		want bool
	}{{40 * time.Second, false}, {40 * time.Second, false}, {38 * time.Second, true}, {0, true}} {
		renewed := now.Add(-c.age).UTC().Format("2006-01-02T15:04:05.000000Z")
		lease := controllerManagerLease(fmt.Sprintf("holderIdentity: cp1_a, renewTime: %q", renewed))
		if err := w.AddObjects(lease); err != nil {
			t.Fatal(err)
		}
		if err := leaders.Check(t.Context(), w); (err == nil) != c.want {
			t.Errorf("renewed %s ago: %v", c.age, err)
		}
	}
}
