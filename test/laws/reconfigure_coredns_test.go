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

const changedCorefile = ".:53 {\n    errors\n    reload\n    health\n    ready\n    forward . 192.0.2.53\n}\n"

// changedDNS is a request for another Corefile and another number of replicas.
func changedDNS() reconfiguration.Request {
	return reconfiguration.Request{Flags: config.ReconfigureFlags{Corefile: "Corefile", CoreDNSReplicas: new(int32(3))},
		DNS: reconfiguration.DNSSettings{Corefile: reconfiguration.NewCorefile(changedCorefile), Replicas: new(int32(3))}}
}

// reconfigureCoreDNS returns the command that changes the Corefile and the replicas of CoreDNS.
func reconfigureCoreDNS() subject {
	return reconfigureBy(request(changedDNS()))
}

func dnsKey(kind string) memory.Key {
	group := ""
	if kind == "Deployment" {
		group = "apps"
	}
	return memory.Key{Kind: schema.GroupKind{Group: group, Kind: kind}, Namespace: "kube-system", Name: "coredns"}
}

// setReplicas lets CoreDNS have as many available Pods.
func setReplicas(t testing.TB, w *fake.World, n int64) {
	t.Helper()
	for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
		if err := unstructured.SetNestedField(w.Objects[dnsKey("Deployment")].Object, n, "status", field); err != nil {
			t.Fatal(err)
		}
	}
}

// dnsOf is what users can change of CoreDNS, as the cluster has it.
func dnsOf(t testing.TB, w *fake.World) map[string]any {
	t.Helper()
	config, deployment := w.Objects[dnsKey("ConfigMap")], w.Objects[dnsKey("Deployment")]
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
				// What has read the Corefile of the killed run meanwhile is replaced, so the annotation may be another one.
				isAnnotation := cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.GoString(), `["annotations"]`) },
					cmp.Ignore())
				if diff := cmp.Diff(c.want, dnsOf(t, r.machine), isAnnotation); diff != "" {
					t.Errorf("CoreDNS is not as it should be:\n%s", diff)
				}
			})
		})
	}
}

// editDNS changes what CoreDNS has, as other clients do.
func editDNS(t testing.TB, w *fake.World, corefile string, replicas int64) {
	t.Helper()
	config := w.Objects[dnsKey("ConfigMap")]
	if err := unstructured.SetNestedField(config.Object, corefile, "data", "Corefile"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(w.Objects[dnsKey("Deployment")].Object, replicas, "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
}

const foreignCorefile = ".:53 {\n    forward . 203.0.113.53\n}\n"

// A run that goes on with a killed one says the same in its Event.
func TestReconfigureOfCoreDNSIsTold(t *testing.T) {
	s := reconfigureCoreDNS()
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		if found := readChange(t, r.machine); found == nil || found.Stored != nil {
			return // the change has not begun, or is stored
		}
		again := r.rerun()
		again.mustSucceed(t)
		told := false
		for key, o := range r.machine.Objects {
			message, _, _ := unstructured.NestedString(o.Object, "message")
			told = told || key.Kind.Kind == "Event" && strings.Contains(message, "CoreDNS Corefile, CoreDNS replicas")
		}
		if !told {
			t.Error("no Event names the settings")
		}
	})
}

// A Corefile that another client has changed since is not overwritten by an undo, which says so: also by one that was killed.
func TestUndoAfterForeignCorefileIsRefused(t *testing.T) {
	s := reconfigureCoreDNS()
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	const want = "CoreDNS has been changed in another way since: Corefile"
	undo := undoReconfigure(s)
	undo.machine = func(testing.TB) *fake.World { return withFastClock(w.Clone()) }
	undo.killEverywhere(t, func(t *testing.T, r killedRun) {
		if found := readChange(t, r.machine); found.Undoes != "" && found.Stored != nil {
			return // it is done
		}
		editDNS(t, r.machine, foreignCorefile, 3)
		if err := tryFind(t, r.machine, reconfiguration.FindUndo); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the undo ended with: %v", err)
		}
	})
	editDNS(t, w, foreignCorefile, 3)
	if err := tryFind(t, w, reconfiguration.FindUndo); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the undo ended with: %v", err)
	}
}

// A change that is not complete is taken back although an autoscaler has changed the replicas meanwhile, which stay.
func TestTakeBackKeepsForeignReplicas(t *testing.T) {
	s := reconfigureCoreDNS()
	before := dnsOf(t, s.machine(t))["config"]
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		if found := readChange(t, r.machine); found == nil || found.Stored != nil {
			return // the change has not begun, or is done
		}
		text := dnsOf(t, r.machine)["config"].(map[string]any)["Corefile"].(string)
		editDNS(t, r.machine, text, 5)
		setReplicas(t, r.machine, 5)
		undo := r.rerun()
		undo.subject = undoReconfigure(s)
		undo.mustSucceed(t)
		after := dnsOf(t, r.machine)
		if diff := cmp.Diff(before, after["config"]); diff != "" || after["spec"].(map[string]any)["replicas"] != int64(5) {
			t.Errorf("CoreDNS has %v:\n%s", after, diff)
		}
	})
}

// The Pods are replaced again if the same file is applied after another client has changed the Corefile.
func TestReappliedCorefileReplacesPods(t *testing.T) {
	s := reconfigureCoreDNS()
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	first := dnsOf(t, w.Clone())
	editDNS(t, w, foreignCorefile, 3)
	s.newRun(w).mustSucceed(t)
	again := dnsOf(t, w)
	if cmp.Equal(first["spec"], again["spec"]) {
		t.Error("the Pods are not replaced")
	}
	if diff := cmp.Diff(first["config"], again["config"]); diff != "" {
		t.Error(diff)
	}
}

// A Corefile that the user sets stays as it is if the same command has CoreDNS deployed again, also one that is a default of
// an older version.
func TestCorefileOfUserStaysWithOtherImage(t *testing.T) {
	w := newReconfiguredMachine(t)
	text := dnsOf(t, w)["config"].(map[string]any)["Corefile"].(string)
	start := strings.Index(text, "    cache 30")
	end := start + strings.Index(text[start:], "    loop")
	q := changedDNS()
	q.DNS.Corefile = reconfiguration.NewCorefile(text[:start] + "    cache 30\n" + text[end:])
	q.File = config.File{Name: "cluster.yaml", Data: []byte(clusterDocument + "dns: {imageRepository: registry.example.com/dns}\n")}
	s := reconfigureBy(request(q))
	before := dnsOf(t, w.Clone())
	s.newRun(w).mustSucceed(t)
	if got := dnsOf(t, w)["config"].(map[string]any)["Corefile"]; got != q.DNS.Corefile.Text {
		t.Errorf("the Corefile is %s", got)
	}
	undoReconfigure(s).newRun(w).mustSucceed(t)
	if diff := cmp.Diff(before["config"], dnsOf(t, w)["config"]); diff != "" {
		t.Errorf("the undo leaves\n%s", diff)
	}
}

// If CoreDNS was deleted while its change was not complete, other changes and an undo go on without it.
func TestUnfinishedChangeOfDeletedCoreDNS(t *testing.T) {
	s := reconfigureCoreDNS()
	for name, then := range map[string]subject{"undo": undoReconfigure(s), "other change": reconfigure(changedConfig)} {
		t.Run(name, func(t *testing.T) {
			r := s.killAt(t, "coredns")
			delete(r.machine.Objects, dnsKey("Deployment"))
			again := r.rerun()
			again.subject = then
			again.mustSucceed(t)
			if r.machine.Objects[dnsKey("Deployment")] != nil {
				t.Error("CoreDNS was deployed again")
			}
		})
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
		".:53 {\n    errors\n":                "a } is missing",
		".:53 {\n    errors\n    health\n}\n": `no plugin "ready" listens on port 8181`,
		".:53 {\n    health :8090\n    ready\n}\n": `no plugin "health" listens on port 8080`,
		strings.Repeat("# ", 200<<10):              "at most 65536",
	} {
		q := changedDNS()
		q.DNS.Corefile = reconfiguration.NewCorefile(text)
		err := tryFind(t, newReconfiguredMachine(t), request(q))
		if err == nil || !strings.Contains(err.Error(), "the Corefile is not valid") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
