package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// steadyTime is how long new Pods of kube-proxy must run without a restart. They have no readiness probe, so one that exits
// right after its start counts as ready until then. The kubelet restarts a container at once the first time, and counts its
// restarts, so two listings this far apart differ.
const steadyTime = 4 * time.Second

// errUnsteady is in the error of awaitSteady if a container does not keep running.
var errUnsteady = errors.New("a new Pod does not keep running")

// awaitSteady waits, after a roll-out, until each of the new Pods has run for steadyTime. The Pods are listed at the beginning
// and the end of that time only.
func (a addons) awaitSteady(ctx context.Context, e *engine.Env, pods newPods) error {
	s := steadiness{newPods: pods}
	steady := health.Rollout(pods.workload, a.node.Timeouts.KubernetesAPI+steadyTime)
	steady.Name += " to keep running"
	steady.Begun = e.World.Now().Add(-steadyTime) // the pauses of a wait that is some seconds old, not those of a new one
	isRolledOut := steady.Check
	steady.Check = func(ctx context.Context, r state.Reader) error {
		if err := isRolledOut(ctx, r); err != nil {
			if broken := pods.findBroken(ctx, r, false); broken != nil {
				return world.Permanent(broken)
			}
			return err
		}
		return s.check(ctx, r)
	}
	err := e.Await(ctx, steady)
	if err == nil || ctx.Err() != nil || errors.As(err, new(*reconfiguration.BrokenAddon)) {
		return err
	}
	// The last list may be old. The roll-out was complete, so an image that cannot be pulled now, as on a node that has just
	// joined, is no evidence as it is at the end of awaitRollout.
	pods.next = time.Time{}
	if broken := pods.findBroken(ctx, e.Reader(), false); broken != nil {
		return broken
	}
	return cmp.Or(s.restarted, err)
}

// steadiness is what is known of whether the new Pods of an addon keep running.
type steadiness struct {
	newPods
	nodes     map[string]bool   // that had one when they were listed first; nil before
	runs      map[container]run // of the containers that ran when they were listed last
	next      time.Time         // when they are to be listed again
	restarted error             // names a container that did not run then, or had been restarted
}

// container is a container of a Pod.
type container struct {
	pod  types.UID
	name string
}

// run is a container that runs.
type run struct {
	restarts int32
	since    time.Time // when it was found running with that number of restarts
}

// check is an error as long as the Pods of a complete roll-out have not run for steadyTime.
func (s *steadiness) check(ctx context.Context, r state.Reader) error {
	// A longer pause is that of a clock that was set back.
	if pause := s.next.Sub(r.Now()); pause > 0 && pause <= steadyTime {
		return s.describe(pause)
	}
	pods, err := s.list(ctx, r)
	if apierrors.IsNotFound(err) { // deleted meanwhile, so there are no new Pods
		return nil
	}
	if err != nil {
		return err
	}
	evidence := s.evidenceOf(pods)
	if broken := s.findBrokenOf(ctx, r, evidence, false); broken != nil {
		return world.Permanent(broken)
	}
	if len(evidence) == 0 { // Pods that did not run before do not show that the change breaks them, but that it works
		evidence = pods
	}
	pause := s.look(ctx, r, evidence)
	if pause <= 0 && s.restarted == nil {
		return nil
	}
	s.next = r.Now().Add(pause)
	return s.describe(pause)
}

// describe says what is not steady yet.
func (s *steadiness) describe(pause time.Duration) error {
	if s.restarted != nil {
		return s.restarted
	}
	return fmt.Errorf("they have to run without a restart for another %s", pause.Round(time.Second))
}

// look compares the Pods with those that were listed before, and returns for how long they must run until all of them are
// steady. Pods of nodes that have joined since, or that are not ready, do not count.
func (s *steadiness) look(ctx context.Context, r state.Reader, pods []corev1.Pod) (pause time.Duration) {
	if s.nodes == nil {
		s.nodes = map[string]bool{}
		for _, pod := range pods {
			s.nodes[pod.Spec.NodeName] = true
		}
	}
	before, now := s.runs, r.Now()
	s.runs, s.restarted = map[container]run{}, nil
	for _, pod := range pods {
		if !s.nodes[pod.Spec.NodeName] {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			one, this := container{pod.UID, c.Name}, run{c.RestartCount, now}
			last, wasThere := before[one]
			failure := ""
			switch {
			case c.State.Running == nil:
				failure = "does not run"
			case wasThere && last.restarts != c.RestartCount:
				failure = fmt.Sprintf("has been restarted, %d times so far", c.RestartCount)
			case wasThere && !last.since.After(now):
				this = last
			}
			if failure != "" && s.restarted == nil {
				if !s.isOnReadyNode(ctx, r, pod) {
					continue
				}
				s.restarted = problem.New(fmt.Errorf("%w: container %s of Pod %s on node %s %s", errUnsteady, untrusted.Line(c.Name),
					untrusted.Line(pod.Name), untrusted.Line(pod.Spec.NodeName), failure), s.podsHint())
			}
			if c.State.Running != nil {
				s.runs[one] = this
			}
			pause = max(pause, steadyTime-now.Sub(this.since))
		}
	}
	return pause
}
