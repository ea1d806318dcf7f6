package reconfigure

import (
	"context"

	"kubeadm/internal/certstore"
	"kubeadm/internal/certuse"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/renewal"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// issueCertificates issues the certificates whose names change, and waits until they are served. Names are
// added before the components change, which does no harm if the change is taken back, and removed after
// that.
func (m *machine) issueCertificates(ctx context.Context, e *engine.Env, removes bool) error {
	if m.Role != node.ControlPlane {
		return nil
	}
	changes, err := reconfiguration.FindSANChanges(ctx, e, m.before, m.Node)
	if err != nil {
		return err
	}
	if len(changes) == 0 && !m.interrupted {
		return nil
	}
	for _, c := range changes {
		issuer, _ := pki.ProfileOf(c.Certificate.Issuer)
		external, err := certstore.IsExternalCA(ctx, e.World, m.Paths, issuer)
		if err != nil {
			return err
		}
		if external && !c.Adds {
			e.Warn("%s keeps names that the configuration does not have: its CA's key is not on this machine",
				m.Paths.Cert(c.Certificate.Base))
			continue
		}
		if !removes {
			if !c.Adds {
				continue
			}
			if c.SANs, err = m.withPresentNames(ctx, e, c); err != nil {
				return err
			}
		}
		if err := renewal.Reissue(ctx, e, c.Certificate, c.SANs); err != nil {
			return err
		}
	}
	for _, component := range staticpod.Components(m.Node) {
		if err := staticpod.SetOwners(ctx, e, m.Node, component); err != nil {
			return err
		}
	}
	uses, err := certuse.ListUses(ctx, e, m.Node)
	if err != nil {
		return err
	}
	for _, u := range uses {
		if u.Server == "" {
			continue
		}
		if err := e.Await(ctx, u.Condition(m.Node)); err != nil {
			return problem.New(err, "renew the certificates, and restart the components that do not "+
				"read them: kubeadm certs renew all --restart")
		}
	}
	return nil
}

// withPresentNames are the names of a change, and those that the certificate has.
func (m *machine) withPresentNames(ctx context.Context, e *engine.Env,
	c reconfiguration.SANChange) (pki.SANs, error) {
	data, err := state.ReadRequired(ctx, e.World, m.Paths.Cert(c.Certificate.Base))
	if err != nil {
		return c.SANs, err
	}
	cert, err := c.Certificate.Certificate(data)
	if err != nil {
		return c.SANs, err
	}
	return c.SANs.Plus(pki.SANsOf(cert)), nil
}

// replacePods replaces the static Pods whose manifests change.
func (m *machine) replacePods(ctx context.Context, e *engine.Env) error {
	if err := e.Do(ctx, manifest.AccountChanges(m.Node)...); err != nil {
		return err
	}
	var wanted []staticpod.Manifest
	for _, component := range reconfiguration.Order(m.Node, m.gatesOff) {
		if component == manifest.Etcd {
			why, err := staticpod.WhyEtcdStays(ctx, e, m.Node, true)
			if err != nil {
				return err
			}
			if why != "" {
				e.Warn("etcd is not changed: %s", why)
				continue
			}
		}
		data := m.pods[component]
		onDisk, err := state.ReadRequired(ctx, e.World, m.Paths.Manifest(component))
		if err != nil {
			return err
		}
		same, err := reconfiguration.ComparePods(m.before, m.Node, component)(onDisk, data)
		if err != nil {
			return err
		}
		if same && !m.interrupted {
			continue
		}
		if same {
			data = onDisk // an interrupted run may have written it, and waits for its Pod
		}
		wanted = append(wanted, staticpod.Manifest{Component: component, Data: data})
	}
	_, err := m.replacement(e).Replace(ctx, e, wanted...)
	return err
}

// restorePods returns to the manifests from before the change. Replace has done so already if it was
// Replace that failed.
func (m *machine) restorePods(ctx context.Context, e *engine.Env) error {
	var wanted []staticpod.Manifest
	for _, component := range reconfiguration.Order(m.Node, !m.gatesOff) {
		data := []byte(m.old.Manifests[component])
		if component == manifest.Etcd {
			stays, err := staticpod.IsEtcdNewer(ctx, e, m.Node, data)
			if err != nil {
				return err
			}
			if stays { // docs/decisions/0042
				m.keeps = true
				e.Warn("etcd is not taken back: an older one could not read its data")
				continue
			}
		}
		wanted = append(wanted, staticpod.Manifest{Component: component, Data: data})
	}
	_, err := m.replacement(e).Replace(ctx, e, wanted...)
	return err
}

func (m *machine) replacement(e *engine.Env) staticpod.Replacement {
	return staticpod.Replacement{Node: m.Node, As: m.as,
		Prepare: func(ctx context.Context, component string) error {
			if err := m.old.Store(ctx, e, m.Node); err != nil {
				return err
			}
			if component == manifest.Etcd {
				if err := staticpod.PrepareEtcd(ctx, e, m.Node); err != nil {
					return err
				}
			}
			return staticpod.SetOwners(ctx, e, m.Node, component)
		}}
}
