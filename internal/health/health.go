// Package health waits for a healthy kubelet and healthy components of a control plane. Its errors
// say why they are not healthy and what to do about it.
package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/kubeletwatch"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Kubelet is met once the kubelet's health endpoint answers, at the address in its configuration
// file, or in the cluster's configuration of kubelets if that cannot be read.
func Kubelet(ctx context.Context, r state.Reader, n *node.Node) world.Condition {
	config := &kubeletconfig.KubeletConfiguration{} // with the user's patches
	data, err := r.ReadFile(ctx, n.Paths.KubeletConfig())
	if (err != nil || yaml.Unmarshal(data, config) != nil) && n.Cluster.Kubelet.Config != nil {
		config = n.Cluster.Kubelet.Config
	}
	host, port := "127.0.0.1", int32(10248)
	if config.HealthzBindAddress != "" {
		host = config.HealthzBindAddress
	}
	if config.HealthzPort != nil {
		port = *config.HealthzPort
	}
	url := fmt.Sprintf("http://%s/healthz", net.JoinHostPort(host, fmt.Sprint(port)))
	var w kubeletwatch.Watch
	return world.Condition{
		Name:    "the kubelet at " + url,
		Timeout: n.Timeouts.Kubelet,
		Check: func(ctx context.Context, r state.Reader) error {
			if port == 0 {
				return nil // the user has disabled the endpoint
			}
			return w.AddCause(ctx, r, n.CRISocket,
				checkHTTPHealth(ctx, r, state.Request{URL: url, Loopback: true}))
		},
	}
}

// APIServer is met once this machine's API server is live and runs by its current manifest. If the
// local etcd has failed, the error says so first.
func APIServer(n *node.Node, as state.Identity) world.Condition {
	return apiServer(n, as, func(context.Context, state.Reader, *state.NotLiveError) bool { return false })
}

// bootstrapChecks are those of an API server's liveness that wait for the objects of every cluster,
// which it creates a second after it began to answer.
var bootstrapChecks = []string{RBACCheck, "poststarthook/scheduling/bootstrap-system-priority-classes"}

// RBACCheck is the check of an API server's liveness that fails until all RBAC objects of every
// cluster exist.
const RBACCheck = "poststarthook/rbac/bootstrap-roles"

// AuthorizingAPIServer is met once this machine's API server authorizes kube-controller-manager to
// lead, which is a moment before it has created the last of the objects of every cluster. Started
// earlier, that component would try again only two to four seconds later.
func AuthorizingAPIServer(n *node.Node, as state.Identity) world.Condition {
	lease := state.Ref{GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Namespace: metav1.NamespaceSystem, Name: release.ControllerManager,
		As: state.Identity{Kubeconfig: n.Paths.Kubeconfig("controller-manager.conf"),
			Server: n.LocalServerURL()}}
	c := apiServer(n, as, func(ctx context.Context, r state.Reader, answer *state.NotLiveError) bool {
		if !answer.FailsOnly(bootstrapChecks) {
			return false
		}
		_, err := r.Object(ctx, lease)
		return err == nil || apierrors.IsNotFound(err)
	})
	c.Name = "kube-apiserver at " + n.LocalServerURL() + " to authorize kube-controller-manager"
	return c
}

// JoinedAPIServer is met once this machine's API server can serve a cluster that has other API
// servers, and so has the objects of every cluster already.
func JoinedAPIServer(n *node.Node, as state.Identity) world.Condition {
	c := apiServer(n, as, func(_ context.Context, _ state.Reader, answer *state.NotLiveError) bool {
		return answer.FailsOnly(bootstrapChecks)
	})
	c.Name = "kube-apiserver at " + n.LocalServerURL() + " to serve requests"
	return c
}

// apiServer is met once this machine's API server is live, or not live in a way that will do.
func apiServer(n *node.Node, as state.Identity,
	willDo func(context.Context, state.Reader, *state.NotLiveError) bool) world.Condition {
	d := diagnosis{watches: []*crashWatch{{socket: n.CRISocket, component: release.APIServer}}}
	if local, _ := node.HasLocalEtcd(n); local {
		d.watches[0].requires = manifest.Etcd
		d.watches = append([]*crashWatch{{socket: n.CRISocket, component: manifest.Etcd}},
			d.watches...)
	}
	old := &outdatedWatch{n: n, components: []string{release.APIServer, manifest.Etcd}}
	return world.Condition{
		Name:     "kube-apiserver at " + n.LocalServerURL() + "/livez",
		Timeout:  n.Timeouts.ControlPlane,
		MaxPause: 25 * time.Millisecond,
		Check: func(ctx context.Context, r state.Reader) error {
			if err := old.check(ctx, r); err != nil {
				return err
			}
			err := r.Livez(ctx, as)
			if answer, ok := errors.AsType[*state.NotLiveError](err); ok && willDo(ctx, r, answer) {
				return nil
			}
			return d.addCause(ctx, r, err)
		},
	}
}

// Component is met once a control plane component of this machine is healthy at url and runs by
// its current manifest.
func Component(n *node.Node, component, url string) world.Condition {
	d := diagnosis{watches: []*crashWatch{{socket: n.CRISocket, component: component}}}
	old := &outdatedWatch{n: n, components: []string{component}}
	return world.Condition{
		Name:    component + " at " + url,
		Timeout: n.Timeouts.ControlPlane,
		Check: func(ctx context.Context, r state.Reader) error {
			if err := old.check(ctx, r); err != nil {
				return err
			}
			return d.addCause(ctx, r,
				checkHTTPHealth(ctx, r, state.Request{URL: url, Loopback: true}))
		},
	}
}

func checkHTTPHealth(ctx context.Context, r state.Reader, req state.Request) error {
	answer, err := r.Fetch(ctx, req)
	if err != nil {
		return err
	}
	return newStatusError(answer)
}

// newStatusError returns an error for every status but 200.
func newStatusError(answer state.Response) error {
	if answer.Status == http.StatusOK {
		return nil
	}
	return fmt.Errorf("it answered with status %d: %s", answer.Status,
		untrusted.Quote(string(answer.Body)))
}

// WithKubeletHints adds the next steps to the error of a kubelet that does not become healthy.
func WithKubeletHints(p node.Platform, err error) error {
	return problem.New(err, "The kubelet is not running or not healthy; find out why: "+
		p.ServiceCommand("status", "kubelet")+"; "+p.LogHint("kubelet"))
}

// WithComponentHints adds the next steps to the error of a component that does not become healthy.
func WithComponentHints(n *node.Node, err error) error {
	var hints []string
	if servers, ok := node.LastArg(n.Cluster.APIServer.Args, "etcd-servers"); ok {
		hints = append(hints,
			fmt.Sprintf("apiServer.extraArgs sets etcd-servers to %s: check that etcd answers there", untrusted.Quote(servers)))
	}
	return problem.New(err, append(hints,
		untrusted.CommandHint("list the containers", "crictl --runtime-endpoint %s ps -a", n.CRISocket),
		untrusted.CommandHint("read the log of one", "crictl --runtime-endpoint %s logs CONTAINERID",
			n.CRISocket),
		"if a container is missing, look for the reason in the kubelet's log: journalctl -xeu kubelet",
		"to use other settings: kubeadm reset, then run this command with them")...)
}
