package staticpod

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Recover finishes the replacements of static Pods that a killed run has left, in their order. It
// asks only this machine: records, manifests, container runtime, kubelet and the components' own
// health endpoints. Every command that replaces or restarts static Pods calls it before it waits
// for the API server, which may be down because of them.
//
// A component that crashes with its new manifest gets the previous one again, and so do the ones
// after it, as in a failed Replace. That a component takes long is no reason: Recover returns an
// error then, and the next run resumes. Where no run was killed it changes nothing. Of Node only
// Local is needed.
func (r Replacement) Recover(ctx context.Context, e *engine.Env) error {
	r.anonymous = true // the certificate of As may have expired
	left, err := r.listUnfinished(ctx, e)
	if err != nil {
		return err
	}
	for i, s := range left {
		if s.record.Restored {
			err = r.recoverRestored(ctx, e, s)
		} else {
			err = r.finish(ctx, e, s)
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || s.record.Restored || !r.hasFailed(ctx, e, s, err) {
			return r.explainUnfinished(s, err)
		}
		if isAnyAddressGone(ctx, e, left[i:]) {
			return r.explainUnfinished(s, err)
		}
		e.Warn("%s does not run with the manifest from an interrupted run: %v", s.component, err)
		return r.restoreFrom(ctx, e, left[i:])
	}
	return nil
}

// finish waits until a component runs with the manifest that a killed run has written.
func (r Replacement) finish(ctx context.Context, e *engine.Env, s *step) error {
	isHealthy := r.isWantedHealthy(ctx, e, s)
	if !isHealthy {
		e.Say("resuming the replacement of the static Pod of %s", s.component)
		if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
			return health.WithKubeletHints(e.Local.Platform, err)
		}
	}
	if err := r.replaceOne(ctx, e, s); err != nil {
		return err
	}
	if s.changesEtcdVersion() { // other records are needed if a later component fails
		if err := e.Do(ctx, change.Remove{Path: recordPath(r.Node.Paths,
			s.component)}); err != nil {
			return err
		}
	}
	if s.component == manifest.Etcd && !isHealthy {
		return r.awaitAPIServer(ctx, e)
	}
	return nil
}

// awaitAPIServer waits for the kube-apiserver that was down with its etcd. If it is not healthy in
// time, what asks it next says why.
func (r Replacement) awaitAPIServer(ctx context.Context, e *engine.Env) error {
	pod, err := Read(ctx, e, r.Node, release.APIServer)
	if err != nil {
		return err
	}
	if isGone, err := isAddressGone(ctx, e, pod); err != nil || isGone {
		return err // it cannot become healthy before the node has moved
	}
	wait, err := health.StaticPod{
		Component: release.APIServer, Pod: pod, Anonymous: true,
		Matches: func(state.Container) bool { return true },
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	if err == nil {
		err = e.Await(ctx, wait)
	}
	if ctx.Err() != nil {
		return err
	}
	return nil
}

// isAnyAddressGone reports whether a previous manifest serves at an address that this machine has no longer: it cannot
// run again.
func isAnyAddressGone(ctx context.Context, e *engine.Env, steps []*step) bool {
	return slices.ContainsFunc(steps, func(s *step) bool {
		isGone, err := isAddressGone(ctx, e, s.previousPod)
		return err == nil && isGone
	})
}

// isAddressGone reports whether this machine no longer has the address at which its API server or etcd serves.
func isAddressGone(ctx context.Context, e *engine.Env, pod *corev1.Pod) (bool, error) {
	own, err := servingAddress(pod)
	if err != nil {
		return false, nil //nolint:nilerr // others report an annotation that is damaged
	}
	all, err := e.World.Addresses(ctx)
	if err != nil {
		return false, fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	return !slices.ContainsFunc(all, func(a state.Address) bool {
		ip, err := netip.ParseAddr(a.IP)
		return err == nil && ip.Unmap() == own.Unmap()
	}), nil
}

// servingAddress returns the address at which an API server or etcd serves by its manifest; an error for other components.
func servingAddress(pod *corev1.Pod) (netip.Addr, error) {
	host, _, _ := net.SplitHostPort(pod.Annotations[manifest.EndpointAnnotation])
	if url, _, _ := strings.Cut(pod.Annotations[manifest.EtcdURLAnnotation], ","); url != "" {
		host = node.HostOf(url)
	}
	return netip.ParseAddr(host)
}

// recoverRestored waits for an etcd whose previous version was restored. If that crashes, as with
// data that the new version has changed, it writes the new manifest again.
func (r Replacement) recoverRestored(ctx context.Context, e *engine.Env, s *step) error {
	wait, err := health.StaticPod{
		Component: s.component, Pod: s.previousPod, As: r.As, Anonymous: r.anonymous,
		Matches: func(state.Container) bool { return true },
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	if err != nil {
		return err
	}
	failed := e.Await(ctx, wait)
	if failed == nil {
		return e.Do(ctx, change.Remove{Path: recordPath(r.Node.Paths, s.component)},
			change.Remove{Path: s.record.Backup},
			change.Remove{Path: path.Dir(s.record.Backup), OnlyEmpty: true})
	}
	if err := r.listContainers(ctx, e, s, true); err != nil {
		return err
	}
	previous := func(c state.Container) bool { return slices.Contains(s.podUIDs, c.PodUID) }
	if ctx.Err() != nil || !r.isCrashing(ctx, e, s, previous, failed) {
		return failed
	}
	e.Warn("the previous version of etcd does not start: %v", failed)
	e.Say("writing the new manifest of etcd again")
	forward := *s
	forward.record.Restored = false
	forward.otherPodUIDs = slices.Concat(s.record.PodUIDs, s.podUIDs)
	if err := r.replaceOne(ctx, e, &forward); err != nil {
		return fmt.Errorf("neither the previous version of etcd (%w) nor the new one starts: %w",
			failed, err)
	}
	return e.Do(ctx, change.Remove{Path: recordPath(r.Node.Paths, s.component)})
}

// restoreFrom restores the previous manifests of components, the last one first.
func (r Replacement) restoreFrom(ctx context.Context, e *engine.Env, steps []*step) error {
	for _, s := range slices.Backward(steps) {
		if _, err := r.restore(ctx, e, s); err != nil {
			return r.explainUnfinished(s, fmt.Errorf("restoring the previous manifest: %w", err))
		}
	}
	return nil
}

// explainUnfinished says how to go on where a replacement could not be finished.
func (r Replacement) explainUnfinished(s *step, err error) error {
	hints := []string{
		"re-run the command to resume",
		"see what the component is doing in its log: crictl logs CONTAINERID",
	}
	if s.component == manifest.Etcd && s.changesEtcdVersion() {
		hints = append(hints, "do not restore etcd's previous manifest by hand while the new version is "+
			"running: the previous version may reject data that the new one has changed")
	} else {
		hints = append(hints, "the previous manifest is in "+s.record.Backup)
	}
	return problem.During("resuming the replacement of the static Pod of "+s.component, err, hints...)
}

// listUnfinished returns the components whose manifest a killed run has replaced, in the order in
// which it replaced them, and an etcd whose previous version was restored and did not start.
func (r Replacement) listUnfinished(ctx context.Context, e *engine.Env) ([]*step, error) {
	var left []*step
	for _, component := range append([]string{manifest.Etcd}, manifest.Components()...) {
		record, err := readRecord(ctx, e, r.Node.Paths, component)
		if err != nil {
			return nil, err
		}
		if record == nil || record.Backup == "" {
			continue
		}
		s, err := r.readUnfinished(ctx, e, component, *record)
		if err != nil {
			return nil, err
		}
		if s != nil {
			left = append(left, s)
		}
	}
	return left, nil
}

// readUnfinished returns the step that a record describes, or nil if the manifest on disk is not of
// the record's run.
func (r Replacement) readUnfinished(ctx context.Context, e *engine.Env, component string,
	found record) (*step, error) {
	s := &step{component: component, file: r.Node.Paths.Manifest(component), record: found,
		otherPodUIDs: found.PodUIDs, wasHealthy: true}
	current, err := state.ReadOptional(ctx, e.World, s.file)
	if err != nil {
		return nil, err
	}
	if s.previous, err = state.ReadOptional(ctx, e.World, found.Backup); err != nil {
		return nil, err
	}
	s.wanted = current
	if found.Restored && digest(current) == found.Previous {
		s.previous, s.wanted = current, []byte(found.Wanted)
	} else {
		s.record.Restored = false // it was killed before it restored the manifest
		s.state = stepWritten
	}
	isOurs := slices.Contains(found.Written, digest(s.wanted)) &&
		digest(s.previous) == found.Previous
	if !isOurs {
		return nil, nil
	}
	if s.wantedPod, err = parsePod(s.wanted); err == nil {
		s.previousPod, err = parsePod(s.previous)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifests from an interrupted run: %w", err)
	}
	return s, nil
}

// LeadsBackTo reports whether a killed run has led the API server or etcd away from an address, which their previous manifests
// have: a Replace with these takes over what that run has left. Recover may remove the records of it.
func (r Replacement) LeadsBackTo(ctx context.Context, e *engine.Env, address string) (bool, error) {
	left, err := r.listUnfinished(ctx, e)
	return slices.ContainsFunc(left, func(s *step) bool {
		return isServedAt(s.previousPod, address) && !isServedAt(s.wantedPod, address) && !s.changesEtcdVersion()
	}), err
}

func isServedAt(pod *corev1.Pod, address string) bool {
	at, err := servingAddress(pod)
	wanted, wantedErr := netip.ParseAddr(address)
	return err == nil && wantedErr == nil && at.Unmap() == wanted.Unmap()
}
