package renew

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/certstore"
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
// its renewal, one after the other, and says which certificates are in use then.
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
		servers, clients, err := listUses(ctx, e, n)
		if err != nil {
			return err
		}
		var stale []string
		for _, s := range servers {
			err := e.Await(ctx, s.condition(reloadTime))
			if ctx.Err() != nil {
				return err
			}
			if err != nil && !slices.Contains(stale, s.component) {
				stale = append(stale, s.component)
			}
		}
		for _, c := range clients {
			old, err := c.isOlder(ctx, e, n)
			if err != nil {
				return err
			}
			if old {
				stale = append(stale, c.component)
			}
		}
		replacement := staticpod.Replacement{Node: n, As: as}
		if err := replacement.Restart(ctx, e, stale...); err != nil {
			return err
		}
		for _, s := range servers {
			if err := e.Await(ctx, s.condition(n.Timeouts.Upgrade)); err != nil {
				return err
			}
			e.Say("%s serves %s: %s", s.component, s.name, describe(s.certificate))
		}
		for _, c := range clients {
			e.Say("%s uses %s: %s", c.component, c.name, describe(c.certificate))
		}
		return nil
	},
}

// reloadTime is how long a component may take to read a certificate again that was renewed.
const reloadTime = 15 * time.Second

// use is a certificate on disk, and the component that uses it.
type use struct {
	component   string
	name        string // of the certificate, as in "certs renew <name>"
	path        string // the file that contains it
	certificate *x509.Certificate
	url         string // at which the component serves it; empty if it is a client's
}

// listUses lists what the components of this machine serve, in the order in which they are
// restarted, and the kubeconfigs that others read when they start.
func listUses(ctx context.Context, e *engine.Env, n *node.Node) (servers, clients []use, err error) {
	for _, u := range []use{
		{component: manifest.Etcd, name: "etcd-server", url: n.ClientURL()},
		{component: manifest.Etcd, name: "etcd-peer", url: n.PeerURL()},
		{component: release.APIServer, name: "apiserver", url: n.LocalServerURL()},
		{component: release.ControllerManager, name: "controller-manager.conf"},
		{component: release.Scheduler, name: "scheduler.conf"},
	} {
		_, err := e.World.Stat(ctx, n.Paths.Manifest(u.component))
		if errors.Is(err, fs.ErrNotExist) {
			continue // such as an external etcd
		}
		if err != nil {
			return nil, nil, err
		}
		all := pki.Renewables()
		i := slices.IndexFunc(all, func(r pki.Renewable) bool { return r.Name == u.name })
		u.path = certstore.RenewablePath(n.Paths, all[i])
		u.certificate, err = certstore.ReadRenewable(ctx, e.World, n.Paths, all[i])
		if err != nil {
			return nil, nil, err
		}
		if u.certificate == nil {
			return nil, nil, fmt.Errorf("%s does not exist", u.path)
		}
		if u.url == "" {
			clients = append(clients, u)
			continue
		}
		servers = append(servers, u)
	}
	return servers, clients, nil
}

// condition is met when the component serves the certificate.
func (u use) condition(limit time.Duration) world.Condition {
	return world.Condition{
		Name:    fmt.Sprintf("%s to serve the certificate in %s", u.component, u.path),
		Timeout: limit,
		Check: func(ctx context.Context, r state.Reader) error {
			served, err := r.ServedCertificate(ctx, strings.TrimPrefix(u.url, "https://"))
			if err == nil && !served.Equal(u.certificate) {
				err = fmt.Errorf("it serves another one: %s", describe(served))
			}
			return err
		},
	}
}

// isOlder reports whether the component was started before the file was written. One that is not
// running reads the file when it starts.
func (u use) isOlder(ctx context.Context, e *engine.Env, n *node.Node) (bool, error) {
	file, err := e.World.Stat(ctx, u.path)
	if err != nil {
		return false, err
	}
	all, err := e.World.Containers(ctx, n.CRISocket)
	return slices.ContainsFunc(all, func(c state.Container) bool {
		return c.Component == u.component && c.Running && c.Created.Before(file.ModTime)
	}), err
}

func describe(c *x509.Certificate) string {
	return fmt.Sprintf("serial number %x, expires %s", c.SerialNumber,
		c.NotAfter.UTC().Format(time.RFC3339))
}
