package health

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// StaticPod says which container of a component on this machine is to run and to serve.
type StaticPod struct {
	Component string
	// Pod is what its manifest says. The component is asked where the probes of this Pod ask it.
	Pod *corev1.Pod
	// As is the identity with which the kube-apiserver of this machine is asked; other components
	// are asked anonymously.
	As state.Identity
	// Accepts reports whether a container belongs to the Pod that is waited for. No other
	// container of the component may run.
	Accepts func(state.Container) bool
	// Known are the IDs of the containers that were there before. How they ended says nothing
	// about this Pod.
	Known []string
	// SamePodAfter is when other containers that still run are accepted; 0 for never. The kubelet
	// keeps a Pod whose manifest differs only in values that are defaults.
	SamePodAfter time.Duration
	// StableFor is for how long the component must have served without a break.
	StableFor time.Duration
}

// Condition holds once the Pod runs and the component serves. It gives up where the container has
// ended for a reason that another start cannot fix. Nothing is asked through the API server.
func (p StaticPod) Condition(n *node.Node, timeout time.Duration) (world.Condition, error) {
	url, err := probeURL(p.Pod, p.Component, n)
	if err != nil {
		return world.Condition{}, err
	}
	if p.Component == release.APIServer {
		p.As.Server = n.LocalServerURL()
		url = p.As.Server + "/livez"
	}
	watch := &crashWatch{socket: n.CRISocket, component: p.Component,
		existed: map[string]struct{}{}}
	for _, id := range p.Known {
		watch.existed[id] = struct{}{}
	}
	if local, _ := node.HasLocalEtcd(n); local && p.Component == release.APIServer {
		watch.requires = manifest.Etcd
	}
	w := &podWait{StaticPod: p, socket: n.CRISocket, url: url,
		diagnosis: diagnosis{watches: []*crashWatch{watch}}}
	return world.Condition{
		Name:    fmt.Sprintf("%s to run by its manifest and to answer at %s", p.Component, url),
		Timeout: timeout,
		Check:   w.check,
	}, nil
}

// podWait is the wait for one static Pod.
type podWait struct {
	StaticPod
	socket, url string
	diagnosis   diagnosis
	begun       time.Time
	started     bool // the container was seen to run
	// since when each check found the component serving; zero if the last one did not
	serving time.Time
}

func (w *podWait) check(ctx context.Context, r state.Reader) error {
	now := r.Now()
	if w.begun.IsZero() {
		w.begun = now
	}
	// A list of all containers is costly. Once the container runs, it is asked for again only
	// when it serves.
	var err error
	if !w.started {
		err = w.checkRuns(ctx, r)
		w.started = err == nil
	}
	if err == nil {
		err = w.checkServes(ctx, r)
	}
	if err == nil {
		err = w.checkRuns(ctx, r)
	}
	if err != nil {
		w.serving = time.Time{}
		return w.diagnosis.addCause(ctx, acceptedContainers{r, w.StaticPod}, err)
	}
	if w.serving.IsZero() {
		w.serving = now
	}
	if now.Sub(w.serving) < w.StableFor {
		return fmt.Errorf("it serves for less than %s", w.StableFor)
	}
	return nil
}

// checkRuns is an error unless a container of the Pod runs, and no other container of the
// component.
func (w *podWait) checkRuns(ctx context.Context, r state.Reader) error {
	all, err := r.Containers(ctx, w.socket)
	if err != nil {
		return err
	}
	accepted, others := 0, 0
	for _, c := range containersOf(all, w.Component) {
		switch {
		case !c.Running:
		case w.Accepts(c):
			accepted++
		default:
			others++
		}
	}
	switch {
	case others > 0 && accepted == 0 && w.isKept(ctx, r):
		return nil
	case others > 0:
		return errors.New("the container of another manifest still runs")
	case accepted == 0:
		return errors.New("no container of this manifest runs")
	}
	return nil
}

// isKept reports whether the kubelet must have kept the Pod, as to it both manifests are the same:
// it is healthy and had more time than it takes to end a Pod.
func (w *podWait) isKept(ctx context.Context, r state.Reader) bool {
	if w.SamePodAfter == 0 || r.Now().Sub(w.begun) < w.SamePodAfter {
		return false
	}
	s, err := r.Service(ctx, "kubelet")
	return err == nil && s.Active
}

func (w *podWait) checkServes(ctx context.Context, r state.Reader) error {
	if w.Component == release.APIServer {
		return r.Livez(ctx, w.As)
	}
	return checkHTTPHealth(ctx, r, state.Request{URL: w.url, Loopback: true})
}

// acceptedContainers is a Reader that leaves out the component's containers of other manifests, so
// that only those of the Pod waited for say why it does not come up.
type acceptedContainers struct {
	state.Reader
	pod StaticPod
}

func (a acceptedContainers) Containers(ctx context.Context,
	socket string) ([]state.Container, error) {
	all, err := a.Reader.Containers(ctx, socket)
	var left []state.Container
	for _, c := range all {
		if c.Component != a.pod.Component || a.pod.Accepts(c) {
			left = append(left, c)
		}
	}
	return left, err
}

// probeURL returns where the kubelet asks a component whether it has started, or else whether it
// is alive. Of a component whose probes were patched away it returns the usual place.
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
			host = n.LoopbackAddress() // the Pod has the network of this machine
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
			return "", fmt.Errorf("the container %s has no port %s, which its probe names",
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
	return "", nil // kube-apiserver is asked at its address
}
