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
	"kubeadm/internal/untrusted"
)

// Names of the preflight checks that report obstacles.
const (
	ComponentArgs    = "ComponentArgs"
	ComponentVolumes = "ComponentVolumes"
	IPFamilies       = "IPFamilies"
)

// ComponentProblem is a setting with which a component does not start, or does not work as
// intended. It does not matter to commands that only write files or list images.
type ComponentProblem struct {
	Check string // the preflight check that reports it
	Field string // its field, such as apiServer.extraArgs[0]
	release.ArgProblem
}

// String is one line without the name of the check.
func (o ComponentProblem) String() string { return o.Field + ": " + o.Text + "; " + o.Hint }

// FindComponentProblems lists the settings that keep the static Pods of this control plane from
// running.
func FindComponentProblems(n *node.Node, h Host) ([]ComponentProblem, error) {
	list, err := FindArgProblems(n)
	if err != nil {
		return nil, err
	}
	c := &n.Cluster
	for _, s := range []struct {
		name, field string
		volumes     []node.Volume // etcd has no extraVolumes
	}{
		{release.APIServer, "apiServer", c.APIServer.Volumes},
		{release.ControllerManager, "controllerManager", c.ControllerManager.Volumes},
		{release.Scheduler, "scheduler", c.Scheduler.Volumes},
	} {
		pod, err := StaticPod(s.name, n, h)
		if err != nil {
			return nil, err
		}
		list = append(list, checkComponentVolumes(s.field, pod, s.volumes)...)
	}
	return append(list, checkIPFamily(n)...), nil
}

// FindArgProblems lists what is wrong with the arguments of the control plane's components in the
// versions of n, and with the feature gates of kube-proxy.
func FindArgProblems(n *node.Node) (list []ComponentProblem, err error) {
	images, err := Images(n)
	if err != nil {
		return nil, err
	}
	c, v := &n.Cluster, images.Target.Version()
	components := []struct {
		name, field string
		version     *version.Version
		args        []node.Arg
	}{
		{release.APIServer, "apiServer", v, c.APIServer.Args},
		{release.ControllerManager, "controllerManager", v, c.ControllerManager.Args},
		{release.Scheduler, "scheduler", v, c.Scheduler.Args},
		{Etcd, "etcd.local", images.EtcdVersion(), c.Etcd.Args},
	}
	if c.Etcd.External != nil {
		components = components[:3]
	}
	for _, s := range components {
		field := func(i int) string { return fmt.Sprintf("%s.extraArgs[%d]", s.field, i) }
		for i, a := range s.args {
			if fault := release.CheckArg(s.name, s.version, a.Name, a.Value); fault != nil {
				list = append(list, ComponentProblem{ComponentArgs, field(i), *fault})
			}
		}
		list = append(list, findGateProblems(s.name, s.version, s.args, field)...)
	}
	list = append(list, findConflicts(c.APIServer.Args)...)
	return append(list, findProxyGateProblems(n, v)...), nil
}

// findConflicts lists arguments of the API server that exclude each other: it does not start with both.
func findConflicts(args []node.Arg) (list []ComponentProblem) {
	add := func(i int, remedy, format string, a ...any) {
		list = append(list, ComponentProblem{ComponentArgs, fmt.Sprintf("apiServer.extraArgs[%d]", i),
			release.ArgProblem{Text: fmt.Sprintf(format, a...), Hint: remedy, Fatal: true}})
	}
	_, isFile := node.LastArg(args, "authorization-config")
	enabled, given := node.LastArg(args, "enable-admission-plugins")
	if !given {
		enabled = defaultAdmissionPlugins
	}
	for i, a := range args {
		switch {
		case isFile && (a.Name == "authorization-mode" || strings.HasPrefix(a.Name, "authorization-webhook-")):
			add(i, "remove it and configure it in that file, or remove authorization-config",
				"the API server does not start with both %s and authorization-config", a.Name)
		case a.Name == "disable-admission-plugins":
			for name := range strings.SplitSeq(a.Value, ",") {
				if name == "" || !slices.Contains(strings.Split(enabled, ","), name) {
					continue
				}
				remedy := "remove it from one of the two"
				if !given {
					remedy = "to disable it, also set enable-admission-plugins, without it"
				}
				add(i, remedy, "the API server does not start with the admission plugin %s both disabled and "+
					"enabled", name)
			}
		}
	}
	return list
}

// FindKubeletProblems lists the arguments that keep a kubelet of that version from running.
func FindKubeletProblems(args []node.Arg, v *version.Version) (list []ComponentProblem) {
	list = findGateProblems(release.Kubelet, v, args, func(i int) string {
		return fmt.Sprintf("nodeRegistration.kubeletExtraArgs[%d]", i)
	})
	for i, a := range args {
		field := fmt.Sprintf("nodeRegistration.kubeletExtraArgs[%d]", i)
		if fault := release.CheckArg(release.Kubelet, v, a.Name, a.Value); fault != nil {
			list = append(list, ComponentProblem{ComponentArgs, field, *fault})
			continue
		}
		if a.Name != "node-labels" {
			continue
		}
		for label := range strings.SplitSeq(a.Value, ",") {
			key, value, _ := strings.Cut(label, "=")
			key = strings.TrimSpace(key)
			domain, _, found := strings.Cut(key, "/")
			domain = "." + domain
			reserved := found && (strings.HasSuffix(domain, ".kubernetes.io") ||
				strings.HasSuffix(domain, ".k8s.io"))
			if !reserved || kubeletapis.IsKubeletLabel(key) {
				continue
			}
			list = append(list, ComponentProblem{ComponentArgs, field, release.ArgProblem{
				Text: fmt.Sprintf("label %q is reserved by Kubernetes: a kubelet that tries to set it on its "+
					"node does not start", key),
				Hint: untrusted.CommandHint("remove it; once the node has joined, run",
					"kubectl label node NAME", key+"="+value),
				Fatal: true,
			}})
		}
	}
	return list
}

// checkComponentVolumes finds volumes with the same name, of which the last one wins, as in
// upstream's kubeadm, and volumes with the same mountPath, with which the kubelet rejects the
// Pod.
func checkComponentVolumes(field string, pod *corev1.Pod,
	user []node.Volume) (list []ComponentProblem) {
	note := func(i int, rest string, fault release.ArgProblem) {
		at := fmt.Sprintf("%s.extraVolumes[%d]%s", field, i, rest)
		list = append(list, ComponentProblem{ComponentVolumes, at, fault})
	}
	for i, v := range user {
		same := func(w node.Volume) bool { return w.Name == v.Name && w != v }
		if later := slices.IndexFunc(user[i+1:], same); later >= 0 {
			note(i, "", release.ArgProblem{
				Text: fmt.Sprintf("volume %q is not mounted: extraVolumes[%d] has the same name",
					v.Name, i+1+later),
				Hint: "give each volume a different name",
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
		// kubeadm's own volume comes after the user's; no two of kubeadm's are at one path
		if i < 0 {
			other, i = m.Name, named(other)
		}
		note(i, ".mountPath", release.ArgProblem{
			Text: fmt.Sprintf("%q is also the mountPath of volume %q: the kubelet rejects such a Pod",
				m.MountPath, other),
			Hint:  "give each volume a different mountPath",
			Fatal: true,
		})
	}
	return list
}

// checkIPFamily finds an API server whose address is of another IP family than the first service
// subnet. It exits at startup, unless it does not reconcile the endpoints of the kubernetes
// Service.
func checkIPFamily(n *node.Node) []ComponentProblem {
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
	return []ComponentProblem{{IPFamilies, "networking.serviceSubnet", release.ArgProblem{
		Text: fmt.Sprintf("the API server does not start with the %s address %s and the %s service subnet %s",
			given, ip, wanted, subnet),
		Hint: fmt.Sprintf("set --apiserver-advertise-address to an %s address of this machine, "+
			"or list an %s subnet first in serviceSubnet", wanted, given),
		Fatal: true,
	}}}
}
