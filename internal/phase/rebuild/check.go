package rebuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Check checks whether this machine can take over from the backup. It changes nothing.
func Check(b *etcdsnapshot.Backup) engine.Step {
	return engine.Step{Name: "check-backup", Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		e.Say("checking the backup that %s made on %s", orUnknown(b.Manifest.Node),
			b.Manifest.Time.UTC().Format("2006-01-02 15:04:05 MST"))
		for _, check := range []func(context.Context, *engine.Env, *etcdsnapshot.Backup, *node.Node) error{
			checkEtcd, checkAuthorities, checkEncryption, checkFiles, checkOldEndpoint,
		} {
			if err := check(ctx, e, b, n); err != nil {
				return err
			}
		}
		return nil
	}}
}

func orUnknown(name string) string {
	if name == "" {
		return "an unknown node"
	}
	return "node " + untrusted.Line(name)
}

const anotherBackup = "use another backup of the cluster"

// checkEtcd returns an error if the etcd of this cluster cannot use the snapshot.
func checkEtcd(_ context.Context, _ *engine.Env, b *etcdsnapshot.Backup, n *node.Node) error {
	images, err := manifest.Images(n)
	if err != nil {
		return err
	}
	if dir, ok := node.LastArg(n.Cluster.Etcd.Args, "wal-dir"); ok {
		return problem.New(fmt.Errorf("wal-dir=%s in etcd.local.extraArgs keeps a part of etcd's data elsewhere",
			untrusted.Line(dir)), "leave it out: set --config to a file with another ClusterConfiguration")
	}
	if err := b.Manifest.Snapshot.CheckReadableBy(images.EtcdVersion().String()); err != nil {
		return problem.New(err, "or set etcd.local.imageTag in a ClusterConfiguration for --config")
	}
	return nil
}

// checkAuthorities checks that the backup and this machine together have the CAs and the service account
// keys, that they can be used, and that they are those of the snapshot.
func checkAuthorities(ctx context.Context, e *engine.Env, b *etcdsnapshot.Backup, n *node.Node) error {
	var missing []string
	found := map[string][]byte{}
	for _, name := range pki.SharedFiles(true) {
		found[name] = b.File(etcdsnapshot.PKIPrefix + name)
		if found[name] != nil {
			continue
		}
		data, err := state.ReadOptional(ctx, e.World, n.Paths.Certificate(name))
		if err != nil {
			return err
		}
		if found[name] = data; data == nil {
			missing = append(missing, n.Paths.Certificate(name))
		}
	}
	if len(missing) > 0 {
		return problem.New(fmt.Errorf("neither the backup nor this machine has %s", strings.Join(missing, ", ")),
			"copy them from where they are kept, such as from an external CA, to this machine")
	}
	for _, p := range pki.Profiles() {
		if !p.IsCA() {
			continue
		}
		pair := pki.StoredPair{Certificate: found[p.CertificateFile()], Key: found[p.KeyFile()]}
		if _, err := certstore.CheckCA(n.Paths, p, pair, e.World.Now()); err != nil {
			return problem.During("checking the CAs of the backup", err, anotherBackup)
		}
	}
	if _, err := pki.ParseKey(found[pki.ServiceAccountKey]); err != nil {
		return problem.During("checking "+n.Paths.Certificate(pki.ServiceAccountKey)+" of the backup", err, anotherBackup)
	}
	cas, err := pki.ParseCertificates(found["ca.crt"])
	if err != nil {
		return problem.During("checking "+n.Paths.Cert("ca")+" of the backup", err, anotherBackup)
	}
	var hashes []string
	for _, ca := range cas {
		hashes = append(hashes, pki.PinOf(ca).String())
	}
	if same, isKnown := b.Manifest.Snapshot.IsOfCluster(hashes); isKnown && !same {
		return problem.New(errors.New("the CA of the backup is not the one of its snapshot"), anotherBackup)
	}
	return nil
}

// checkEncryption returns an error if objects of the snapshot are encrypted with keys that the API server
// would not have.
func checkEncryption(ctx context.Context, e *engine.Env, b *etcdsnapshot.Backup, n *node.Node) error {
	needed := b.Manifest.Snapshot.Encryption
	if len(needed) == 0 {
		return nil
	}
	keys := untrusted.Line(strings.Join(needed, ", "))
	file, isSet := node.LastArg(n.Cluster.APIServer.Args, "encryption-provider-config")
	if !isSet {
		return problem.New(fmt.Errorf("objects in the snapshot are encrypted with the keys %s, but the API server "+
			"has no --encryption-provider-config", keys),
			"set it in apiServer.extraArgs of a ClusterConfiguration, and name the file with --config")
	}
	data := b.File(etcdsnapshot.EncryptionName)
	if data == nil {
		var err error
		if data, err = state.ReadOptional(ctx, e.World, file); err != nil {
			return err
		}
	}
	if data == nil {
		return problem.New(fmt.Errorf("objects in the snapshot are encrypted with the keys %s, but neither the "+
			"backup nor this machine has %s", keys, file), "copy the file with the keys to this machine")
	}
	known, err := etcdsnapshot.EncryptionKeys(data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(k string) bool { return slices.Contains(known, k) })
	if len(missing) > 0 {
		return problem.New(fmt.Errorf("objects in the snapshot are encrypted with keys that %s does not contain: %s",
			file, untrusted.Line(strings.Join(missing, ", "))), anotherBackup)
	}
	return nil
}

// checkFiles returns an error if a file exists that the backup has otherwise.
func checkFiles(ctx context.Context, e *engine.Env, b *etcdsnapshot.Backup, n *node.Node) error {
	var other []string
	for _, f := range filesOf(b, n) {
		data, err := state.ReadOptional(ctx, e.World, f.path)
		if err != nil {
			return err
		}
		if data != nil && !bytes.Equal(data, f.data) {
			other = append(other, f.path)
		}
	}
	if len(other) == 0 {
		return nil
	}
	return problem.New(fmt.Errorf("the files of the backup would replace others on this machine: %s",
		strings.Join(other, ", ")),
		"if they are left over from another cluster, remove them: kubeadm reset; otherwise move them away")
}

// checkOldEndpoint returns an error if the old control plane still serves the endpoint: nodes would stay
// there, and there would be two clusters with the same names and keys. It warns of nodes that do not find
// the new one, and if it cannot be known whether something answers.
func checkOldEndpoint(ctx context.Context, e *engine.Env, b *etcdsnapshot.Backup, n *node.Node) error {
	old := n.Cluster.Backup.Endpoint
	follow := untrusted.CommandHint("on each worker that does not return", "kubeadm endpoint follow",
		strings.TrimPrefix(n.ServerURL(), "https://"))
	switch {
	case b.File(etcdsnapshot.ConfigPrefix+manifest.KubeadmConfigMap+".yaml") == nil:
		old = n.Cluster.Endpoint // that of the user's file, which is not compared
	case old == "":
		e.Warn("the cluster had no control plane endpoint: its nodes connect to the address of an old control "+
			"plane node, and return only if this machine takes over that address; %s", follow)
	case n.Cluster.Backup.Moves(n):
		e.Warn("the nodes of the cluster still connect to %s, and not to %s: they return when that leads to this "+
			"machine, whose certificates are valid for both; %s", untrusted.Line(old), untrusted.Line(n.Cluster.Endpoint), follow)
	}
	if old == "" || e.World.WasCreated(change.FileTarget(n.Paths.Manifest(release.APIServer))) {
		return ctx.Err()
	}
	e.Say("checking that nothing answers at the endpoint %s yet", untrusted.Line(old))
	_, err := e.World.ServedCertificate(ctx, old)
	switch {
	case ctx.Err() != nil || errors.Is(err, state.ErrNoServer):
		return ctx.Err()
	case err != nil:
		e.Warn("whether the old control plane still answers at %s, the endpoint of the cluster, is not known: %s; make sure "+
			"that it is off: there would be two clusters with the same nodes and keys", untrusted.Line(old),
			untrusted.Line(err.Error()))
		return nil
	}
	return problem.New(fmt.Errorf("something still answers at %s, the endpoint of the cluster: if that is its "+
		"old control plane, there would be two clusters with the same nodes and keys", untrusted.Line(old)),
		"stop the old control plane, or make the name or the load balancer lead to this machine",
		"if it still works, you need no new one: replace single machines by kubeadm join --control-plane")
}
