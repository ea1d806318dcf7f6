package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Names of the preflight checks that find obstacles.
const (
	ComponentArgs    = "ComponentArgs"
	ComponentVolumes = "ComponentVolumes"
	IPFamilies       = "IPFamilies"
)

// Obstacle is something in the configuration with which a component does not run, or not as
// meant. Files, certificates and images can be made of that configuration all the same.
type Obstacle struct {
	Check string // the preflight check that finds it
	Field string // where it is, such as apiServer.extraArgs[0]
	release.ArgFault
}

// String is one line without the check.
func (o Obstacle) String() string { return o.Field + ": " + o.Text + "; " + o.Remedy }

// Obstacles lists what keeps the static Pods of this control plane from running.
func Obstacles(n *node.Node, h Host) ([]Obstacle, error) {
	images, err := Images(n)
	if err != nil {
		return nil, err
	}
	c, v := &n.Cluster, images.Target.Version()
	list := slices.Concat(
		argObstacles("apiServer", release.APIServer, v, c.APIServer.Args),
		argObstacles("controllerManager", release.ControllerManager, v, c.ControllerManager.Args),
		argObstacles("scheduler", release.Scheduler, v, c.Scheduler.Args),
	)
	if c.Etcd.External == nil {
		list = append(list, argObstacles("etcd.local", Etcd, images.EtcdVersion(), c.Etcd.Args)...)
	}
	for _, s := range []struct {
		component, field string
		user             []node.Volume
	}{
		{release.APIServer, "apiServer", c.APIServer.Volumes},
		{release.ControllerManager, "controllerManager", c.ControllerManager.Volumes},
		{release.Scheduler, "scheduler", c.Scheduler.Volumes},
	} {
		pod, err := StaticPod(s.component, n, h)
		if err != nil {
			return nil, err
		}
		list = append(list, volumeObstacles(s.field, pod, s.user)...)
	}
	return append(list, familyObstacles(n)...), nil
}

func argObstacles(field, component string, v *version.Version, args []node.Arg) (list []Obstacle) {
	for i, a := range args {
		if fault := release.CheckArg(component, v, a.Name, a.Value); fault != nil {
			list = append(list, Obstacle{ComponentArgs, fmt.Sprintf("%s.extraArgs[%d]", field, i), *fault})
		}
	}
	return list
}

// KubeletObstacles lists what keeps a kubelet of that version from running with these arguments.
func KubeletObstacles(args []node.Arg, v *version.Version) (list []Obstacle) {
	for i, a := range args {
		field := fmt.Sprintf("nodeRegistration.kubeletExtraArgs[%d]", i)
		if fault := release.CheckArg(release.Kubelet, v, a.Name, a.Value); fault != nil {
			list = append(list, Obstacle{ComponentArgs, field, *fault})
			continue
		}
		if a.Name != "node-labels" {
			continue
		}
		for label := range strings.SplitSeq(a.Value, ",") {
			key, value, _ := strings.Cut(label, "=")
			key = strings.TrimSpace(key)
			if !ofKubernetes(key) || kubeletapis.IsKubeletLabel(key) {
				continue
			}
			list = append(list, Obstacle{ComponentArgs, field, release.ArgFault{
				Text: fmt.Sprintf("label %q is of Kubernetes' own, and no kubelet may give it to its node: "+
					"the kubelet does not start", key),
				Remedy: fmt.Sprintf("remove it, and once the node has joined run: kubectl label node NAME %s=%s",
					key, value),
				Fatal: true,
			}})
		}
	}
	return list
}

// ofKubernetes reports whether a label is in a name space that Kubernetes keeps for itself.
func ofKubernetes(key string) bool {
	space, _, found := strings.Cut(key, "/")
	return found && slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(own string) bool {
		return space == own || strings.HasSuffix(space, "."+own)
	})
}

// volumeObstacles finds volumes that hide each other. Of two with one name the last counts, as in
// upstream's kubeadm; a Pod with two at one path is refused by the kubelet.
func volumeObstacles(field string, pod *corev1.Pod, user []node.Volume) (list []Obstacle) {
	note := func(i int, rest string, fault release.ArgFault) {
		at := fmt.Sprintf("%s.extraVolumes[%d]%s", field, i, rest)
		list = append(list, Obstacle{ComponentVolumes, at, fault})
	}
	for i, v := range user {
		same := func(w node.Volume) bool { return w.Name == v.Name && w != v }
		if later := slices.IndexFunc(user[i+1:], same); later >= 0 {
			note(i, "", release.ArgFault{
				Text: fmt.Sprintf("volume %q is not mounted: extraVolumes[%d] has the same name",
					v.Name, i+1+later),
				Remedy: "give each a name of its own",
			})
		}
	}
	at := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		path := strings.TrimRight(m.MountPath, "/")
		other, taken := at[path]
		at[path] = m.Name
		if !taken {
			continue
		}
		named := func(name string) int {
			return slices.IndexFunc(user, func(v node.Volume) bool { return v.Name == name })
		}
		i := named(m.Name)
		if i < 0 { // kubeadm's own volume comes after the user's; no two of kubeadm's are at one path
			other, i = m.Name, named(other)
		}
		note(i, ".mountPath", release.ArgFault{
			Text: fmt.Sprintf("%q is where volume %q is mounted too, and the kubelet refuses such a Pod",
				m.MountPath, other),
			Remedy: "mount each at a path of its own",
			Fatal:  true,
		})
	}
	return list
}

// familyObstacles finds an API server whose own address is of another IP family than the first
// subnet of Services. It ends as it starts, unless it is told not to keep the endpoints of its own
// Service.
func familyObstacles(n *node.Node) []Obstacle {
	args := n.Cluster.APIServer.Args
	address := n.Address
	if set, ok := node.LastArg(args, "advertise-address"); ok {
		address = set
	}
	first, _, _ := strings.Cut(n.Cluster.ServiceSubnet, ",")
	subnet, badSubnet := netip.ParsePrefix(first)
	ip, badAddress := netip.ParseAddr(address)
	reconciler, _ := node.LastArg(args, "endpoint-reconciler-type")
	if badSubnet != nil || badAddress != nil || reconciler == "none" ||
		ip.Unmap().Is4() == subnet.Addr().Is4() {
		return nil
	}
	wanted, given := "IPv6", "IPv4"
	if subnet.Addr().Is4() {
		wanted, given = given, wanted
	}
	return []Obstacle{{IPFamilies, "networking.serviceSubnet", release.ArgFault{
		Text: fmt.Sprintf("the API server does not start with the address %s and Services in %s, which is %s",
			ip, subnet, wanted),
		Remedy: fmt.Sprintf("set --apiserver-advertise-address to an %s address of this machine, "+
			"or begin serviceSubnet with an %s subnet", wanted, given),
		Fatal: true,
	}}}
}
