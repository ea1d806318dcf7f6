package cli

import (
	"context"
	"errors"
	"fmt"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

// phases are those of this init, and the backup that they use, which is to be read before they run; nil
// for a new cluster.
func (o *initOptions) phases() ([]engine.Phase, *etcdsnapshot.Backup, error) {
	if o.FromBackup != "" {
		backup := &etcdsnapshot.Backup{}
		return workflow.InitFromBackup(backup, o.RemoveOldControlPlane), backup, nil
	}
	for _, f := range []struct {
		name  flag.Name
		isSet bool
	}{{flag.IdentityFile, o.IdentityFile != ""}, {flag.PassphraseFile, o.PassphraseFile != ""},
		{flag.RemoveOldControlPlane, o.RemoveOldControlPlane}} {
		if f.isSet {
			return nil, nil, problem.New(fmt.Errorf("--%s has no effect without --%s", f.name, flag.FromBackup),
				fmt.Sprintf("set --%s, or leave out --%s", flag.FromBackup, f.name))
		}
	}
	return workflow.Init, nil, nil
}

// resolve returns the node that this init makes. It reads and verifies the backup, if there is one.
func (o *initOptions) resolve(ctx context.Context, p *program, backup *etcdsnapshot.Backup, file config.File,
	facts config.Facts) (*node.Node, config.RunOptions, error) {
	if backup == nil {
		return config.Init(file, o.InitFlags, facts)
	}
	var err error
	if *backup, err = readBackup(ctx, p, o.FromBackup, &keyOptions{o.IdentityFile, o.PassphraseFile}); err != nil {
		return nil, config.RunOptions{}, err
	}
	stored := func(object string) string {
		return string(backup.File(etcdsnapshot.ConfigPrefix + object + ".yaml"))
	}
	return config.Rebuild(file, o.InitFlags, config.Backup{
		Stored: config.StoredConfig{
			Cluster:   stored(manifest.KubeadmConfigMap),
			Kubelet:   config.StoredComponent{Text: stored(manifest.KubeletConfigMap)},
			KubeProxy: config.StoredComponent{Text: stored(manifest.KubeProxyConfigMap)},
		},
		Snapshot:      backup.Manifest.Snapshot.SHA256,
		HasEncryption: backup.File(etcdsnapshot.EncryptionName) != nil,
	}, facts)
}

// readBackup decrypts an archive and verifies all of it.
func readBackup(ctx context.Context, p *program, file string, o *keyOptions) (none etcdsnapshot.Backup, err error) {
	op := "reading the backup " + untrusted.Quote(file)
	head, err := readHead(ctx, p.World(), file)
	if err != nil {
		return none, problem.During(op, err, fmt.Sprintf("set --%s to an archive", flag.FromBackup))
	}
	var key etcdsnapshot.Key
	if !etcdsnapshot.IsEncrypted(head) && o.name() != "" {
		return none, problem.During(op, o.notEncryptedError())
	}
	if etcdsnapshot.IsEncrypted(head) {
		if key, err = o.key(ctx, p); err != nil {
			return none, err
		}
	}
	f, err := p.World().OpenFile(ctx, file)
	if err != nil {
		return none, problem.During(op, err)
	}
	defer func() { _ = f.Close() }()
	backup, err := etcdsnapshot.ReadBackup(ctx, file, f, key)
	switch {
	case err == nil:
		return backup, nil
	case errors.Is(err, etcdsnapshot.ErrNotArchive):
		return none, problem.During(op, explainNoArchive(ctx, p, file, err),
			"use an archive that this command made: kubeadm etcd snapshot save --with-keys")
	case errors.Is(err, etcdsnapshot.ErrWrongKey):
		return none, problem.During(op, err, fmt.Sprintf("set --%s or --%s to the key with which the archive "+
			"was made", flag.IdentityFile, flag.PassphraseFile))
	}
	return none, problem.During(op, err, "copy the archive again from where it was saved, or use another one")
}

// explainNoArchive says so if the file is a snapshot.
func explainNoArchive(ctx context.Context, p *program, file string, err error) error {
	if _, e := p.World().ReadSnapshot(ctx, file); e == nil {
		return errors.New("it is a snapshot without the keys of the cluster")
	}
	return err
}
