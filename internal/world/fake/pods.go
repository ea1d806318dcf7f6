package fake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// podTable has the static Pods that the simulated kubelet has started.
type podTable struct {
	mu   sync.Mutex
	pods map[string]runningPod // by component
	uids map[string]string     // Pod UIDs by manifest
}

// runningPod is the static Pod of one component.
type runningPod struct {
	uid     string
	created time.Time
	attempt uint32 // of the container that is listed as the newest
	// number of removed sandboxes, for unique container IDs
	generation int
	removed    time.Time         // when the containers before this one were removed
	calls      int               // of Containers since the manifest on disk was changed
	exited     []state.Container // of the Pods before this one
}

// removeContainers removes the containers that the change matches. The kubelet then re-creates
// those of static Pods, with the same Pod UIDs.
func (t *podTable) removeContainers(c change.RemoveContainers, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for component, pod := range t.pods {
		if c.Component == component {
			t.pods[component] = runningPod{generation: pod.generation + 1, removed: at}
		}
	}
	if c.Component == "" {
		clear(t.pods)
	}
}

// Containers lists the containers of the control plane's static Pods. The kubelet acts on a changed
// manifest after PodLag calls. A container with a CrashLog restarts and exits at each call. Without
// Sockets no container runtime answers.
func (w *World) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	if len(w.Sockets) == 0 {
		return nil, fmt.Errorf("container runtime at %s is not responding", socket)
	}
	if w.ContainersError != nil {
		return nil, w.ContainersError
	}
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
		all = append(all, pod.exited...)
		if pod.uid == "" {
			continue
		}
		current := state.Container{
			ID:   fmt.Sprintf("%s-%.8s-%d-%d", component, pod.uid, pod.generation, pod.attempt),
			Name: component, Pod: component + "-" + w.registeredName(ctx), Namespace: "kube-system",
			Component: component,
			PodUID:    pod.uid, Created: pod.created, Attempt: pod.attempt, Running: true,
		}
		if log := w.crashLog(ctx, component); log != "" {
			current.Running, current.ExitCode, current.Log = false, 1, log
			pod.attempt++
		}
		w.staticPods.pods[component] = pod
		all = append(all, current)
	}
	return all, nil
}

// syncPod lets the kubelet read the manifest of a component once.
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
		pod.calls = 0
		return pod
	}
	if !w.isRunning(ctx, component) && w.crashLog(ctx, component) == "" {
		// the API server needs etcd, or a file is missing: no container is created
		return runningPod{generation: pod.generation}
	}
	if pod.calls++; pod.uid != "" && pod.calls <= w.PodLag {
		return pod
	}
	// A manifest that was removed and re-created results in another container of the same Pod.
	next := runningPod{uid: uid, generation: pod.generation + 1,
		created: info.ModTime.Add(time.Millisecond)}
	if pod.removed.After(next.created) {
		next.created = pod.removed
	}
	if pod.uid != "" {
		next.exited = []state.Container{{
			ID:   fmt.Sprintf("%s-%.8s-%d-%d", component, pod.uid, pod.generation, pod.attempt),
			Name: component, Component: component, Namespace: "kube-system", PodUID: pod.uid,
			Created: pod.created,
			Attempt: pod.attempt,
		}}
	}
	return next
}

// crashLog returns the log of a component that exits right after each start; empty if it runs.
func (w *World) crashLog(ctx context.Context, component string) string {
	if w.CrashLog == nil {
		return ""
	}
	data, err := w.ReadFile(ctx, "/etc/kubernetes/manifests/"+component+".yaml")
	if err != nil {
		return ""
	}
	return w.CrashLog(component, data)
}

// PodUID returns the UID of the static Pod of a manifest. As in the real kubelet, comments and the
// order of keys do not matter.
func PodUID(data []byte) string {
	var pod corev1.Pod
	if yaml.Unmarshal(data, &pod) == nil {
		if plain, err := json.Marshal(pod); err == nil {
			data = plain
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(slices.Concat(data, []byte("file"))))[:32]
}
