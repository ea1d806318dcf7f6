package doctor

import (
	"context"
	"strings"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// given returns a function of a check as Check.Run has it: with the facts that it needs.
func given[T any](facts T, check func(context.Context, state.Reader, *preflight.Report, T)) func(
	context.Context, state.Reader, *preflight.Report) {
	return func(ctx context.Context, r state.Reader, rep *preflight.Report) { check(ctx, r, rep, facts) }
}

// hostChecks are the checks of the machine, whether it is a node or not. One that is no node may
// become a worker: what only a control plane needs is a warning there.
func hostChecks(m *machine) []preflight.Check {
	local := m.Local
	if !m.IsNode && !m.Platform.IsWindows() {
		local.Role = node.ControlPlane
	}
	networks := append([]string{m.mainAddress}, podAndServiceCIDRs(m.Pods)...)
	var list []preflight.Check
	if !m.Platform.IsWindows() {
		list = forwardingOfCluster(m, preflight.Forwarding(networks))
	}
	for _, c := range preflight.Machine(&local, m.env.Tool, networks) {
		switch c.Name {
		case "CRI":
			if m.NoSocket != nil {
				c.Run = given(m, reportNoSocket)
			}
		case "ContainerRuntimeVersion":
			if m.NoSocket != nil {
				continue
			}
		case manifest.ComponentArgs: // the user gives no arguments here
			continue
		case "Swap":
			c = unlessSwapAllowed(c, &m.kubelet)
		case "SystemVerification":
			c = unlessCgroupV1Allowed(c, &m.kubelet)
		case "NumCPU", "Mem":
			if !m.IsNode {
				c = unlessControlPlane(c)
			}
		}
		list = append(list, c)
	}
	if !m.Platform.IsWindows() {
		list = append(list, linuxChecks(m)...)
	}
	list = append(list, networkChecks(m)...)
	if !m.IsNode {
		list = append(list, vacantChecks(m)...)
	}
	return list
}

// linuxChecks are the checks of what Windows does not have: the kernel's modules and settings, a
// configuration of containerd in /etc, and a disk of etcd.
func linuxChecks(m *machine) []preflight.Check {
	return []preflight.Check{
		{Name: "KernelModules", Run: given(m, checkModules),
			Why: "container runtimes need these modules to store images, and kube-proxy may need them to balance Services"},
		{Name: "BridgeNetfilter", Run: checkBridge,
			Why: "otherwise the rules of Services do not apply to connections between Pods on the same bridge"},
		{Name: "CgroupDriver", Run: given(m, checkCgroupDriver),
			Why: "with two cgroup managers a node becomes unstable when resources run short"},
		{Name: "SandboxImage", Run: given(m, checkSandboxImage),
			Why: "the runtime pulls a different image from kubeadm, which fails where registries cannot be reached"},
		{Name: "DiskLatency", Run: given(m, checkDiskLatency),
			Why: "etcd writes every change to its disk before it answers; a slow disk costs it the leader"},
	}
}

// networkChecks are the checks of this machine's clock and network.
func networkChecks(m *machine) []preflight.Check {
	list := []preflight.Check{{Name: "HTTPProxy", Run: given(m, checkProxy),
		Why: "kubeadm and the components would send requests within the cluster to the proxy"}}
	if !m.Platform.IsWindows() {
		list = append([]preflight.Check{{Name: "MTU", Run: given(m.Address, checkMTU),
			Why: "large packets from Pods are dropped on the way to other nodes, so connections hang"}}, list...)
	}
	if !m.IsNode {
		return list
	}
	list = append(list,
		preflight.Check{Name: "EndpointDNS", Run: given(m, checkEndpointName),
			Why: "the kubelet and users reach the API server by this name"},
		preflight.Check{Name: "ManifestProxy", Run: given(m, checkManifestProxy),
			Why: "the component sends requests within the cluster to the proxy"},
		preflight.Check{Name: "Clock", Run: given(m.cluster, checkClock),
			Why: "each machine judges the validity of certificates, tokens and leases by its own clock"})
	return append(list, needAPI(m.cluster,
		preflight.Check{Name: "PeerPorts", Run: given(m, checkPorts),
			Why: "control plane components connect to those on other nodes"})...)
}

// vacantChecks check that nothing is in the way of init and join.
func vacantChecks(m *machine) []preflight.Check {
	n := &node.Node{Local: m.Local}
	n.Cluster.Etcd.DataDir = etcdDataDir(m.Pods)
	var list []preflight.Check
	for _, c := range preflight.Vacant(n) {
		if strings.HasPrefix(c.Name, "Port-") && c.Name != "Port-10250" {
			c = unlessControlPlane(c)
		}
		c.Why = "init and join do not replace files that may belong to another cluster"
		list = append(list, c)
	}
	return list
}

// nodeChecks are the checks of what makes this machine a node.
func nodeChecks(m *machine) []preflight.Check {
	if !m.IsNode {
		return []preflight.Check{{Name: "Node",
			Run: func(_ context.Context, _ state.Reader, rep *preflight.Report) {
				rep.Skip("this machine is not a node of a cluster: %s does not exist",
					m.Paths.KubeletKubeconfig())
			}}}
	}
	list := []preflight.Check{
		{Name: "Kubelet", Run: given(m.asNode(), checkKubelet),
			Why: "the kubelet starts all containers on this node and reports to the API server"},
		{Name: "KubeletConfig", Run: given(m.Paths.KubeletConfig(), checkKubeletConfig),
			Why: "the kubelet does not start without its configuration, and it ignores unknown fields"},
		{Name: "KubeletCertificate", Run: given(m.Local, checkKubeletCertificate),
			Why: "the API server rejects a kubelet without a valid client certificate, and the node becomes NotReady"},
		{Name: "Kubeconfigs", Run: given(m, checkKubeconfigs),
			Why: "a component or user cannot authenticate to the API server with the file"},
		{Name: "FilePermissions", Run: given(m.Local, checkPermissions),
			Why: "anyone who can read a private key or kubeconfig has its owner's rights in the cluster"},
	}
	if !m.Platform.IsWindows() { // containerd reads the configuration from another directory there
		list = append(list, preflight.Check{Name: "PodNetwork", Run: checkPodNetwork,
			Why: "without a Pod network the node stays NotReady, and Pods do not get addresses"})
	}
	list = append(list, needAPI(m.cluster,
		preflight.Check{Name: "KubeletConfigDrift", Run: given(m.cluster, checkKubeletDrift),
			Why: "the next upgrade replaces the file with what is stored in the cluster"})...)
	list = append(list, preflight.Check{Name: "NodeAddress", Run: given(m, checkNodeIP),
		Why: "a kubelet that is told an address which the machine does not have no longer updates its Node"},
		preflight.Check{Name: "NodeName", Run: given(m, checkNodeName),
			Why: "the API server refuses a kubelet that gives itself another name than its client certificate, and the node " +
				"becomes NotReady"})
	if !m.isControlPlane() {
		return append(list, needAPI(m.cluster,
			preflight.Check{Name: "KubeletEndpoint", Run: given(m, checkKubeletEndpoint),
				Why: "the kubelet loses the cluster when the address that it uses goes away"})...)
	}
	list = append(list,
		preflight.Check{Name: "AdvertiseAddress", Run: given(m, checkAdvertiseAddress),
			Why: "no other machine reaches the API server and etcd of this node at an address that it does not have"},
		preflight.Check{Name: "StaticPodManifest", Run: given(m, checkManifests),
			Why: "the kubelet runs the control plane from these files"},
		preflight.Check{Name: "StaticPods", Run: given(m, checkStaticPods),
			Why: "without this component the control plane of this node does not work"},
		preflight.Check{Name: "Certificates", Run: given(m, checkCertificates),
			Why: "components reject connections that use an invalid certificate"},
		preflight.Check{Name: "ServedCertificates", Run: given(m, checkServed),
			Why: "a component that uses an old certificate fails when it expires, even though the file is valid"},
		preflight.Check{Name: "ServiceAccountKeys", Run: given(m.asNode(), checkServiceAccountKeys),
			Why: "the API server rejects Pods' tokens that were signed with another key"})
	return append(list, needAPI(m.cluster,
		preflight.Check{Name: "ManifestDrift", Run: given(m, checkManifestDrift),
			Why: "the next upgrade overwrites manual changes"})...)
}

// clusterChecks are the checks of what all nodes share.
func clusterChecks(m *machine) []preflight.Check {
	c := m.cluster
	if c.as.Kubeconfig == "" {
		return []preflight.Check{{Name: "Cluster",
			Run: func(_ context.Context, _ state.Reader, rep *preflight.Report) {
				rep.Skip("this machine has no kubeconfig for a cluster; set --kubeconfig to check one")
			}}}
	}
	list := []preflight.Check{{Name: apiServerCheck, Run: given(m, checkAPIServer),
		Why: "everything in the cluster goes through the API server"}}
	if m.isControlPlane() {
		list = append(list, preflight.Check{Name: "EtcdMembers", Run: given(m, checkMembers),
			Why: "etcd stores the cluster's state; without a majority of its members nothing can be changed"})
	}
	return append(list, needAPI(c,
		preflight.Check{Name: "ClusterConfig", Run: given(c, checkClusterConfig),
			Why: "joins and upgrades read the cluster's configuration"},
		preflight.Check{Name: "Nodes", Run: given(m, checkNodes),
			Why: "Pods run only on nodes that are ready"},
		preflight.Check{Name: "Versions", Run: given(c, checkVersions),
			Why: "Kubernetes supports only certain combinations of versions " +
				"(https://kubernetes.io/releases/version-skew-policy/)"},
		preflight.Check{Name: "Leaders", Run: given(c, checkLeaders),
			Why: "without a leader, Pods are neither created nor assigned to nodes"},
		preflight.Check{Name: "CoreDNS", Run: given(c, checkCoreDNS),
			Why: "Pods look up Services by name"},
		preflight.Check{Name: "KubeProxy", Run: given(c, checkKubeProxy),
			Why: "kube-proxy makes the addresses of Services work on each node"},
		preflight.Check{Name: "ClusterInfo", Run: given(m, checkClusterInfo),
			Why: "joining machines use it to find and verify the cluster"},
		preflight.Check{Name: "BootstrapTokens", Run: given(c, checkTokens),
			Why: "anyone with a token can join a machine to the cluster"},
		preflight.Check{Name: "ClusterAccess", Run: given(m, checkAccess),
			Why: "joins, renewals and administrators need these roles and bindings"},
		preflight.Check{Name: "CertificateRequests", Run: given(c, checkRequests),
			Why: "a kubelet that is waiting for a certificate does not fully work"})...)
}

// unlessControlPlane makes the errors of a check warnings, on a machine that need not become a control
// plane.
func unlessControlPlane(c preflight.Check) preflight.Check {
	return withFindings(c, func(f preflight.Finding) (preflight.Finding, bool) {
		f.Text += ", if it is to be a control plane node"
		f.Severity = preflight.Warning
		return f, true
	})
}

// withFindings runs a check and keeps what keep returns of each finding.
func withFindings(c preflight.Check,
	keep func(preflight.Finding) (preflight.Finding, bool)) preflight.Check {
	run := c.Run
	c.Run = func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		inner := preflight.NewReport(c.Name)
		run(ctx, r, inner)
		if reason := inner.Skipped(); reason != "" {
			rep.Skip("%s", reason)
		}
		for _, f := range inner.Result(nil).Findings {
			if f, ok := keep(f); ok {
				rep.Add(f)
			}
		}
	}
	return c
}

// addError adds an error as finding; its hints are the remedy.
func addError(rep *preflight.Report, f preflight.Finding, err error) {
	f.Severity, f.Text = preflight.Error, err.Error()
	if f.Remedy == "" {
		f.Remedy = strings.Join(problem.Hints(err), "; ")
	}
	rep.Add(f)
}

// runAll runs checks that report as this one.
func runAll(ctx context.Context, r state.Reader, rep *preflight.Report, checks []preflight.Check) {
	for _, c := range checks {
		c.Run(ctx, r, rep)
	}
}
