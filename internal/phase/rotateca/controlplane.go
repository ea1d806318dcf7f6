package rotateca

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/renewal"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// bringControlPlane brings the files and components of this control plane node to a stage, from
// any other and after a kill at any change. The order keeps every component able to restart at any
// time: kube-controller-manager reads one pair with one certificate all along.
func (m machine) bringControlPlane(ctx context.Context, s rotation.Stage) error {
	steps := []func(context.Context, rotation.Stage) error{m.writeSides, m.writeSigningPair,
		m.replaceSigner, m.writeAuthorities}
	if s.IsLast() {
		steps = []func(context.Context, rotation.Stage) error{m.writeAuthorities, m.replaceSigner}
	}
	steps = append(steps, m.writeKubeconfigs, m.writeClientCAs, m.renewLeaves, m.renewOwnKubelet,
		m.restartStale, m.restartKubelet)
	for _, step := range steps {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	if s.IsLast() {
		return m.e.Do(ctx, change.Remove{Path: rotationDir(m.node.Paths)})
	}
	return nil
}

// findKey returns the private key of a pair.
func (m machine) findKey(ctx context.Context, p pair) ([]byte, error) {
	key, err := readKey(ctx, m.e.World, p.Authority, p.public,
		sidePath(m.node.Paths, p.isNew).Certificate(p.Key), m.node.Paths.Certificate(p.Key))
	if errors.Is(err, errKeyMissing) {
		return nil, problem.New(fmt.Errorf("%s key of %s: %w", sideName(p.isNew), p.Name, err),
			"run this on a control plane node that has it: kubeadm certs rotate-ca trust",
			"then run the command that it prints here")
	}
	return key, err
}

// activeKey returns the private key with which an authority signs in a stage.
func (m machine) activeKey(ctx context.Context, s rotation.Stage, a rotation.Authority) ([]byte, error) {
	return m.findKey(ctx, pair{a, s.UsesNew(), m.active(s)[a.Name]})
}

// writeSides keeps the old and new pairs beside the files that components read.
func (m machine) writeSides(ctx context.Context, _ rotation.Stage) error {
	for _, p := range m.pairs() {
		key, err := m.findKey(ctx, p)
		if err != nil {
			return err
		}
		if err := m.writeSide(ctx, p, key); err != nil {
			return err
		}
	}
	return nil
}

func (m machine) writeSide(ctx context.Context, p pair, key []byte) error {
	return writePair(ctx, m.e,
		newPairChange(sidePath(m.node.Paths, p.isNew), p.Authority, []byte(p.public), key))
}

// writePair writes a pair below a directory that only root may read.
func writePair(ctx context.Context, e *engine.Env, pair change.WriteKeyPair) error {
	return e.Do(ctx, change.MakeDir{Path: path.Dir(pair.Key.Path), Mode: 0o700}, pair)
}

// newPairChange returns the change that writes the files of an authority.
func newPairChange(p node.Paths, a rotation.Authority, public, key []byte) change.WriteKeyPair {
	return change.WriteKeyPair{
		Key:  change.WriteFile{Path: p.Certificate(a.Key), Data: key, Mode: 0o600, Secret: true},
		Cert: change.WriteFile{Path: p.Certificate(a.PublicKey), Data: public, Mode: 0o644},
	}
}

// writeSigningPair writes the pair with which kube-controller-manager signs.
func (m machine) writeSigningPair(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	a, _ := rotation.FindAuthority(rotation.ClusterAuthority)
	key, err := m.activeKey(ctx, s, a)
	if err != nil {
		return err
	}
	return m.e.Do(ctx, certstore.NewSigningPair(m.node.Paths, []byte(m.active(s)[a.Name]), key))
}

func (m machine) replacement() staticpod.Replacement {
	return staticpod.Replacement{Node: m.node, As: m.as}
}

// writeAuthorities writes the files from which components read what to trust, and the keys with
// which they sign. A certificate or public key that signs comes first: whoever reads only one, such
// as "kubeadm certs renew", finds the one that belongs to the key.
func (m machine) writeAuthorities(ctx context.Context, s rotation.Stage) error {
	paths := m.node.Paths
	for _, a := range rotation.Authorities() {
		if !m.Replaces(a.Name) {
			continue
		}
		key, err := m.activeKey(ctx, s, a)
		if err != nil {
			return err
		}
		public := m.trusted(s, a.Name)
		changes := []change.Change{newPairChange(paths, a, public, key)}
		if !a.IsCA() {
			// No component reads both, and public keys of both sides are in the file.
			changes = []change.Change{
				change.WriteFile{Path: paths.Certificate(a.PublicKey), Data: public, Mode: 0o600},
				change.WriteFile{Path: paths.Certificate(a.Key), Data: key, Mode: 0o600,
					Secret: true},
			}
		}
		if s.IsLast() { // the key has been replaced in the stage before
			changes = []change.Change{change.WriteFile{Path: paths.Certificate(a.PublicKey),
				Data: public, Mode: 0o644}}
			now, err := state.ReadOptional(ctx, m.e.World, paths.Certificate(a.Key))
			if err != nil {
				return err
			}
			if !bytes.Equal(now, key) {
				return problem.New(fmt.Errorf("%s is not the key of the %s CA that remains",
					paths.Certificate(a.Key), a.Name),
					"this node has not reached the previous stage: see kubeadm certs rotate-ca status")
			}
		}
		if err := m.e.Do(ctx, changes...); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes the CAs to trust to the kubeconfigs of this node that embed one of them.
func (m machine) writeKubeconfigs(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	for _, p := range pki.KubeconfigProfiles() {
		if err := m.writeKubeconfigCA(ctx, m.node.Paths.Kubeconfig(p.File), s); err != nil {
			return err
		}
	}
	return nil
}

func (m machine) writeKubeconfigCA(ctx context.Context, file string, s rotation.Stage) error {
	data, err := state.ReadOptional(ctx, m.e.World, file)
	if err != nil || data == nil {
		return err
	}
	config, err := pki.ParseKubeconfig(data)
	if err == nil {
		var changed bool
		if changed, err = config.ReplaceCA(m.bothCAs(), m.trusted(s, rotation.ClusterAuthority)); err == nil &&
			!changed {
			return nil
		}
	}
	if err == nil {
		data, err = config.Encode()
	}
	if err != nil {
		return problem.During("writing the CA to trust to "+file, err,
			"fix the file, or move it out of the way and generate a new one: kubeadm init phase kubeconfig")
	}
	return m.e.Do(ctx, change.WriteFile{Path: file, Data: data, Mode: 0o600, Secret: true})
}

// renewLeaves renews the certificates of this control plane that the other side has signed.
func (m machine) renewLeaves(ctx context.Context, s rotation.Stage) error {
	local, _ := node.HasLocalEtcd(m.node)
	for _, c := range pki.Renewables() {
		name := authorityOfIssuer(c.Issuer)
		if !m.Replaces(name) || c.LocalEtcdOnly() && !local {
			continue
		}
		cert, err := certstore.ReadRenewable(ctx, m.e.World, m.node.Paths, c)
		if err != nil {
			return err
		}
		if cert == nil {
			continue
		}
		if isSignedBy(cert, []byte(m.active(s)[name])) {
			// A run that was killed between two renames leaves a key of another certificate.
			err := certstore.CheckRenewableKey(ctx, m.e.World, m.node.Paths, c)
			if !errors.Is(err, certstore.ErrKeyMismatch) {
				continue
			}
		} else if !isSignedBy(cert, []byte(m.other(s)[name])) {
			m.e.Warn("%s is kept, because another CA signed it",
				certstore.RenewablePath(m.node.Paths, c))
			continue
		}
		if err := renewal.Renew(ctx, m.e, c); err != nil {
			return err
		}
	}
	return nil
}

// authorityOfIssuer is the name of the authority with a CA's profile.
func authorityOfIssuer(profile string) string {
	for _, a := range rotation.Authorities() {
		if a.Profile == profile {
			return a.Name
		}
	}
	return ""
}

// renewOwnKubelet signs the client certificate of this node's kubelet. It does not wait for
// kube-controller-manager: the leader may be on a node that has not reached the stage.
func (m machine) renewOwnKubelet(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	client, err := readKubeletClient(ctx, m.e, m.node)
	if err != nil || !m.needsRenewal(client.Certificate, s) {
		return err
	}
	a, _ := rotation.FindAuthority(rotation.ClusterAuthority)
	key, err := m.activeKey(ctx, s, a)
	if err != nil {
		return err
	}
	ca, err := parseCA([]byte(m.active(s)[a.Name]), key)
	if err != nil {
		return err
	}
	valid := client.Certificate.NotAfter.Sub(client.Certificate.NotBefore)
	pair, err := localkubelet.SignClientCert(m.e, ca, pki.RenewalSpec(client.Certificate,
		pki.NewValidity(m.e.World.Now(), valid)))
	if err != nil {
		return err
	}
	m.e.Say("renewing the client certificate of this node's kubelet")
	return client.Install(ctx, m.e, pair)
}

// componentFiles are the files that components read only when they start.
func (m machine) componentFiles(ctx context.Context) (map[string][]string, error) {
	paths := m.node.Paths
	files := map[string][]string{}
	add := func(component string, all ...string) {
		files[component] = append(files[component], all...)
	}
	for _, a := range rotation.Authorities() {
		if !m.Replaces(a.Name) {
			continue
		}
		switch a.Name {
		case rotation.EtcdAuthority:
			add(release.Etcd, paths.Certificate(a.PublicKey))
			add(release.APIServer, paths.Certificate(a.PublicKey),
				paths.Cert("apiserver-etcd-client"))
		case rotation.ServiceAccountAuthority:
			add(release.APIServer, paths.Certificate(a.PublicKey), paths.Certificate(a.Key))
			add(release.ControllerManager, paths.Certificate(a.Key))
		case rotation.ClusterAuthority:
			// client-go reads a new client certificate only after minutes
			add(release.APIServer, paths.Cert("apiserver-kubelet-client"))
			file, err := kubeletAuthority(ctx, m.e, m.node)
			if err != nil {
				return nil, err
			}
			if file == paths.Certificate(a.PublicKey) {
				add(release.APIServer, file)
			}
			add(release.ControllerManager, paths.Certificate(a.PublicKey),
				paths.Kubeconfig("controller-manager.conf"))
			add(release.Scheduler, paths.Kubeconfig("scheduler.conf"))
		}
	}
	return files, nil
}

// kubeletAuthority returns the file with the CA by which kube-apiserver verifies kubelets; empty if it
// does not verify them.
func kubeletAuthority(ctx context.Context, e *engine.Env, n *node.Node) (string, error) {
	pod, err := staticpod.Read(ctx, e, n, release.APIServer)
	if err != nil {
		return "", err
	}
	return manifest.ArgumentValue(pod, "kubelet-certificate-authority"), nil
}

// restartStale restarts the components that were started before a file was written that they read
// only then: one after the other, each until it is healthy.
func (m machine) restartStale(ctx context.Context, s rotation.Stage) error {
	files, err := m.componentFiles(ctx)
	if err != nil {
		return err
	}
	var stale []string
	for _, component := range []string{release.Etcd, release.APIServer, release.ControllerManager,
		release.Scheduler} {
		old, err := m.isStale(ctx, component, files[component])
		if err != nil {
			return err
		}
		if old {
			stale = append(stale, component)
		}
	}
	if len(stale) > 0 && stale[0] == release.Etcd {
		if err := m.e.Await(ctx, preflight.QuorumWithout(m.node, m.e.Local.IgnoredChecks)); err != nil {
			return err
		}
		if err := m.replacement().RestartEtcd(ctx, m.e); err != nil {
			return err
		}
		stale = stale[1:]
		if len(stale) > 0 && stale[0] == release.APIServer {
			stale = stale[1:]
		}
	}
	return m.replacement().Restart(ctx, m.e, stale...)
}

// isStale reports whether a component does not run, or was started before one of the files was
// written.
func (m machine) isStale(ctx context.Context, component string, files []string) (bool, error) {
	if len(files) == 0 {
		return false, nil
	}
	var newest time.Time
	for _, file := range files {
		info, err := m.e.World.Stat(ctx, file)
		if err != nil {
			return false, err
		}
		if info.ModTime.After(newest) {
			newest = info.ModTime
		}
	}
	all, err := m.e.World.Containers(ctx, m.node.CRISocket)
	if err != nil {
		return false, err
	}
	for _, c := range all {
		if c.Component == component && c.Running && c.Created.After(newest) {
			return false, nil
		}
	}
	return true, nil
}
