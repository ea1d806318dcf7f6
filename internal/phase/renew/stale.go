package renew

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
)

// restartStale restarts the components of this control plane that use a certificate from before
// its renewal, one after the other, and says which certificates they serve or log in with then.
//
// etcd reads its certificates for each connection, and kube-apiserver reads them again when the
// files change, those of its clients too. They are restarted only if they do not serve what is on
// disk, or have exited. One that refuses connections while it starts is waited for.
// kube-controller-manager and kube-scheduler read their kubeconfigs when they start.
//
// While etcd has no quorum because the certificates of other members have expired, kube-apiserver
// cannot become healthy: then it says on which nodes to go on, and does not wait for it. An etcd
// without a quorum serves the certificate for other members, but does not answer clients.
//
// It returns whether this node has a kube-apiserver, which is live then.
func (s *staleRestart) restartStale(ctx context.Context, e *engine.Env) (live bool, err error) {
	uses, err := listUses(ctx, e, s.node)
	if err != nil {
		return false, err
	}
	if len(uses) == 0 {
		e.Warn("no component was restarted: this machine has no control plane static Pods")
		return false, nil
	}
	if peer := uses[0]; peer.component == manifest.Etcd {
		if err := s.restartEtcd(ctx, e, peer); err != nil {
			return false, err
		}
		err := e.Await(ctx, quorum(s.node))
		if err != nil && ctx.Err() == nil {
			return false, s.withoutQuorum(ctx, e, uses, err)
		}
		if err != nil {
			return false, err
		}
		uses = uses[1:]
	}
	stale, err := s.findStale(ctx, e, uses)
	if err != nil {
		return false, err
	}
	if len(stale) > 0 {
		err := s.lock().HoldIfReachable(ctx, e, func(ctx context.Context, e *engine.Env) error {
			return staticpod.Replacement{Node: s.node, As: s.as}.Restart(ctx, e, stale...)
		})
		if err != nil {
			return false, err
		}
	}
	if live = slices.ContainsFunc(uses,
		func(u use) bool { return u.component == release.APIServer }); live {
		// One that the kubelet has restarted serves its certificate seconds before it is live.
		if err := e.Await(ctx, health.APIServer(s.node, s.as)); err != nil {
			return false, health.WithComponentHints(s.node, err)
		}
	}
	return live, s.report(ctx, e)
}

// staleRestart is one run of RestartStale.
type staleRestart struct {
	node  *node.Node
	as    state.Identity
	known []use // those of which can be found out which certificate they use
	// kubeletHadExpired is that the kubelet's client certificate had expired or was missing.
	kubeletHadExpired bool
}

// findStale returns the components that use an old certificate or have exited, and adds to known.
func (s *staleRestart) findStale(ctx context.Context, e *engine.Env, uses []use) ([]string, error) {
	var stale []string
	for _, u := range uses {
		err := e.Await(ctx, u.condition(s.node))
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if errors.Is(err, errStarting) {
			e.Say("%s is not restarted: %v", u.component, err)
			s.known = append(s.known, u)
			continue
		}
		if err != nil && !errors.As(err, new(staleError)) {
			e.Warn("%s was not restarted, because it is unknown which certificate it uses: %v",
				u.component, err)
			continue
		}
		s.known = append(s.known, u)
		if err != nil && !slices.Contains(stale, u.component) {
			e.Say("%s must be restarted: %v", u.component, err)
			stale = append(stale, u.component)
		}
	}
	return stale, nil
}

// restartEtcd restarts the local etcd if it serves an old certificate to other members or has exited,
// and waits until it serves the new one. It does not wait until etcd is healthy: without a quorum it
// never is.
func (s *staleRestart) restartEtcd(ctx context.Context, e *engine.Env, peer use) error {
	if c, err := peer.newestContainer(ctx, e.World, s.node); err == nil && !c.Running {
		// A kubelet that has just started asks kube-apiserver before it starts etcd, and
		// kube-apiserver without etcd answers none of its requests: two minutes instead of six seconds.
		e.Say("stopping kube-apiserver, because it cannot answer without etcd")
		if err := e.Do(ctx, change.RemoveContainers{Socket: s.node.CRISocket,
			Component: release.APIServer}); err != nil {
			return err
		}
	}
	stale, err := s.findStale(ctx, e, []use{peer})
	if err != nil || len(s.known) == 0 {
		return err
	}
	awaitStart := func(ctx context.Context, e *engine.Env) error {
		c := peer.condition(s.node)
		c.Timeout = s.node.Timeouts.Upgrade
		if err := e.Await(ctx, c); err != nil {
			return health.WithComponentHints(s.node, fmt.Errorf("waiting for etcd to start: %w", err))
		}
		return nil
	}
	if len(stale) == 0 {
		return awaitStart(ctx, e)
	}
	return s.lock().HoldIfReachable(ctx, e, func(ctx context.Context, e *engine.Env) error {
		e.Say("restarting the static Pod of %s", manifest.Etcd)
		if err := e.Do(ctx, change.RemoveContainers{Socket: s.node.CRISocket,
			Component: manifest.Etcd, GracePeriod: etcdGracePeriod}); err != nil {
			return err
		}
		return awaitStart(ctx, e)
	})
}

// lock is the lock of the cluster, which a restart holds so that no other control plane node is
// changed meanwhile.
func (s *staleRestart) lock() clusterlock.Lock {
	shared := s.as
	shared.Server = "" // that of the kubeconfig: often a load balancer
	return clusterlock.Lock{Node: s.node.Name,
		Purpose: "restarting components that use old certificates",
		As:      []state.Identity{s.as, shared}}
}

// withoutQuorum ends the containers that use old certificates, so that the kubelet restarts them,
// and says what is left to do on other nodes. If their certificates have not expired, that is the
// error.
func (s *staleRestart) withoutQuorum(ctx context.Context, e *engine.Env, uses []use,
	cause error) error {
	// kube-apiserver reads its certificates again, or the kubelet restarts it
	clients := slices.DeleteFunc(slices.Clone(uses), func(u use) bool { return u.server != "" })
	stale, err := s.findStale(ctx, e, clients)
	if err != nil {
		return err
	}
	for _, component := range stale {
		e.Say("restarting the static Pod of %s", component)
		if err := e.Do(ctx, change.RemoveContainers{Socket: s.node.CRISocket,
			Component: component}); err != nil {
			return err
		}
	}
	others := "each of the other control plane nodes"
	lost, isLost := errors.AsType[*lostQuorum](cause)
	if isLost {
		others = strings.Join(lost.nodes, ", ")
	} else if !s.kubeletHadExpired {
		return explainNoQuorum(s.node, cause)
	}
	e.Print(fmt.Sprintf(noQuorumText, cause, others))
	return nil
}

// noQuorumText is the result on a node that has to wait for others.
const noQuorumText = `
This node is done, but etcd has no quorum yet:
  %v
Once it has one, the kubelet starts kube-apiserver on this node. There is no need to re-run the command here.
Run it on %s:

  kubeadm certs renew all --restart
`

// report says which certificates the components use now.
func (s *staleRestart) report(ctx context.Context, e *engine.Env) error {
	for _, u := range s.known {
		if err := e.Await(ctx, u.condition(s.node)); err != nil {
			return err
		}
		e.Say("%s uses %s: %s", u.component, u.path, describe(u.certificate))
	}
	return nil
}

// etcdGracePeriod is that of its static Pod.
const etcdGracePeriod = 30 * time.Second

// reloadTime is how long a component may take to read a certificate again that was renewed.
const reloadTime = 15 * time.Second

// use is a certificate on disk, and the component that uses it.
type use struct {
	component   string
	path        string // of the file
	certificate *x509.Certificate
	server      string // "host:port" at which the component serves it; empty if it is a client's
}

// staleError is the error of a component that uses an old certificate, has exited or does not run.
type staleError string

// errStarting is the error of a server whose container runs, or is yet to be created.
var errStarting = errors.New("it is starting and reads the new certificate then")

// notRunning is the error of a component without a running container.
const notRunning staleError = "it is not running"

func (s staleError) Error() string { return string(s) }

// listUses lists the certificates that the manifests of this machine name, in the order in which the
// components are restarted. The first of a local etcd is that for other members. Beside an error it
// returns those of the other components.
func listUses(ctx context.Context, e *engine.Env, n *node.Node) (all []use, err error) {
	var errs []error
	for _, of := range []struct{ component, file, server string }{ // names of arguments
		{manifest.Etcd, "peer-cert-file", "initial-advertise-peer-urls"},
		{manifest.Etcd, "cert-file", "advertise-client-urls"},
		{release.APIServer, "tls-cert-file", ""},
		{release.ControllerManager, "kubeconfig", ""},
		{release.Scheduler, "kubeconfig", ""},
	} {
		exists, err := state.Exists(ctx, e.World, n.Paths.Manifest(of.component))
		if err == nil && !exists {
			continue // such as an external etcd
		}
		var pod *corev1.Pod
		if err == nil {
			pod, err = staticpod.Read(ctx, e, n, of.component)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		u := use{component: of.component, path: manifest.ArgumentValue(pod, of.file)}
		switch {
		case of.component == release.APIServer:
			u.server = n.APIEndpoint()
		case of.server != "":
			first, _, _ := strings.Cut(manifest.ArgumentValue(pod, of.server), ",")
			address, err := url.Parse(first)
			if err != nil {
				errs = append(errs, fmt.Errorf("--%s of %s: %w", of.server, of.component, err))
				continue
			}
			u.server = address.Host
		}
		data, err := e.World.ReadFile(ctx, u.path)
		if err == nil {
			renewable := pki.Renewable{Base: u.path}
			if u.server == "" {
				renewable = pki.Renewable{File: u.path}
			}
			u.certificate, err = renewable.Certificate(data)
		}
		if err != nil {
			e.Warn("%s was not checked, because the certificate in %q cannot be read: %v", u.component,
				u.path, err)
			continue
		}
		all = append(all, u)
	}
	return all, errors.Join(errs...)
}

// condition is met when the component uses the certificate.
func (u use) condition(n *node.Node) world.Condition {
	return world.Condition{
		Name:    fmt.Sprintf("%s to use the certificate in %s", u.component, u.path),
		Timeout: reloadTime,
		Check: func(ctx context.Context, r state.Reader) error {
			if u.server == "" {
				return u.checkStarted(ctx, r, n)
			}
			served, err := r.ServedCertificate(ctx, u.server)
			if errors.Is(err, state.ErrNoServer) {
				return u.explainRefusal(ctx, r, n, err)
			}
			if err == nil && !served.Equal(u.certificate) {
				err = staleError("it serves a different one: " + describe(served))
			}
			return err
		},
	}
}

// explainRefusal returns a staleError if a server that refuses connections has exited. Otherwise it
// is starting, which may take minutes on a slow disk: a restart would only begin that again.
func (u use) explainRefusal(ctx context.Context, r state.Reader, n *node.Node, refusal error) error {
	c, err := u.newestContainer(ctx, r, n)
	switch {
	case err != nil:
		return err
	case c.ID != "" && !c.Running:
		return staleError(fmt.Sprintf("it has exited with code %d", c.ExitCode))
	}
	return fmt.Errorf("%w: %w", errStarting, refusal)
}

// checkStarted is a permanent error unless the component was started after the file was written.
func (u use) checkStarted(ctx context.Context, r state.Reader, n *node.Node) error {
	file, err := r.Stat(ctx, u.path)
	if err != nil {
		return err
	}
	c, err := u.newestContainer(ctx, r, n)
	switch {
	case err != nil:
		return err
	case !c.Running:
		return world.Permanent(notRunning)
	case !c.Created.After(file.ModTime):
		return world.Permanent(staleError("it was started before the file was written"))
	}
	return nil
}

// newestContainer returns the component's container that was created last, zero if there is none.
func (u use) newestContainer(ctx context.Context, r state.Reader, n *node.Node) (newest state.Container, err error) {
	all, err := r.Containers(ctx, n.CRISocket)
	for _, c := range all { // oldest first
		if c.Component == u.component && c.Name == u.component { // not a sidecar
			newest = c
		}
	}
	return newest, err
}

func describe(c *x509.Certificate) string {
	return fmt.Sprintf("serial number %x, expires %s", c.SerialNumber,
		c.NotAfter.UTC().Format(time.RFC3339))
}
