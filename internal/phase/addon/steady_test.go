package addon_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// staleSet is a cluster whose DaemonSet says all the time that its only new Pod is available.
type staleSet struct {
	*rollOut
	status func(second int) corev1.ContainerStatus // of the Pod, since the first look at it
	uid    func(second int) types.UID              // of the Pod; nil for always the same
	event  func(s *staleSet, second int)           // what else happens, before a look; nil for nothing
	now    time.Time
	first  time.Time // look
	looks  int
	isGone bool // the DaemonSet, deleted

	isUnavailable bool // the new Pod
	others        int  // new Pods that run
}

func (s *staleSet) Now() time.Time { return s.now }

// Await checks twice a second, for a minute.
func (s *staleSet) Await(ctx context.Context, c world.Condition) (err error) {
	for begun := s.now; s.now.Sub(begun) < time.Minute; s.now = s.now.Add(time.Second / 2) {
		if err = c.Check(ctx, s); err == nil || world.IsPermanent(err) {
			return err
		}
	}
	return err
}

func (s *staleSet) Do(ctx context.Context, c change.Change) error {
	err := s.rollOut.Do(ctx, c)
	s.setStatus()
	return err
}

// setStatus sets the status of the DaemonSet.
func (s *staleSet) setStatus() {
	set := s.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "kube-system", Name: "kube-proxy"}]
	if status, ok := set.Object["status"].(map[string]any); ok {
		status["updatedNumberScheduled"], status["numberAvailable"] = int64(1), int64(1)
		if s.isUnavailable {
			status["numberAvailable"] = int64(0)
		}
	}
}

func (s *staleSet) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	if q.GVK.Kind == "Pod" && strings.Contains(q.LabelSelector, revisionLabel) {
		if s.looks++; s.first.IsZero() {
			s.first = s.now
		}
		second := int(s.now.Sub(s.first) / time.Second)
		pod := s.pod.DeepCopy()
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{s.status(second)}
		if s.uid != nil {
			pod.UID = s.uid(second)
		}
		if s.event != nil {
			s.event(s, second)
		}
		s.put(pod)
		found, err := s.rollOut.List(ctx, q)
		return append(make([]unstructured.Unstructured, s.others), found...), err
	}
	return s.rollOut.List(ctx, q)
}

func (s *staleSet) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if s.isGone && ref.GVK.Kind == "DaemonSet" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, ref.Name)
	}
	return s.rollOut.Object(ctx, ref)
}

// newStaleSet is such a cluster, with a change that kube-proxy gets.
func newStaleSet(t *testing.T, status func(second int) corev1.ContainerStatus) (*staleSet, *reconfiguration.State) {
	t.Helper()
	s := &staleSet{status: status, now: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC),
		rollOut: &rollOut{newDaemonSet(t), corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-new", UID: "new",
				Labels: map[string]string{"k8s-app": "kube-proxy", revisionLabel: "10"}},
			Spec: corev1.PodSpec{NodeName: "worker1"}}}}
	s.e.World, s.node.Name = s, "cp1"
	s.addRevision(9)
	s.addNode("worker1", corev1.ConditionTrue)
	return s, s.changeEndpoint()
}

// runs is the status of a container that runs, after some restarts.
func runs(restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "kube-proxy", RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// exited is the status of a container that waits for its restart.
func exited(restarts, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "kube-proxy", RestartCount: restarts,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

// A Pod of kube-proxy, which has no readiness probe, counts as rolled out once it has run for some seconds: one that exits
// right after its start is ready until then.
func TestRollOutOfProxyThatExitsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		status   func(second int) corev1.ContainerStatus
		uid      func(second int) types.UID
		event    func(s *staleSet, second int)
		notReady string // the node whose Pod was not ready before
		forgets  bool   // the change takes back another one
		broken   bool   // the Pod is the evidence against the change
		cause    string // of the error; empty for none
		min, max int    // seconds until the roll-out ends
		looks    int    // how often Pods are listed; 0 for any number
	}{
		"it runs": {min: 4, max: 6, looks: 2, status: func(int) corev1.ContainerStatus { return runs(0) }},
		"it was restarted earlier, by a run that was killed": {min: 4, max: 6, looks: 2, status: func(int) corev1.ContainerStatus { return runs(3) }},
		"it exits after the first look": {max: 6, broken: true, cause: "exits with code 1", status: func(second int) corev1.ContainerStatus {
			if second == 0 {
				return runs(0)
			}
			return exited(1, 1)
		}},
		"it runs at each look, restarted": {min: 12, max: 30, broken: true, cause: "exits with code 1", status: func(second int) corev1.ContainerStatus {
			if second > 10 {
				return exited(3, 1)
			}
			return runs(int32(second) / 4)
		}},
		"it exits without an error again and again": {min: 59, max: 130, cause: "container kube-proxy of Pod kube-proxy-new on node worker1 has been restarted",
			status: func(second int) corev1.ContainerStatus { return runs(int32(second) / 3) }},
		"it does not run at the first look": {min: 6, max: 10, status: func(second int) corev1.ContainerStatus {
			if second < 2 {
				return corev1.ContainerStatus{Name: "kube-proxy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
			}
			return runs(0)
		}},
		"another one takes its place": {min: 8, max: 11, status: func(int) corev1.ContainerStatus { return runs(0) },
			uid: func(second int) types.UID { return map[bool]types.UID{true: "new", false: "newer"}[second < 2] }},
		"it did not run before the change either": {notReady: "worker1", min: 59, max: 130, cause: "kube-proxy-new on node worker1 does not run",
			status: func(second int) corev1.ContainerStatus {
				if second == 0 {
					return runs(0)
				}
				return exited(1, 1)
			}},
		"it did not run before the change, and runs": {notReady: "worker1", min: 4, max: 6, looks: 2,
			status: func(int) corev1.ContainerStatus { return runs(0) }},
		"its node restarts": {min: 4, max: 6, status: func(second int) corev1.ContainerStatus { return runs(int32(second) / 3) },
			event: func(s *staleSet, second int) {
				if second > 2 {
					s.addNode("worker1", corev1.ConditionFalse)
				}
			}},
		"its DaemonSet is deleted": {min: 4, max: 6, status: func(int) corev1.ContainerStatus { return runs(0) },
			event: func(s *staleSet, _ int) { s.isGone = true }},
		"it has what was before a change that is taken back": {forgets: true,
			status: func(int) corev1.ContainerStatus { return runs(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, change := newStaleSet(t, c.status)
			s.uid, s.event, change.Forgets = c.uid, c.event, c.forgets
			if c.notReady != "" {
				change.Addons, change.NotReady = true, map[string]reconfiguration.NodeSet{"kube-proxy": reconfiguration.NewNodeSet([]string{c.notReady})}
			}
			begun := s.now
			err := engine.Run(t.Context(), s.e, []engine.Phase{addon.Reconfigure}, engine.Selection{})
			if (err == nil) != (c.cause == "") || err != nil && !strings.Contains(err.Error(), c.cause) ||
				errors.As(err, new(*reconfiguration.BrokenAddon)) != c.broken {
				t.Errorf("the roll-out ended with: %v", err)
			}
			if took := int(s.now.Sub(begun) / time.Second); took < c.min || took > c.max {
				t.Errorf("it took %d s, want %d to %d", took, c.min, c.max)
			}
			if c.looks != 0 && s.looks != c.looks {
				t.Errorf("Pods were listed %d times, want %d", s.looks, c.looks)
			}
		})
	}
}

// Many Pods that become unavailable after the roll-out was complete are listed once more at the end of the wait.
func TestManyPodsOfACompleteRollOut(t *testing.T) {
	pulls := exited(0, 0)
	pulls.State.Waiting.Reason, pulls.LastTerminationState.Terminated = "ErrImagePull", nil
	for name, c := range map[string]struct {
		last   corev1.ContainerStatus // of a Pod, shortly before the end
		broken bool                   // it is evidence against the change
	}{
		"one exits":                {exited(3, 1), true},
		"one has no image by then": {pulls, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStaleSet(t, func(second int) corev1.ContainerStatus {
				if second >= 50 {
					return c.last
				}
				return runs(0)
			})
			s.others = 4_999
			s.event = func(s *staleSet, _ int) {
				s.isUnavailable = true
				s.setStatus()
			}
			err := engine.Run(t.Context(), s.e, []engine.Phase{addon.Reconfigure}, engine.Selection{})
			if err == nil || errors.As(err, new(*reconfiguration.BrokenAddon)) != c.broken {
				t.Errorf("the roll-out ended with: %v", err)
			}
			if s.looks < 5 || s.looks > 7 {
				t.Errorf("Pods were listed %d times", s.looks)
			}
		})
	}
}
