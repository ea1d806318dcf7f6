package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// StaticPod describes the static Pod of a component on this machine that must become healthy.
type StaticPod struct {
	Component string
	// Pod is the decoded manifest. Its probes say which endpoint is asked.
	Pod *corev1.Pod
	// As is the identity for requests to this machine's kube-apiserver; requests to other
	// components are anonymous.
	As state.Identity
	// Anonymous is set to ask kube-apiserver without credentials, where a refusal shows too that it
	// is alive.
	Anonymous bool
	// Matches reports whether a container belongs to the Pod. No other container of the component
	// may be running.
	Matches func(state.Container) bool
	// IgnoreExits are the IDs of containers that existed before; their exits are not a crash cause
	// of this Pod.
	IgnoreExits []string
	// KeptPodAfter is the time after which other running containers are accepted; 0 for never. The
	// kubelet keeps a Pod whose new manifest differs only in values that equal the defaults.
	KeptPodAfter time.Duration
	// StableFor is how long the component must have been healthy without interruption.
	StableFor time.Duration
}

// Condition returns a condition that is met once the Pod is running and the component is healthy.
// It gives up if the container exited for a reason that a restart cannot fix. It reads the
// container runtime and the component itself, not the API server.
func (p StaticPod) Condition(n *node.Node, timeout time.Duration) (world.Condition, error) {
	url, err := probeURL(p.Pod, p.Component, n)
	if err != nil {
		return world.Condition{}, err
	}
	if p.Component == release.APIServer && (!p.Anonymous || url == "") {
		p.As.Server = n.LocalServerURL()
		url = p.As.Server + "/livez"
	}
	watch := &crashWatch{socket: n.CRISocket, component: p.Component,
		existed: map[string]struct{}{}}
	for _, id := range p.IgnoreExits {
		watch.existed[id] = struct{}{}
	}
	if local, _ := node.HasLocalEtcd(n); local && p.Component == release.APIServer {
		watch.requires = manifest.Etcd
	}
	w := &podWait{StaticPod: p, socket: n.CRISocket, url: url,
		diagnosis: diagnosis{watches: []*crashWatch{watch}}}
	return world.Condition{
		Name:    fmt.Sprintf("%s to run with its current manifest at %s", p.Component, url),
		Timeout: timeout,
		Check:   w.check,
	}, nil
}

// podWait is the state of the wait for one static Pod.
type podWait struct {
	StaticPod
	socket, url string
	diagnosis   diagnosis
	begun       time.Time
	started     bool // a check found the container running
	// since when each check has found the component healthy; zero if the last one has not
	healthySince time.Time
}

func (w *podWait) check(ctx context.Context, r state.Reader) error {
	now := r.Now()
	if w.begun.IsZero() {
		w.begun = now
	}
	// Listing all containers is expensive: once the container is running, they are listed again
	// only when it is healthy.
	var err error
	if !w.started {
		err = w.checkRunning(ctx, r)
		w.started = err == nil
	}
	switch {
	case err != nil:
	case w.Component == release.APIServer && !w.Anonymous:
		err = r.Livez(ctx, w.As)
	case w.Component == release.APIServer:
		err = checkAnonymous(ctx, r, w.url)
	default:
		err = checkHTTPHealth(ctx, r, state.Request{URL: w.url, Loopback: true})
	}
	if err == nil {
		err = w.checkRunning(ctx, r)
	}
	if err != nil {
		w.healthySince = time.Time{}
		return w.diagnosis.addCause(ctx, matchingContainers{r, w.StaticPod}, err)
	}
	if w.healthySince.IsZero() {
		w.healthySince = now
	}
	if now.Sub(w.healthySince) < w.StableFor {
		return fmt.Errorf("it has been healthy for less than %s", w.StableFor)
	}
	return nil
}

// checkAnonymous returns an error unless the API server of this machine is alive. It may refuse users
// without credentials.
func checkAnonymous(ctx context.Context, r state.Reader, url string) error {
	answer, err := r.Fetch(ctx, state.Request{URL: url, Loopback: true})
	if err != nil || answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden {
		return err
	}
	return newStatusError(answer)
}

// checkRunning returns an error unless a container of the Pod is running, and no other container of
// the component.
func (w *podWait) checkRunning(ctx context.Context, r state.Reader) error {
	all, err := r.Containers(ctx, w.socket)
	if err != nil {
		return err
	}
	matching, others := 0, 0
	for _, c := range containersOf(all, w.Component) {
		switch {
		case !c.Running:
		case w.Matches(c):
			matching++
		default:
			others++
		}
	}
	switch {
	case others > 0 && matching == 0 && w.isKept(ctx, r):
		return nil
	case others > 0:
		return errors.New("the container of another manifest is still running")
	case matching == 0:
		return errors.New("no container of this manifest is running")
	}
	return nil
}

// isKept reports whether the kubelet has kept the Pod because both manifests are equal to it: the
// kubelet is active and had more time than it needs to terminate a Pod.
func (w *podWait) isKept(ctx context.Context, r state.Reader) bool {
	if w.KeptPodAfter == 0 || r.Now().Sub(w.begun) < w.KeptPodAfter {
		return false
	}
	s, err := r.Service(ctx, "kubelet")
	return err == nil && s.Active
}

// matchingContainers is a Reader without the component's containers of other manifests: their exits
// are no cause.
type matchingContainers struct {
	state.Reader
	pod StaticPod
}

func (a matchingContainers) Containers(ctx context.Context,
	socket string) ([]state.Container, error) {
	all, err := a.Reader.Containers(ctx, socket)
	var left []state.Container
	for _, c := range all {
		if c.Component != a.pod.Component || a.pod.Matches(c) {
			left = append(left, c)
		}
	}
	return left, err
}

// probeURL returns the URL of a component's startup, liveness or readiness probe, or the default
// URL if the user's patches have removed the probes.
func probeURL(pod *corev1.Pod, component string, n *node.Node) (string, error) {
	c, err := manifest.ComponentContainer(pod, component)
	if err != nil {
		return "", err
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			continue
		}
		get := probe.HTTPGet
		host, scheme := get.Host, strings.ToLower(string(get.Scheme))
		if host == "" {
			host = n.LoopbackAddress() // the Pod uses the host network
		}
		if scheme == "" {
			scheme = "http"
		}
		port := get.Port.IntVal
		for _, p := range c.Ports {
			if get.Port.Type == intstr.String && p.Name == get.Port.StrVal {
				port = p.ContainerPort
			}
		}
		if port == 0 {
			return "", fmt.Errorf("container %s has no port %s, which its probe refers to",
				component, get.Port.String())
		}
		return fmt.Sprintf("%s://%s%s", scheme, net.JoinHostPort(host, strconv.Itoa(int(port))),
			get.Path), nil
	}
	switch component {
	case manifest.Etcd:
		return manifest.EtcdHealthURL(n), nil
	case release.ControllerManager:
		return "https://" + net.JoinHostPort(n.LoopbackAddress(), "10257") + "/healthz", nil
	case release.Scheduler:
		return "https://" + net.JoinHostPort(n.LoopbackAddress(), "10259") + "/livez", nil
	}
	return "", nil // Condition asks kube-apiserver at LocalServerURL
}
