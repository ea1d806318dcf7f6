package laws

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// All parts of a node follow a change, and the cluster stores it.
func TestReconfigure(t *testing.T) {
	r := reconfigure(changedConfig).newRun(newReconfiguredMachine(t))
	r.mustSucceed(t)
	for file, text := range map[string]string{
		"/etc/kubernetes/manifests/kube-apiserver.yaml": "--event-ttl=2h",
		"/etc/kubernetes/manifests/kube-scheduler.yaml": "--v=3",
		"/var/lib/kubelet/config.yaml":                  "maxPods: 99",
	} {
		if !strings.Contains(string(r.machine.Files[file].Data), text) {
			t.Errorf("%s lacks %s", file, text)
		}
	}
}

// Whichever change of the node fails, its components and its kubelet are configured as before, and the
// cluster stores what it stored.
func TestFailedReconfigureIsTakenBack(t *testing.T) {
	s := reconfigure(changedConfig)
	before := s.machine(t)
	files := append(listManifests(), node.DefaultPaths().KubeletConfig())
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	first := slices.IndexFunc(whole.did, func(c change.Change) bool {
		return strings.HasSuffix(c.Target(), "/reconfiguring.json")
	})
	for i, c := range whole.did {
		if i <= first {
			continue
		}
		if strings.Contains(c.Target(), "kubeadm-config") {
			break // the node runs with the change, and the cluster stores it: the same command goes on
		}
		t.Run(c.String(), func(t *testing.T) {
			r := s.newRun(s.machine(t))
			r.fault = &fault.World{At: i}
			out := r.execute(t)
			if out.err == nil {
				t.Fatal("the run succeeded")
			}
			for _, file := range files {
				if diff := diffLines(string(before.Files[file].Data), string(r.machine.Files[file].Data)); diff != "" {
					t.Errorf("%s:\n%s", file, diff)
				}
			}
			r.rerun().mustSucceed(t)
		})
	}
}

// A change that is not about the image of etcd keeps that of the node's member: this kubeadm may know a newer
// one for the same version of Kubernetes.
func TestReconfigureKeepsEtcd(t *testing.T) {
	const older = "/etcd:3.6.1-0"
	image := regexp.MustCompile(`/etcd:[\w.-]+`)
	for document, want := range map[string]string{
		changedConfig: older,
		clusterDocument + "imageRepository: registry.example.com/k8s\n": "image: registry.example.com/k8s" + older,
		clusterDocument + "etcd: {local: {imageTag: 9.9.9-0}}\n":        "/etcd:9.9.9-0",
	} {
		s := reconfigure(document)
		w := s.machine(t)
		name := node.DefaultPaths().Manifest(manifest.Etcd)
		file := w.Files[name]
		file.Data = image.ReplaceAll(file.Data, []byte(older))
		w.Files[name] = file
		before := string(file.Data)
		r := s.newRun(w)
		r.mustSucceed(t)
		after := string(w.Files[name].Data)
		if !strings.Contains(after, want) || document == changedConfig && after != before {
			t.Errorf("%s\nchanges the manifest of etcd:\n%s", document, diffLines(before, after))
		}
		if strings.Contains(document, "imageTag") {
			continue // an undo to an older etcd is refused
		}
		undoReconfigure(s).newRun(w).mustSucceed(t)
		if again := string(w.Files[name].Data); again != before {
			t.Errorf("the undo of %s\nchanges the manifest of etcd:\n%s", document, diffLines(before, again))
		}
	}
}

// An undo leads to the configuration from before the change, but for the certificate's further name.
func TestUndoReconfigure(t *testing.T) {
	s := reconfigure(changedConfig)
	before := s.machine(t)
	r := s.newRun(s.machine(t))
	r.mustSucceed(t)
	undo := undoReconfigure(s)
	again := undo.newRun(r.machine)
	again.mustSucceed(t)
	for _, file := range append(listManifests(), node.DefaultPaths().KubeletConfig()) {
		if diff := diffLines(string(before.Files[file].Data), string(r.machine.Files[file].Data)); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
}

// Wherever a change is killed, an undo leads back to the files from before, and so does the change after it
// to its own.
func TestUndoOfKilledReconfigure(t *testing.T) {
	s := reconfigure(changedConfig)
	undo := undoReconfigure(s)
	before := s.machine(t)
	files := append(listManifests(), node.DefaultPaths().KubeletConfig())
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		if readChange(t, r.machine) == nil {
			return // the change has not begun
		}
		again := r.rerun()
		again.subject = undo
		again.mustSucceed(t)
		for _, file := range files {
			if diff := diffLines(string(before.Files[file].Data), string(r.machine.Files[file].Data)); diff != "" {
				t.Errorf("%s:\n%s", file, diff)
			}
		}
		if started := r.machine.Services["kubelet"].Since; started.Before(r.machine.Files[node.DefaultPaths().
			KubeletConfig()].ModTime) {
			t.Error("the kubelet runs with another configuration than that of its file")
		}
	})
}

// A change that fails on this node leaves the change before it as the latest one.
func TestFailedReconfigureKeepsEarlierChange(t *testing.T) {
	s := reconfigure(changedConfig)
	r := s.newRun(s.machine(t))
	r.mustSucceed(t)
	earlier := readChange(t, r.machine)
	second := reconfigure(strings.Replace(changedConfig, "maxPods: 99", "maxPods: 77", 1))
	whole := second.newRun(r.machine.Clone()).mustSucceed(t)
	failing := second.newRun(r.machine)
	failing.fault = &fault.World{At: slices.IndexFunc(whole.did, func(c change.Change) bool {
		return c.Target() == "service:kubelet"
	})}
	out := failing.execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "run as before") {
		t.Fatalf("the change ended with: %v", out.err)
	}
	if left := readChange(t, r.machine); left.ID != earlier.ID {
		t.Errorf("the latest change is %+v, not %s", left, earlier.ID)
	}
}

// changedMeanwhile is a command of which another node changes the stored configuration after it has been
// read, and before this node holds the lock of the cluster.
func changedMeanwhile(s subject) subject {
	setUp := s.setUp
	s.setUp = func(t testing.TB, e *engine.Env) error {
		if err := setUp(t, e); err != nil {
			return err
		}
		return e.World.Do(t.Context(), foreignChange())
	}
	return s
}

// foreignChange is that of another node, which adds a SAN to the stored configuration.
func foreignChange() change.Change {
	stored := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: manifest.KubeadmConfigMap}}
	return change.MutateObject{Object: stored, Mutate: func(u *unstructured.Unstructured) error {
		text, _, _ := unstructured.NestedString(u.Object, "data", manifest.KubeadmConfigKey)
		return unstructured.SetNestedField(u.Object, strings.Replace(text, "apiServer: {}",
			"apiServer:\n  certSANs: [meanwhile.example.com]", 1), "data", manifest.KubeadmConfigKey)
	}}
}

// A command that waited for the lock while another node changed the stored configuration does not write
// the previous one.
func TestConfigurationChangedBeforeLock(t *testing.T) {
	upgrade := changedMeanwhile(upgradeSubjects()[0])
	r := upgrade.newRun(upgrade.machine(t))
	out := r.execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "apiServer.certSANs[meanwhile.example.com]") {
		t.Errorf("the upgrade ended with: %v", out.err)
	}
	trust := changedMeanwhile(rotateCA(rotation.Trust, rotation.Options{}))
	r2 := trust.newRun(newRotatingMachine(t))
	r2.mustSucceed(t)
	for name, machine := range map[string]*fake.World{"upgrade": r.machine, "rotation": r2.machine} {
		key := memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system",
			Name: manifest.KubeadmConfigMap}
		if text := fmt.Sprint(machine.Objects[key].Object["data"]); !strings.Contains(text, "meanwhile.example.com") {
			t.Errorf("the %s has overwritten the stored configuration:\n%s", name, text)
		}
	}
}

// A kubelet that does not run with the file that an interrupted change has written is restored without an
// API server, which does not run then either: the same command says why, and an undo succeeds.
func TestBrokenKubeletIsRestored(t *testing.T) {
	s := reconfigure(changedConfig)
	file := node.DefaultPaths().KubeletConfig()
	before := s.machine(t)
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	written := slices.IndexFunc(whole.did, func(c change.Change) bool { return c.Target() == change.FileTarget(file) })
	for name, command := range map[string]subject{"apply": s, "undo": undoReconfigure(s)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := s.newRun(s.machine(t))
			r.fault = &fault.World{At: written, After: true, Crash: true}
			if out := r.execute(t); !out.crashed {
				t.Fatalf("the run did not get that far: %v", out.err)
			}
			r.machine.BrokenKubelet = "maxPods: 99"
			again := r.rerun()
			again.subject = command
			out := again.execute(t)
			if isUndone := out.err == nil; isUndone != (name == "undo") ||
				!isUndone && !strings.Contains(out.err.Error(), "the components of this node run as before") {
				t.Errorf("the command ended with: %v", out.err)
			}
			for _, file := range append(listManifests(), file) {
				if diff := diffLines(string(before.Files[file].Data), string(r.machine.Files[file].Data)); diff != "" {
					t.Errorf("%s:\n%s", file, diff)
				}
			}
		})
	}
}

// Arguments of one kubelet are set without a change of the cluster's configuration, their labels too. With
// arguments with which it does not run, it gets the ones from before.
func TestReconfigureKubeletArgs(t *testing.T) {
	file := node.DefaultPaths().KubeletFlags()
	set := func(values ...string) subject {
		args, err := config.ParseKubeletArgs(values)
		if err != nil {
			t.Fatal(err)
		}
		return reconfigureNode(args)
	}
	s := set("max-pods=50", "node-labels=disk=ssd", "register-with-taints=gpu=yes:NoSchedule,slow:NoExecute")
	r := s.newRun(s.machine(t))
	r.mustSucceed(t)
	if got := string(r.machine.Files[file].Data); !strings.Contains(got, "--max-pods=50 --node-labels=disk=ssd --register-with-taints=") {
		t.Errorf("the kubelet runs with %s", got)
	}
	own := r.machine.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}]
	taints, _, _ := unstructured.NestedSlice(own.Object, "spec", "taints")
	if labels := own.GetLabels(); labels["disk"] != "ssd" || !strings.Contains(fmt.Sprint(taints), "effect:NoSchedule key:gpu value:yes") ||
		!strings.Contains(fmt.Sprint(taints), "effect:NoExecute key:slow") {
		t.Errorf("the Node has the labels %v and taints %v", labels, taints)
	}
	before := string(s.machine(t).Files[file].Data)
	broken := set("v=99").newRun(s.machine(t))
	broken.machine.BrokenKubelet = "--v=99"
	if out := broken.execute(t); out.err == nil || !strings.Contains(out.err.Error(), "run as before") ||
		string(broken.machine.Files[file].Data) != before {
		t.Errorf("%v, the kubelet runs with %s", out.err, broken.machine.Files[file].Data)
	}
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		r.rerun().mustSucceed(t)
		if got := string(r.machine.Files[file].Data); !strings.Contains(got, "--max-pods=50") {
			t.Errorf("the kubelet runs with %s", got)
		}
	})
}

// A change that has reached CoreDNS before it is killed, and then fails on the node, is not forgotten: an undo leads
// CoreDNS back too.
func TestFailedReconfigureKeepsChangeOfAddons(t *testing.T) {
	s := reconfigure(clusterDocument + "dns: {imageRepository: registry.example.com/dns}\n---\n" + kubeletDocument + "maxPods: 99\n")
	r := s.killAt(t, "kubeadm-config")
	image := func() string {
		u := r.machine.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "Deployment"},
			Namespace: "kube-system", Name: "coredns"}]
		return fmt.Sprint(u.Object["spec"])
	}
	if !strings.Contains(image(), "registry.example.com") {
		t.Fatalf("CoreDNS has not changed: %s", image())
	}
	r.machine.BrokenKubelet = "maxPods: 99"
	if out := r.rerun().execute(t); out.err == nil || !strings.Contains(out.err.Error(), "CoreDNS") {
		t.Errorf("the command ended with: %v", out.err)
	}
	undo := r.rerun()
	undo.subject = undoReconfigure(s)
	undo.mustSucceed(t)
	if strings.Contains(image(), "registry.example.com") {
		t.Errorf("the undo leaves CoreDNS as it was changed: %s", image())
	}
}

// A command that takes back its own change, which the cluster has not stored, leaves the change before it as the latest
// one: an undo leads to the configuration before that.
func TestTakenBackReconfigureLeavesEarlierChange(t *testing.T) {
	before := newReconfiguredMachine(t)
	first := reconfigure(changedConfig)
	w := before.Clone()
	first.newRun(w).mustSucceed(t)
	earlier := readChange(t, w)
	for name, begun := range map[string]*fake.World{"after a change": w, "the first change": before} {
		t.Run(name, func(t *testing.T) {
			second := reconfigure(clusterDocument + "dns: {imageRepository: registry.example.com/dns}\n")
			second.machine = func(testing.TB) *fake.World { return withFastClock(begun.Clone()) }
			r := second.killAt(t, "kubeadm-config")
			back := r.rerun()
			back.subject = second.with(func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
				wanted, err := reconfiguration.FindUndo(ctx, e, here)
				wanted.Change.Forgets = true
				return wanted, err
			})
			back.mustSucceed(t)
			if left := readChange(t, r.machine); begun == before && left != nil || begun == w && (left == nil || left.ID != earlier.ID) {
				t.Fatalf("the latest change is %+v", left)
			}
			if begun == before {
				return
			}
			undoReconfigure(first).newRun(r.machine).mustSucceed(t)
			checkUntouched(t, before, r.machine)
		})
	}
}
