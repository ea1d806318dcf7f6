package fake

import (
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

const schedulerManifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"

// startKubelet is a machine whose kubelet runs one static Pod.
func startKubelet(t *testing.T) *World {
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

func containersOf(t *testing.T, w *World) (running, ended []state.Container) {
	t.Helper()
	all, err := w.Containers(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Running {
			running = append(running, c)
		} else {
			ended = append(ended, c)
		}
	}
	return running, ended
}

func TestChangedManifestGivesAnotherPodUID(t *testing.T) {
	w := startKubelet(t)
	w.PodLag = 1
	before, _ := containersOf(t, w)
	if len(before) != 1 || PodUID([]byte("kind: Pod")) != PodUID([]byte("# a comment\nkind: Pod")) {
		t.Errorf("a comment makes another Pod of %+v", before)
	}
	writeManifest(t, w, "v2")
	if late, _ := containersOf(t, w); len(late) != 1 || late[0].PodUID != before[0].PodUID {
		t.Errorf("the kubelet has noticed at once: %+v", late)
	}
	after, ended := containersOf(t, w)
	if len(after) != 1 || after[0].PodUID == before[0].PodUID || after[0].ID == before[0].ID {
		t.Errorf("after the change %+v runs", after)
	}
	if len(ended) != 1 || ended[0].ID != before[0].ID {
		t.Errorf("ended are %+v", ended)
	}
}

func TestCrashingComponentEndsAtEachLook(t *testing.T) {
	w := startKubelet(t)
	w.CrashLog = func(_ string, manifest []byte) string {
		if strings.Contains(string(manifest), "bad") {
			return "unknown flag: --bad"
		}
		return ""
	}
	writeManifest(t, w, "bad")
	_, first := containersOf(t, w)
	running, second := containersOf(t, w)
	if len(running) != 0 || len(first) != 1 || len(second) != 1 || first[0].ID == second[0].ID ||
		second[0].Attempt != 1 {
		t.Errorf("running %+v, ended %+v, then %+v", running, first, second)
	}
	if answer, err := w.Fetch(t.Context(),
		state.Request{URL: "https://127.0.0.1:10259/livez"}); err == nil {
		t.Errorf("it answers %+v", answer)
	}
}

func TestRemovedContainersAreStartedAgain(t *testing.T) {
	w := startKubelet(t)
	before, _ := containersOf(t, w)
	if err := w.Do(t.Context(), change.RemoveContainers{Component: "kube-scheduler"}); err != nil {
		t.Fatal(err)
	}
	after, _ := containersOf(t, w)
	if len(after) != 1 || after[0].PodUID != before[0].PodUID || after[0].ID == before[0].ID {
		t.Errorf("%+v became %+v", before, after)
	}
}
