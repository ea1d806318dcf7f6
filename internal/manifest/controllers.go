package manifest

import (
	"path"
	"slices"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

func controllerManagerPod(n *node.Node, h Host, target release.Target) componentPod {
	c, p := &n.Cluster.ControllerManager, n.Paths
	config := path.Join(p.Kubernetes, "controller-manager.conf")
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
	volumes := append(certificateVolumes(n, h), kubeconfigVolume(config))
	if target.FlexVolumes() {
		dir, ok := node.LastArg(c.Args, "flex-volume-plugin-dir")
		if !ok {
			dir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"
		}
		volumes = append(volumes, dirVolume("flexvolume-dir", dir, false))
	}
	address, _ := node.LastArg(slices.Concat(args, c.Args), "bind-address")
	probes := httpsProbes(address, 10257)
	probes.live, probes.ready, probes.start = "/healthz", "", "/healthz"
	return componentPod{
		args:    mergeArgs(args, c.Args),
		env:     mergeEnv(h.proxyEnv(), c.Envs),
		volumes: mergeVolumes(volumes, c.Volumes),
		probes:  probes,
		cpu:     "200m",
	}
}

func schedulerPod(n *node.Node, h Host) componentPod {
	c := &n.Cluster.Scheduler
	config := path.Join(n.Paths.Kubernetes, "scheduler.conf")
	args := clientArgs(config)
	address, _ := node.LastArg(slices.Concat(args, c.Args), "bind-address")
	return componentPod{
		args:    mergeArgs(args, c.Args),
		env:     mergeEnv(h.proxyEnv(), c.Envs),
		volumes: mergeVolumes([]node.Volume{kubeconfigVolume(config)}, c.Volumes),
		probes:  httpsProbes(address, 10259),
		cpu:     "100m",
	}
}

// clientArgs are the arguments of components that are clients of the API server with leader
// election.
func clientArgs(config string) []node.Arg {
	return []node.Arg{
		{Name: "authentication-kubeconfig", Value: config},
		{Name: "authorization-kubeconfig", Value: config},
		{Name: "bind-address", Value: "127.0.0.1"}, // on IPv6 machines too
		{Name: "kubeconfig", Value: config},
		{Name: "leader-elect", Value: "true"},
	}
}
