package savesnapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// configLimit limits the request for one stored configuration, which is in the snapshot too.
const configLimit = 5 * time.Second

// collectKeys reads the files and configurations from which, with a snapshot, a cluster can be rebuilt.
func collectKeys(ctx context.Context, e *engine.Env, here existing.Machine, client etcdcluster.Client) ([]etcdsnapshot.ArchivedFile, error) {
	files, err := readKeyFiles(ctx, e, here, client)
	if err != nil {
		return nil, problem.During("reading the keys of the cluster", err,
			fmt.Sprintf("restore the file; without --%s, the snapshot alone can be saved", flag.WithKeys))
	}
	for _, stored := range []struct{ object, key string }{{manifest.KubeadmConfigMap, manifest.KubeadmConfigKey},
		{manifest.KubeletConfigMap, manifest.KubeletConfigKey}, {manifest.KubeProxyConfigMap, manifest.KubeProxyConfigKey}} {
		limited, cancel := context.WithTimeout(ctx, configLimit)
		found, err := existing.ReadConfigMap(limited, e.World, here.As, stored.object)
		cancel()
		switch {
		case err != nil:
			e.Warn("the ConfigMap %s is only in the snapshot: %v", stored.object, err)
		case found != nil:
			files = append(files, etcdsnapshot.ArchivedFile{Name: etcdsnapshot.ConfigPrefix + stored.object + ".yaml",
				Data: []byte(found.Data[stored.key])})
		}
	}
	return files, nil
}

// readKeyFiles reads the files of this machine. Only the key of a CA may be missing, since a CA may be
// external, and what exists only while the CAs are replaced.
func readKeyFiles(ctx context.Context, e *engine.Env, here existing.Machine, client etcdcluster.Client) (files []etcdsnapshot.ArchivedFile, err error) {
	type source struct{ name, file string }
	var sources []source
	for _, f := range pki.SharedFiles(!client.External) {
		sources = append(sources, source{etcdsnapshot.PKIPrefix + f, here.Paths.Certificate(f)})
	}
	signer, signerKey := here.Paths.RotationSigner()
	for _, file := range []string{signer, signerKey} {
		sources = append(sources, source{etcdsnapshot.PKIPrefix + strings.TrimPrefix(file, here.Paths.Certificates+"/"), file})
	}
	sources = append(sources, source{etcdsnapshot.EncryptionName, client.EncryptionConfig})
	if client.External {
		sources = append(sources, source{"external-etcd/ca.crt", client.CAFile},
			source{"external-etcd/client.crt", client.CertFile}, source{"external-etcd/client.key", client.KeyFile})
	}
	for _, s := range sources {
		if s.file == "" {
			continue
		}
		data, err := e.World.ReadFile(ctx, s.file)
		isMissing := errors.Is(err, fs.ErrNotExist)
		switch {
		case isMissing && strings.HasSuffix(s.name, "ca.key"):
			e.Warn("%s does not exist, so this CA is external: its key is not in the archive, and no cluster can be rebuilt without it",
				s.file)
			continue
		case isMissing && (s.file == signer || s.file == signerKey):
			continue
		case err != nil:
			return nil, err
		}
		if s.name == etcdsnapshot.EncryptionName && bytes.Contains(data, []byte("kms:")) {
			e.Warn("%s names a KMS plugin, whose key is not in the archive", s.file)
		}
		files = append(files, etcdsnapshot.ArchivedFile{Name: s.name, Path: s.file, Data: data})
	}
	return files, nil
}
