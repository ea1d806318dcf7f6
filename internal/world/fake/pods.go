package fake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// podTable is what the container runtime holds of the static Pods that the kubelet has started.
type podTable struct {
	mu   sync.Mutex
	pods map[string]runningPod // by component
	uids map[string]string     // of manifests that were read before
}

// runningPod is the static Pod of one component.
type runningPod struct {
	uid     string
	created time.Time
	attempt uint32 // of the container that is listed as the newest
	// sandboxes removed so far, so that each container has an ID of its own
	generation int
	looks      int               // since the manifest on disk gives another Pod
	ended      []state.Container // what is left of the Pods before this one
}

func newPodTable() *podTable {
	return &podTable{pods: map[string]runningPod{}, uids: map[string]string{}}
}

func (t *podTable) clone() *podTable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &podTable{pods: maps.Clone(t.pods), uids: maps.Clone(t.uids)}
}

// removeContainers does to the containers what a change.RemoveContainers says. The kubelet then
// starts its static Pods again, with the same UIDs.
func (t *podTable) removeContainers(c change.RemoveContainers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for component, pod := range t.pods {
		if c.Component == component {
			t.pods[component] = runningPod{generation: pod.generation + 1}
		}
	}
	if c.Component == "" {
		clear(t.pods)
	}
}

// Containers lists those of the control plane's static Pods. Each look lets the kubelet notice a
// manifest that has changed, after PodLag looks; a Pod that CrashLog has an answer for has ended
// once more at each look.
func (w *World) Containers(ctx context.Context, _ string) ([]state.Container, error) {
	w.staticPods.mu.Lock()
	defer w.staticPods.mu.Unlock()
	var all []state.Container
	for _, component := range []string{
		release.Etcd, release.APIServer, release.ControllerManager, release.Scheduler,
	} {
		pod := w.staticPods.pods[component]
		if w.isRunning(ctx, "") {
			pod = w.syncPod(ctx, component, pod)
		}
		all = append(all, pod.ended...)
		if pod.uid == "" {
			continue
		}
		now := state.Container{
			ID:   fmt.Sprintf("%s-%.8s-%d-%d", component, pod.uid, pod.generation, pod.attempt),
			Name: component, Pod: component + "-" + w.NodeName, Namespace: "kube-system",
			Component: component,
			PodUID:    pod.uid, Created: pod.created, Attempt: pod.attempt, Running: true,
		}
		if log := w.crashLog(ctx, component); log != "" {
			now.Running, now.ExitCode, now.Log = false, 1, log
			pod.attempt++
		}
		w.staticPods.pods[component] = pod
		all = append(all, now)
	}
	return all, nil
}

// syncPod is one look of the kubelet at the manifest of a component.
func (w *World) syncPod(ctx context.Context, component string, pod runningPod) runningPod {
	file := "/etc/kubernetes/manifests/" + component + ".yaml"
	data, err := w.ReadFile(ctx, file)
	if err != nil {
		return runningPod{generation: pod.generation}
	}
	uid, known := w.staticPods.uids[string(data)]
	if !known {
		uid = PodUID(data)
		w.staticPods.uids[string(data)] = uid
	}
	info, err := w.Stat(ctx, file)
	if err != nil {
		return runningPod{generation: pod.generation}
	}
	if pod.uid == uid && !info.ModTime.After(pod.created) {
		pod.looks = 0
		return pod
	}
	if !w.isRunning(ctx, component) && w.crashLog(ctx, component) == "" {
		// what it needs is missing: the container is not listed
		return runningPod{generation: pod.generation}
	}
	if pod.looks++; pod.uid != "" && pod.looks <= w.PodLag {
		return pod
	}
	// A file that was removed and written again in between gives another container of the same
	// Pod.
	next := runningPod{uid: uid, generation: pod.generation + 1,
		created: info.ModTime.Add(time.Millisecond)}
	if pod.uid != "" {
		next.ended = []state.Container{{
			ID:   fmt.Sprintf("%s-%.8s-%d-%d", component, pod.uid, pod.generation, pod.attempt),
			Name: component, Component: component, Namespace: "kube-system", PodUID: pod.uid,
			Created: pod.created,
			Attempt: pod.attempt,
		}}
	}
	return next
}

// crashLog is the log of a component that ends right after each start; empty if it runs.
func (w *World) crashLog(ctx context.Context, component string) string {
	data, err := w.ReadFile(ctx, "/etc/kubernetes/manifests/"+component+".yaml")
	if err != nil || w.CrashLog == nil {
		return ""
	}
	return w.CrashLog(component, data)
}

// PodUID is the UID that the simulated kubelet gives the static Pod of a manifest. As with the
// real one, comments and the order of keys do not count.
func PodUID(data []byte) string {
	var pod corev1.Pod
	if yaml.Unmarshal(data, &pod) == nil {
		if plain, err := json.Marshal(pod); err == nil {
			data = plain
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(slices.Concat(data, []byte("file"))))[:32]
}
