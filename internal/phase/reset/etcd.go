// Package reset takes back what init and join made on this machine. What fails is told and
// passed over, so that as much as possible is taken back.
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
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// Etcd takes this machine's member out of its etcd cluster and removes the member's data.
var Etcd = flow.Phase{
	Name:  "remove-etcd-member",
	Short: "Remove this machine's etcd member and its data",
	Long:  "Take this machine's member out of the etcd cluster, if there are others, and remove its data.",
	Flags: []flag.Name{flag.DryRun, flag.Kubeconfig},
	Run: func(ctx context.Context, e *flow.Env) error {
		pod, err := readStaticPod(ctx, e, manifest.Etcd)
		if errors.Is(err, fs.ErrNotExist) {
			return removeMemberWithoutManifest(ctx, e)
		}
		if err != nil {
			e.Warn("the etcd manifest cannot be read, so its member and data are left alone: %v", err)
			return nil
		}
		dir := findDataDir(pod)
		if !path.IsAbs(dir) || node.OfSystem(dir) { // a relative one would be below where this command was given
			e.Warn("the etcd manifest names no data directory of etcd's own (%q); remove the data by hand", dir)
			return nil
		}
		if err := removeMember(ctx, e, newLocalMember(e, pod)); err != nil {
			e.Warn("this machine's etcd member was not removed from its cluster: %v", err)
			for _, hint := range problem.Hints(err) {
				e.Warn("%s", hint)
			}
		}
		removeData(ctx, e, dir)
		return nil
	},
}

// removeData stops etcd first: it must not write into data that is being removed, and the
// kubelet must not start it again.
func removeData(ctx context.Context, e *flow.Env, dir string) {
	removeJournal(ctx, e)
	e.Say("stopping etcd and removing the contents of %q", dir)
	warnOnError(e, e.Do(ctx, change.SetService{Name: "kubelet"}), "stop the kubelet by hand: systemctl stop kubelet")
	warnOnError(e, e.Do(ctx, change.RemoveContainers{Socket: e.Local.CRISocket, Component: manifest.Etcd}), "end etcd by hand")
	warnOnError(e, e.Do(ctx, change.Remove{Path: e.Local.Paths.Manifest(manifest.Etcd)}), "remove it by hand")
	warnOnError(e, e.Do(ctx, change.Remove{Path: dir, Contents: true}), "remove them by hand")
}

// removeMemberWithoutManifest takes out a member without a manifest, be it that it has not got one yet or no longer, and removes its data,
// if this machine's certificates tell of one. The etcd CA alone says nothing: clients of an external etcd have it too.
func removeMemberWithoutManifest(ctx context.Context, e *flow.Env) error {
	_, err := e.World.Stat(ctx, e.Local.Paths.Cert("etcd/server"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // this machine never ran etcd for Kubernetes
	}
	if err != nil {
		return err
	}
	if o, ok := newAnnouncedMember(ctx, e); ok {
		if err := removeMember(ctx, e, o); err != nil {
			e.Say("if etcd was told of a member on this machine, it stays there: %v", err)
		}
	}
	removeData(ctx, e, defaultDataDir)
	return nil
}

// newAnnouncedMember is the member that a join that was stopped may have announced to the others before it wrote the manifest. It
// has the address of the API server beside it.
func newAnnouncedMember(ctx context.Context, e *flow.Env) (localMember, bool) {
	n := node.Node{Local: node.Local{Address: findServerAddress(ctx, e)}}
	return localMember{peers: []string{n.PeerURL()}, clients: []string{n.ClientURL()}, via: etcdcluster.LocalClient(e.Local.Paths)}, n.Address != ""
}

// findServerAddress is that of this machine's API server: its manifest tells, or what the components beside it are told.
func findServerAddress(ctx context.Context, e *flow.Env) string {
	if pod, err := readStaticPod(ctx, e, release.APIServer); err == nil {
		return argumentValue(pod, "advertise-address")
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

// defaultDataDir is where etcd's data are unless its manifest says otherwise.
const defaultDataDir = "/var/lib/etcd"

// readStaticPod is the Pod by which a component of the control plane runs on this machine.
func readStaticPod(ctx context.Context, e *flow.Env, component string) (*corev1.Pod, error) {
	data, err := e.World.ReadFile(ctx, e.Local.Paths.Manifest(component))
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	return &pod, yaml.Unmarshal(data, &pod)
}

func findDataDir(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == "etcd-data" && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return ""
}
