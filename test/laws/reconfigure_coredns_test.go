package laws

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/config"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const changedCorefile = ".:53 {\n    errors\n    health\n    ready\n    forward . 192.0.2.53\n}\n"

// changedDNS is a request for another Corefile and another number of replicas.
func changedDNS() reconfiguration.Request {
	return reconfiguration.Request{Flags: config.ReconfigureFlags{Corefile: "Corefile", CoreDNSReplicas: new(int32(3))},
		DNS: reconfiguration.DNSSettings{Corefile: reconfiguration.NewCorefile(changedCorefile), Replicas: new(int32(3))}}
}

// reconfigureCoreDNS returns the command that changes the Corefile and the replicas of CoreDNS.
func reconfigureCoreDNS() subject {
	s := reconfigureBy(request(changedDNS()))
	s.name, s.replacesSome = "reconfigure apply --corefile", false
	return s
}

// dnsOf is what users can change of CoreDNS, as the cluster has it.
func dnsOf(t testing.TB, w *fake.World) map[string]any {
	t.Helper()
	config := w.Objects[memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system", Name: "coredns"}]
	deployment := w.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "kube-system", Name: "coredns"}]
	if config == nil || deployment == nil {
		t.Fatal("CoreDNS is not deployed")
	}
	all := map[string]any{"config": config.Object["data"]}
	all["spec"], _, _ = unstructured.NestedMap(deployment.Object, "spec")
	maps.DeleteFunc(all["spec"].(map[string]any), func(field string, _ any) bool { return field != "replicas" && field != "template" })
	return all
}

// CoreDNS gets another Corefile by new Pods, and another number of them; an undo returns to what it had.
func TestReconfigureCoreDNS(t *testing.T) {
	s := reconfigureCoreDNS()
	w := s.machine(t)
	before := dnsOf(t, w.Clone())
	s.newRun(w).mustSucceed(t)
	after := dnsOf(t, w.Clone())
	template := after["spec"].(map[string]any)["template"]
	digest, _, _ := unstructured.NestedString(template.(map[string]any), "metadata", "annotations", reconfiguration.CorefileAnnotation)
	if got := after["config"].(map[string]any)["Corefile"]; got != changedCorefile || digest == "" ||
		after["spec"].(map[string]any)["replicas"] != int64(3) {
		t.Errorf("CoreDNS has %v", after)
	}
	changed := readChange(t, w)
	if changed.ControlPlanes || changed.Workers {
		t.Errorf("nodes have to follow a change that only concerns CoreDNS: %+v", changed)
	}
	s.newRun(w).mustSucceed(t)
	if again := readChange(t, w); again.ID != changed.ID {
		t.Errorf("the same command has begun another change, %s", again.ID)
	}
	undoReconfigure(s).newRun(w).mustSucceed(t)
	if diff := cmp.Diff(before, dnsOf(t, w)); diff != "" {
		t.Errorf("the undo has not led back:\n%s", diff)
	}
}

// Wherever a change of CoreDNS is killed, the same command completes it, and an undo or another change leads back.
func TestKilledReconfigureOfCoreDNS(t *testing.T) {
	s := reconfigureCoreDNS()
	before := dnsOf(t, s.machine(t))
	whole := s.newRun(s.machine(t))
	whole.mustSucceed(t)
	after := dnsOf(t, whole.machine)
	for name, c := range map[string]struct {
		then subject
		want map[string]any
	}{
		"completed": {s, after},
		"undone":    {undoReconfigure(s), before},
		"replaced":  {reconfigure(clusterDocument + "scheduler: {extraArgs: [{name: v, value: \"3\"}]}\n"), before},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.killEverywhere(t, func(t *testing.T, r killedRun) {
				if found := readChange(t, r.machine); found == nil || found.Stored != nil && name == "replaced" {
					return // the change has not begun, or is done
				}
				again := r.rerun()
				again.subject = c.then
				again.mustSucceed(t)
				if diff := cmp.Diff(c.want, dnsOf(t, r.machine)); diff != "" {
					t.Errorf("CoreDNS is not as it should be:\n%s", diff)
				}
			})
		})
	}
}

// A Corefile that another client has changed since is not overwritten by an undo, which says so.
func TestUndoAfterForeignCorefileIsRefused(t *testing.T) {
	s := reconfigureCoreDNS()
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	config := w.Objects[memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system", Name: "coredns"}]
	config.Object["data"] = map[string]any{"Corefile": ".:53 {\n    forward . 203.0.113.53\n}\n"}
	err := tryFind(t, w, reconfiguration.FindUndo)
	if err == nil || !strings.Contains(err.Error(), "CoreDNS has been changed in another way since: Corefile") {
		t.Errorf("the undo ended with: %v", err)
	}
}

// A later change that does not concern CoreDNS is undone without it.
func TestUndoOfLaterChangeKeepsCoreDNS(t *testing.T) {
	s := reconfigureCoreDNS()
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	after := dnsOf(t, w.Clone())
	later := reconfigure(changedConfig)
	later.newRun(w).mustSucceed(t)
	undoReconfigure(later).newRun(w).mustSucceed(t)
	if diff := cmp.Diff(after, dnsOf(t, w)); diff != "" {
		t.Errorf("CoreDNS has changed:\n%s", diff)
	}
}

// A Corefile that CoreDNS cannot read, or that answers no probe, is refused before anything is changed.
func TestInvalidCorefileIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "it is empty",
		".:53 {\n    errors\n":                "Syntax error",
		".:53 {\n    errors\n    health\n}\n": `no plugin "ready" listens on port 8181`,
		".:53 {\n    health :8090\n    ready\n}\n": `no plugin "health" listens on port 8080`,
		strings.Repeat("# ", 200<<10):              "at most 262144",
	} {
		q := changedDNS()
		q.DNS.Corefile = reconfiguration.NewCorefile(text)
		err := tryFind(t, newReconfiguredMachine(t), request(q))
		if err == nil || !strings.Contains(err.Error(), "the Corefile is not valid") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
