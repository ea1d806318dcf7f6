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

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
)

// RestartStale restarts the components of this control plane that use a certificate from before
// its renewal, one after the other, and says which certificates they serve or log in with then.
//
// etcd reads its certificates for each connection, and kube-apiserver reads them again when the
// files change, those of its clients too. They are restarted only if they do not serve what is on
// disk. kube-controller-manager and kube-scheduler read their kubeconfigs when they start.
var RestartStale = engine.Phase{
	Name:  "restart",
	Short: "Restart the components that use a certificate from before its renewal",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		uses, err := listUses(ctx, e, n)
		if err != nil {
			return err
		}
		if len(uses) == 0 {
			e.Warn("no component was restarted: this machine has no static Pod of a control plane")
		}
		var known []use
		var stale []string
		for _, u := range uses {
			err := e.Await(ctx, u.condition(n))
			if err != nil && ctx.Err() != nil {
				return err
			}
			if err != nil && !errors.As(err, new(staleError)) && !errors.Is(err, state.ErrNoServer) {
				e.Warn("%s was not restarted, as it is unknown which certificate it uses: %v",
					u.component, err)
				continue
			}
			known = append(known, u)
			if err != nil && !slices.Contains(stale, u.component) {
				e.Say("%s has to be restarted: %v", u.component, err)
				stale = append(stale, u.component)
			}
		}
		replacement := staticpod.Replacement{Node: n, As: as}
		if err := replacement.Restart(ctx, e, stale...); err != nil {
			return err
		}
		for _, u := range known {
			if err := e.Await(ctx, u.condition(n)); err != nil {
				return err
			}
			e.Say("%s uses %s: %s", u.component, u.path, describe(u.certificate))
		}
		return nil
	},
}

// reloadTime is how long a component may take to read a certificate again that was renewed.
const reloadTime = 15 * time.Second

// use is a certificate on disk, and the component that uses it.
type use struct {
	component   string
	path        string // of the file
	certificate *x509.Certificate
	server      string // "host:port" at which the component serves it; empty if it is a client's
}

// staleError is the error of a component that uses an old certificate, or is not running.
type staleError string

func (s staleError) Error() string { return string(s) }

// listUses lists the certificates that the manifests of this machine name, in the order in which the
// components are restarted.
func listUses(ctx context.Context, e *engine.Env, n *node.Node) (all []use, err error) {
	for _, of := range []struct{ component, file, server string }{ // names of arguments
		{manifest.Etcd, "cert-file", "advertise-client-urls"},
		{manifest.Etcd, "peer-cert-file", "initial-advertise-peer-urls"},
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
			return nil, err
		}
		u := use{component: of.component, path: manifest.ArgumentValue(pod, of.file)}
		switch {
		case of.component == release.APIServer:
			u.server = n.APIEndpoint()
		case of.server != "":
			first, _, _ := strings.Cut(manifest.ArgumentValue(pod, of.server), ",")
			address, err := url.Parse(first)
			if err != nil {
				return nil, fmt.Errorf("--%s of %s: %w", of.server, of.component, err)
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
			e.Warn("%s was not looked at, as the certificate in %q cannot be read: %v", u.component,
				u.path, err)
			continue
		}
		all = append(all, u)
	}
	return all, nil
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
			if err == nil && !served.Equal(u.certificate) {
				err = staleError("it serves another one: " + describe(served))
			}
			return err
		},
	}
}

// checkStarted is a permanent error unless the component was started after the file was written.
func (u use) checkStarted(ctx context.Context, r state.Reader, n *node.Node) error {
	file, err := r.Stat(ctx, u.path)
	if err != nil {
		return err
	}
	all, err := r.Containers(ctx, n.CRISocket)
	if err != nil {
		return err
	}
	text := "it is not running"
	for _, c := range all {
		if c.Component != u.component || !c.Running {
			continue
		}
		if c.Created.After(file.ModTime) {
			return nil
		}
		text = "it was started before the file was written"
	}
	return world.Permanent(staleError(text))
}

func describe(c *x509.Certificate) string {
	return fmt.Sprintf("serial number %x, expires %s", c.SerialNumber,
		c.NotAfter.UTC().Format(time.RFC3339))
}
