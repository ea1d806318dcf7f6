package certuse

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
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

// reloadTime is how long a component may take to read a certificate again that was renewed.
const reloadTime = 15 * time.Second

// Use is a certificate on disk, and the component that uses it.
type Use struct {
	Component   string
	Path        string // of the file
	Certificate *x509.Certificate
	Server      string // "host:port" at which the component serves it; empty if it is a client's
}

// StaleError is the error of a component that uses an old certificate, has exited or does not run.
type StaleError string

// ErrStarting is the error of a server whose container runs, or is yet to be created.
var ErrStarting = errors.New("it is starting and reads the new certificate then")

// notRunning is the error of a component without a running container.
const notRunning StaleError = "it is not running"

func (s StaleError) Error() string { return string(s) }

// ListUses lists the certificates that the manifests of this machine name, in the order in which the
// components are restarted. The first of a local etcd is that for other members. Beside an error it
// returns those of the other components.
func ListUses(ctx context.Context, e *engine.Env, n *node.Node) (all []Use, err error) {
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
		u := Use{Component: of.component, Path: manifest.ArgumentValue(pod, of.file)}
		switch {
		case of.component == release.APIServer:
			u.Server = n.APIEndpoint()
		case of.server != "":
			first, _, _ := strings.Cut(manifest.ArgumentValue(pod, of.server), ",")
			address, err := url.Parse(first)
			if err != nil {
				errs = append(errs, fmt.Errorf("--%s of %s: %w", of.server, of.component, err))
				continue
			}
			u.Server = address.Host
		}
		data, err := e.World.ReadFile(ctx, u.Path)
		if err == nil {
			renewable := pki.Renewable{Base: u.Path}
			if u.Server == "" {
				renewable = pki.Renewable{File: u.Path}
			}
			u.Certificate, err = renewable.Certificate(data)
		}
		if err != nil {
			e.Warn("%s was not checked, because the certificate in %q cannot be read: %v", u.Component,
				u.Path, err)
			continue
		}
		all = append(all, u)
	}
	return all, errors.Join(errs...)
}

// Condition is met when the component uses the certificate.
func (u Use) Condition(n *node.Node) world.Condition {
	return world.Condition{
		Name:    fmt.Sprintf("%s to use the certificate in %s", u.Component, u.Path),
		Timeout: reloadTime,
		Check: func(ctx context.Context, r state.Reader) error {
			if u.Server == "" {
				return u.checkStarted(ctx, r, n)
			}
			served, err := r.ServedCertificate(ctx, u.Server)
			if errors.Is(err, state.ErrNoServer) {
				return u.explainRefusal(ctx, r, n, err)
			}
			if err == nil && !served.Equal(u.Certificate) {
				err = StaleError("it serves a different one: " + Describe(served))
			}
			return err
		},
	}
}

// explainRefusal returns a StaleError if a server that refuses connections has exited. Otherwise it
// is starting, which may take minutes on a slow disk: a restart would only begin that again.
func (u Use) explainRefusal(ctx context.Context, r state.Reader, n *node.Node, refusal error) error {
	c, err := u.NewestContainer(ctx, r, n)
	switch {
	case err != nil:
		return err
	case c.ID != "" && !c.Running:
		return StaleError(fmt.Sprintf("it has exited with code %d", c.ExitCode))
	}
	return fmt.Errorf("%w: %w", ErrStarting, refusal)
}

// checkStarted is a permanent error unless the component was started after the file was written.
func (u Use) checkStarted(ctx context.Context, r state.Reader, n *node.Node) error {
	file, err := r.Stat(ctx, u.Path)
	if err != nil {
		return err
	}
	c, err := u.NewestContainer(ctx, r, n)
	switch {
	case err != nil:
		return err
	case !c.Running:
		return world.Permanent(notRunning)
	case !c.Created.After(file.ModTime):
		return world.Permanent(StaleError("it was started before the file was written"))
	}
	return nil
}

// NewestContainer returns the component's container that was created last, zero if there is none.
func (u Use) NewestContainer(ctx context.Context, r state.Reader, n *node.Node) (newest state.Container, err error) {
	all, err := r.Containers(ctx, n.CRISocket)
	for _, c := range all { // oldest first
		if c.Component == u.Component && c.Name == u.Component { // not a sidecar
			newest = c
		}
	}
	return newest, err
}

// Describe names a certificate in a message: its serial number and when it expires.
func Describe(c *x509.Certificate) string {
	return fmt.Sprintf("serial number %x, expires %s", c.SerialNumber,
		c.NotAfter.UTC().Format(time.RFC3339))
}
