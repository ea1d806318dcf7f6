// Package reset removes what init and join created on this machine. Errors become warnings, so
// that as much as possible is removed.
package reset

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/flag"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// Etcd removes this machine's member from its etcd cluster, and the member's data.
var Etcd = engine.Phase{
	Name:  "remove-etcd-member",
	Short: "Remove this machine's etcd member and its data",
	Long:  "Remove this machine's member from the etcd cluster, if there are other members, and remove its data.",
	Flags: []flag.Name{flag.DryRun, flag.Kubeconfig},
	Run: func(ctx context.Context, e *engine.Env) error {
		pod, err := readStaticPod(ctx, e, manifest.Etcd)
		if errors.Is(err, fs.ErrNotExist) {
			return removeMemberWithoutManifest(ctx, e)
		}
		if err != nil {
			e.Warn("the etcd manifest cannot be read, so the member and its data are not removed: %v",
				err)
			return nil
		}
		dir := ""
		for _, v := range pod.Spec.Volumes {
			if v.Name == "etcd-data" && v.HostPath != nil {
				dir = v.HostPath.Path
				break
			}
		}
		// a relative path would be below the working directory
		if !path.IsAbs(dir) || node.IsSystemDir(dir) {
			e.Warn("the data directory %q in the etcd manifest is not dedicated to etcd and is not removed; remove etcd's data manually", dir)
			return nil
		}
		local, err := newLocalMember(ctx, e, pod)
		if err == nil {
			err = removeMember(ctx, e, local)
		}
		if err != nil {
			e.Warn("this machine's etcd member was not removed from its cluster: %v", err)
			for _, hint := range problem.Hints(err) {
				e.Warn("%s", hint)
			}
		}
		removeData(ctx, e, dir)
		return nil
	},
}

// removeData stops the kubelet and etcd before it removes etcd's data. The manifest, which alone names
// the directory, goes last, so that a reset that is run again finds it, and after the certificate by
// which a machine without a manifest is known to have had a member in the default directory. Only a
// kubelet that still runs must not start etcd with the manifest on the directory that is being emptied.
func removeData(ctx context.Context, e *engine.Env, dir string) {
	e.Say("stopping etcd and removing the contents of %q", dir)
	err := e.Do(ctx, change.SetService{Name: localkubelet.Service})
	warnOnError(e, err, "stop the kubelet manually: systemctl stop kubelet")
	warnOnError(e, e.Do(ctx,
		change.RemoveContainers{Socket: e.Local.CRISocket, Component: manifest.Etcd}),
		"stop etcd manually: crictl ps --name etcd, then crictl stop CONTAINERID")
	data := change.Remove{Path: dir, Contents: true}
	removals := []change.Remove{data, {Path: e.Local.Paths.Cert("etcd/server")},
		{Path: e.Local.Paths.Manifest(manifest.Etcd)}}
	if err != nil || localkubelet.CheckService(ctx, e.World) != nil {
		removals = append(removals[1:], data)
	}
	for _, r := range removals {
		warnOnError(e, e.Do(ctx, r), "remove "+r.Path+" manually")
	}
}

// removeMemberWithoutManifest removes a member whose manifest is not written yet or was removed,
// and its data. It does nothing without etcd's server certificate; clients of an external etcd
// have the etcd CA too.
func removeMemberWithoutManifest(ctx context.Context, e *engine.Env) error {
	_, err := e.World.Stat(ctx, e.Local.Paths.Cert("etcd/server"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // this machine never ran etcd for Kubernetes
	}
	if err != nil {
		return err
	}
	// A join may have added a learner before it wrote the manifest. It has the address of the
	// local API server.
	if address := findServerAddress(ctx, e); address != "" {
		n := node.Node{Local: node.Local{Address: address}}
		added := localMember{
			peers: []string{n.PeerURL()}, clients: []string{n.ClientURL()},
			via: etcdcluster.LocalClient(e.Local.Paths),
		}
		if err := removeMember(ctx, e, added); err != nil {
			e.Say("if etcd has a member on this machine, it was not removed: %v", err)
		}
	}
	removeData(ctx, e, defaultDataDir)
	return nil
}

// findServerAddress returns the address of this machine's API server from its manifest, or from
// the kubeconfig of kube-controller-manager; empty if there is neither.
func findServerAddress(ctx context.Context, e *engine.Env) string {
	if pod, err := readStaticPod(ctx, e, release.APIServer); err == nil {
		return manifest.ArgumentValue(pod, "advertise-address")
	}
	data, err := e.World.ReadFile(ctx, e.Local.Paths.Kubeconfig("controller-manager.conf"))
	if err != nil {
		return ""
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return ""
	}
	cluster, err := config.CurrentCluster()
	if err != nil {
		return ""
	}
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return ""
	}
	return server.Hostname()
}

// defaultDataDir is etcd's data directory if there is no manifest.
const defaultDataDir = "/var/lib/etcd"

// readStaticPod reads the static Pod manifest of a component.
func readStaticPod(ctx context.Context, e *engine.Env, component string) (*corev1.Pod, error) {
	file := e.Local.Paths.Manifest(component)
	if component == manifest.Etcd { // which is not there while its data are being replaced
		if x, err := etcddata.Read(ctx, e.World, e.Local.Paths); err == nil && x != nil {
			file = x.Manifest
		}
	}
	data, err := e.World.ReadFile(ctx, file)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	return &pod, yaml.Unmarshal(data, &pod)
}
