package addon

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// steadyTime is how long new Pods of kube-proxy must run without a restart. They have no readiness probe, so one that exits
// right after its start counts as ready until then. The first restart of a container comes at once, and each has a number,
// so that two looks this far apart differ.
const steadyTime = 4 * time.Second

// errRestarted is in the error of awaitSteady if a container has been restarted meanwhile.
var errRestarted = errors.New("a container has been restarted since the roll-out")

// awaitSteady waits, after a roll-out, until all of the new Pods together have run for steadyTime. All Pods are listed at
// the beginning and the end of that time only.
func (a addons) awaitSteady(ctx context.Context, e *engine.Env, pods newPods) error {
	s := steadiness{newPods: pods}
	steady := health.Rollout(pods.workload, a.node.Timeouts.KubernetesAPI)
	steady.Name += " to keep running"
	steady.Begun = e.World.Now().Add(-steadyTime) // so that a pause takes some tenths of a second, as late in the roll-out
	isRolledOut := steady.Check
	steady.Check = func(ctx context.Context, r state.Reader) error {
		if err := isRolledOut(ctx, r); err != nil {
			s.since = time.Time{}
			if broken := pods.findBroken(ctx, r, false); broken != nil {
				return world.Permanent(broken)
			}
			return err
		}
		return s.check(ctx, r)
	}
	err := e.Await(ctx, steady)
	if err != nil && s.hasRestarted {
		return fmt.Errorf("%w: %w", errRestarted, err)
	}
	return err
}

// steadiness is what is known of whether the new Pods of an addon keep running.
type steadiness struct {
	newPods
	since        time.Time           // when all of them were found running; zero if they were not
	restarts     map[container]int32 // how often each had been restarted when they were listed last
	hasRestarted bool                // whether one has been restarted in between
}

// container is a container of a Pod.
type container struct {
	pod  types.UID
	name string
}

// check is an error as long as the Pods of a complete roll-out have not run for steadyTime.
func (s *steadiness) check(ctx context.Context, r state.Reader) error {
	begun := !s.since.IsZero()
	if ran := r.Now().Sub(s.since); begun && ran < steadyTime {
		return fmt.Errorf("they have run for %s of %s", ran.Round(time.Second), steadyTime)
	}
	pods, err := s.list(ctx, r)
	if err != nil {
		return err
	}
	if broken := s.findBrokenOf(ctx, r, pods, false); broken != nil {
		return world.Permanent(broken)
	}
	s.since = time.Time{}
	kept, err := s.compare(pods)
	if err != nil || len(pods) == 0 { // without Pods that count, there is nothing to wait for
		return err
	}
	if begun && kept > 0 {
		return nil
	}
	s.since = r.Now()
	return fmt.Errorf("they have to run for %s", steadyTime)
}

// compare returns the number of containers that run since Pods were listed before. It is an error if one does not run or has
// been restarted. Pods that came or went meanwhile, with their nodes, are neither.
func (s *steadiness) compare(pods []corev1.Pod) (kept int, err error) {
	before := s.restarts
	s.restarts = map[container]int32{}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			one := container{pod.UID, c.Name}
			s.restarts[one] = c.RestartCount
			count, wasThere := before[one]
			switch {
			case wasThere && c.RestartCount != count:
				s.hasRestarted = true
				err = fmt.Errorf("container %s of Pod %s has been restarted", untrusted.Line(c.Name), untrusted.Line(pod.Name))
			case c.State.Running == nil:
				err = fmt.Errorf("container %s of Pod %s does not run", untrusted.Line(c.Name), untrusted.Line(pod.Name))
			case wasThere:
				kept++
			}
		}
	}
	return kept, err
}
