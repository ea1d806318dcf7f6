package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// checkSnapshot reads the snapshot and returns an error unless this node's components can use it.
func (r *restoration) checkSnapshot(ctx context.Context, e *engine.Env) (etcdsnapshot.Info, error) {
	e.Say("checking %q", r.Snapshot)
	info, err := e.World.ReadSnapshot(ctx, r.Snapshot)
	if err != nil {
		return info, problem.During("reading the snapshot "+untrusted.Quote(r.Snapshot), err,
			"use another snapshot; find out which are intact: kubeadm etcd snapshot status FILE")
	}
	running := staticpod.EtcdVersion(r.own.Pod)
	if running == nil {
		e.Warn("the version of this node's etcd is not known, because its image has no version: the "+
			"storage version of the snapshot is %q, and no older etcd can read it", info.StorageVersion)
	} else if err := info.CheckReadableBy(running.String()); err != nil {
		return info, err
	}
	if err := checkClusterCA(ctx, e, r.n, info); err != nil {
		return info, err
	}
	return info, checkEncryptionKeys(ctx, e.World, r.n, info.Encryption)
}

// checkClusterCA returns an error if the snapshot is of a cluster with other CAs than this one.
func checkClusterCA(ctx context.Context, e *engine.Env, n *node.Node, info etcdsnapshot.Info) error {
	file := n.Paths.Cert("ca")
	data, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return err
	}
	own, err := pki.ParseCertificates(data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	var hashes []string
	for _, ca := range own {
		hashes = append(hashes, pki.PinOf(ca).String())
	}
	same, isKnown := info.IsOfCluster(hashes)
	switch {
	case same:
		return nil
	case !isKnown:
		e.Warn("it is not known of which cluster the snapshot is: it contains no CA that can be read")
		return nil
	}
	return problem.New(fmt.Errorf("the snapshot is of another cluster: none of the CAs that it contains is in %s",
		file), "use a snapshot of this cluster",
		"if its CA was replaced since the snapshot was saved, put the previous files of "+n.Paths.Certificates+
			" back before you restore it")
}

// checkEncryptionKeys returns an error if the API server of this node does not have the keys by which
// objects in the snapshot are encrypted.
func checkEncryptionKeys(ctx context.Context, r state.Reader, n *node.Node, needed []string) error {
	if len(needed) == 0 {
		return nil
	}
	file, known, err := readEncryptionKeys(ctx, r, n)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(k string) bool { return slices.Contains(known, k) })
	switch {
	case len(missing) == 0:
		return nil
	case file == "":
		return problem.New(fmt.Errorf("objects in the snapshot are encrypted with keys that this node's API "+
			"server does not have (%s): it has no --encryption-provider-config", strings.Join(missing, ", ")),
			"restore the file with the keys, and set encryption-provider-config in apiServer.extraArgs")
	}
	return problem.New(fmt.Errorf("objects in the snapshot are encrypted with keys that %s does not contain: %s",
		file, strings.Join(missing, ", ")), "add the keys to "+file+" from a backup of that time")
}

// readEncryptionKeys returns the file with the keys of this node's API server, and "provider:name" of
// each key.
func readEncryptionKeys(ctx context.Context, r state.Reader, n *node.Node) (file string, keys []string, err error) {
	client, err := etcdcluster.ReadClient(ctx, r, n.Paths)
	if file = client.EncryptionConfig; err != nil || file == "" {
		return "", nil, err
	}
	data, err := state.ReadRequired(ctx, r, file)
	if err != nil {
		return file, nil, err
	}
	if keys, err = etcdsnapshot.EncryptionKeys(data); err != nil {
		return file, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return file, keys, nil
}
