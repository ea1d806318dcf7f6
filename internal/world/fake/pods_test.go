package fake

import (
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

const schedulerManifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"

// newMachineWithScheduler is a machine whose kubelet runs one static Pod.
func newMachineWithScheduler(t *testing.T) *World {
	t.Helper()
	w := New()
	for _, c := range []change.Change{
		change.WriteFile{Path: "/etc/kubernetes/kubelet.conf"},
		change.WriteFile{Path: "/var/lib/kubelet/config.yaml"},
		change.SetService{Name: "kubelet", Active: true},
	} {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	writeManifest(t, w, "v1")
	return w
}

func writeManifest(t *testing.T, w *World, image string) {
	t.Helper()
	text := "kind: Pod\nspec:\n  containers:\n  - name: kube-scheduler\n    image: " + image + "\n"
	if err := w.Do(t.Context(),
		change.WriteFile{Path: schedulerManifest, Data: []byte(text)}); err != nil {
		t.Fatal(err)
	}
}

func listContainers(t *testing.T, w *World) (running, exited []state.Container) {
	t.Helper()
	all, err := w.Containers(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Running {
			running = append(running, c)
		} else {
			exited = append(exited, c)
		}
	}
	return running, exited
}

func TestChangedManifestChangesPodUID(t *testing.T) {
	w := newMachineWithScheduler(t)
	w.PodLag = 1
	before, _ := listContainers(t, w)
	if len(before) != 1 || PodUID([]byte("kind: Pod")) != PodUID([]byte("# a comment\nkind: Pod")) {
		t.Errorf("a comment changes the Pod UID: %+v", before)
	}
	writeManifest(t, w, "v2")
	if late, _ := listContainers(t, w); len(late) != 1 || late[0].PodUID != before[0].PodUID {
		t.Errorf("the kubelet did not lag: %+v", late)
	}
	after, exited := listContainers(t, w)
	if len(after) != 1 || after[0].PodUID == before[0].PodUID || after[0].ID == before[0].ID {
		t.Errorf("after the change %+v runs", after)
	}
	if len(exited) != 1 || exited[0].ID != before[0].ID {
		t.Errorf("exited are %+v", exited)
	}
}

func TestCrashingComponentExitsAtEachCall(t *testing.T) {
	w := newMachineWithScheduler(t)
	w.CrashLog = func(_ string, manifest []byte) string {
		if strings.Contains(string(manifest), "bad") {
			return "unknown flag: --bad"
		}
		return ""
	}
	writeManifest(t, w, "bad")
	_, first := listContainers(t, w)
	running, second := listContainers(t, w)
	if len(running) != 0 || len(first) != 1 || len(second) != 1 || first[0].ID == second[0].ID ||
		second[0].Attempt != 1 {
		t.Errorf("running %+v, exited %+v, then %+v", running, first, second)
	}
	if answer, err := w.Fetch(t.Context(),
		state.Request{URL: "https://127.0.0.1:10259/livez"}); err == nil {
		t.Errorf("it answers %+v", answer)
	}
}

func TestRemovedContainersAreRecreated(t *testing.T) {
	w := newMachineWithScheduler(t)
	before, _ := listContainers(t, w)
	if err := w.Do(t.Context(), change.RemoveContainers{Component: "kube-scheduler"}); err != nil {
		t.Fatal(err)
	}
	after, _ := listContainers(t, w)
	if len(after) != 1 || after[0].PodUID != before[0].PodUID || after[0].ID == before[0].ID {
		t.Errorf("%+v became %+v", before, after)
	}
}
