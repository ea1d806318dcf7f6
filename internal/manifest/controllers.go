package manifest

import (
	"path"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

const loopback = "127.0.0.1" // where controller manager and scheduler listen, on IPv6 machines too

func controllerManagerPod(n *node.Node, h Host, target release.Target) componentPod {
	c := &n.Cluster.ControllerManager
	config := path.Join(n.Paths.Kubernetes, "controller-manager.conf")
	p := httpsProbes(bindAddress(c.Args), 10257)
	p.live, p.ready, p.start = "/healthz", "", "/healthz"
	volumes := append(certificateVolumes(n, h), kubeconfigVolume(config))
	if target.FlexVolumes() {
		dir, ok := node.LastArg(c.Args, "flex-volume-plugin-dir")
		if !ok {
			dir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"
		}
		volumes = append(volumes, dirVolume("flexvolume-dir", dir, false))
	}
	return componentPod{
		command: commandLine("kube-controller-manager", controllerManagerArgs(n, h, config),
			c.Args),
		env:     mergeEnv(h.proxyEnv(), c.Envs),
		volumes: mergeVolumes(volumes, c.Volumes),
		probes:  p,
		cpu:     "200m",
	}
}

func controllerManagerArgs(n *node.Node, h Host, config string) []node.Arg {
	p := n.Paths
	signCert, signKey := p.Cert("ca"), p.Key("ca")
	if h.ExternalCA {
		signCert, signKey = "", ""
	}
	args := append(clientArgs(config),
		node.Arg{Name: "client-ca-file", Value: p.Cert("ca")},
		node.Arg{Name: "cluster-signing-cert-file", Value: signCert},
		node.Arg{Name: "cluster-signing-key-file", Value: signKey},
		node.Arg{Name: "controllers", Value: "*,bootstrapsigner,tokencleaner"},
		node.Arg{Name: "requestheader-client-ca-file", Value: p.Cert("front-proxy-ca")},
		node.Arg{Name: "root-ca-file", Value: p.Cert("ca")},
		node.Arg{Name: "service-account-private-key-file", Value: p.Key("sa")},
		node.Arg{Name: "use-service-account-credentials", Value: "true"},
	)
	if n.Cluster.Name != "" {
		args = append(args, node.Arg{Name: "cluster-name", Value: n.Cluster.Name})
	}
	if n.Cluster.PodSubnet != "" {
		args = append(args,
			node.Arg{Name: "allocate-node-cidrs", Value: "true"},
			node.Arg{Name: "cluster-cidr", Value: n.Cluster.PodSubnet})
		if n.Cluster.ServiceSubnet != "" {
			args = append(args, node.Arg{Name: "service-cluster-ip-range",
				Value: n.Cluster.ServiceSubnet})
		}
	}
	return args
}

func schedulerPod(n *node.Node, h Host) componentPod {
	c := &n.Cluster.Scheduler
	config := path.Join(n.Paths.Kubernetes, "scheduler.conf")
	return componentPod{
		command: commandLine("kube-scheduler", clientArgs(config), c.Args),
		env:     mergeEnv(h.proxyEnv(), c.Envs),
		volumes: mergeVolumes([]node.Volume{kubeconfigVolume(config)}, c.Volumes),
		probes:  httpsProbes(bindAddress(c.Args), 10259),
		cpu:     "100m",
	}
}

// clientArgs are the arguments of components that are clients of the API server with leader
// election.
func clientArgs(config string) []node.Arg {
	return []node.Arg{
		{Name: "authentication-kubeconfig", Value: config},
		{Name: "authorization-kubeconfig", Value: config},
		{Name: "bind-address", Value: loopback},
		{Name: "kubeconfig", Value: config},
		{Name: "leader-elect", Value: "true"},
	}
}

func bindAddress(users []node.Arg) string {
	if address, ok := node.LastArg(users, "bind-address"); ok {
		return address
	}
	return loopback
}
