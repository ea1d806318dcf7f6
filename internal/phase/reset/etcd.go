// Package reset takes back what init and join made on this machine. What fails is told and
// passed over, so that as much as possible is taken back.
package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
)

// Etcd takes this machine's member out of its etcd cluster and removes the member's data.
var Etcd = flow.Phase{
	Name:  "remove-etcd-member",
	Short: "Remove this machine's etcd member and its data",
	Long:  "Take this machine's member out of the etcd cluster, if there are others, and remove its data.",
	Flags: []flag.Name{flag.DryRun, flag.Kubeconfig},
	Run: func(ctx context.Context, e *flow.Env) error {
		pod, err := etcdPod(ctx, e)
		if errors.Is(err, fs.ErrNotExist) {
			return leftover(ctx, e)
		}
		if err != nil {
			e.Warn("the etcd manifest cannot be read, so its member and data are left alone: %v", err)
			return nil
		}
		dir := dataDir(pod)
		if dir == "" {
			e.Warn("the etcd manifest names no data directory; remove the data by hand")
			return nil
		}
		if err := leave(ctx, e, pod); err != nil {
			e.Warn("this machine's etcd member was not removed from its cluster: %v", err)
			e.Warn("remove it by hand on another control plane: etcdctl member remove <ID>")
		}
		removeData(ctx, e, dir)
		return nil
	},
}

// removeData stops etcd first: it must not write into data that is being removed, and the
// kubelet must not start it again.
func removeData(ctx context.Context, e *flow.Env, dir string) {
	disown(ctx, e)
	e.Say("stopping etcd and removing the contents of %q", dir)
	tell(e, e.Do(ctx, change.SetService{Name: "kubelet"}), "stop the kubelet by hand: systemctl stop kubelet")
	tell(e, e.Do(ctx, change.RemoveContainers{Socket: e.Local.CRISocket, Pod: manifest.Etcd}), "end etcd by hand")
	tell(e, e.Do(ctx, change.Remove{Path: e.Local.Paths.Manifest(manifest.Etcd)}), "remove it by hand")
	tell(e, e.Do(ctx, change.Remove{Path: dir, Contents: true}), "remove them by hand")
}

// leftover removes the data of a member whose manifest is gone, if this machine's certificates
// tell that there was one. The etcd CA alone says nothing: clients of an external etcd have it too.
func leftover(ctx context.Context, e *flow.Env) error {
	_, err := e.World.Stat(ctx, e.Local.Paths.Cert("etcd/server"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // this machine never ran etcd for Kubernetes
	}
	if err != nil {
		return err
	}
	removeData(ctx, e, defaultDataDir)
	return nil
}

// defaultDataDir is where etcd's data are unless its manifest says otherwise.
const defaultDataDir = "/var/lib/etcd"

// etcdPod is the static Pod that this machine's etcd runs by.
func etcdPod(ctx context.Context, e *flow.Env) (*corev1.Pod, error) {
	data, err := e.World.ReadFile(ctx, e.Local.Paths.Manifest(manifest.Etcd))
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	return &pod, yaml.Unmarshal(data, &pod)
}

func dataDir(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == "etcd-data" && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return ""
}

// leave removes the member unless it is the last. The others are asked to do it, as a
// member that removes itself cannot see whether that went well.
func leave(ctx context.Context, e *flow.Env, pod *corev1.Pod) error {
	self := pod.Annotations[manifest.EtcdURLAnnotation]
	all, err := endpoints(ctx, e)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(all, func(url string) bool { return url == self })
	if len(others) == 0 {
		e.Say("this machine's etcd member is the last one: its data go, and the cluster with them")
		return nil
	}
	peer := argument(pod, "initial-advertise-peer-urls")
	if peer == "" {
		return errors.New("the etcd manifest does not say under which address others know the member")
	}
	p := e.Local.Paths
	return e.Do(ctx, change.SetMember{PeerURL: peer, State: change.Absent, Via: change.Etcd{
		Endpoints: others,
		CAFile:    p.Cert("etcd/ca"),
		CertFile:  p.Cert("etcd/healthcheck-client"),
		KeyFile:   p.Key("etcd/healthcheck-client"),
	}})
}

// endpoints are the client URLs of all etcd members, as their Pods tell them.
func endpoints(ctx context.Context, e *flow.Env) ([]string, error) {
	as, err := e.Admin(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := e.World.List(ctx, change.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "kube-system",
		LabelSelector: "component=etcd,tier=control-plane", As: as,
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the other etcd members: %w", err)
	}
	var urls []string
	for _, u := range pods {
		var p corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
			return nil, err
		}
		urls = append(urls, p.Annotations[manifest.EtcdURLAnnotation])
	}
	return urls, nil
}

// argument is the value of --name=value in the Pod's command.
func argument(pod *corev1.Pod, name string) string {
	for _, c := range pod.Spec.Containers {
		for _, a := range c.Command {
			if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return value
			}
		}
	}
	return ""
}
