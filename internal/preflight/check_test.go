package preflight

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

var errOops = errors.New("oops")

// initCase is a machine or configuration with one fault, and the findings of init's checks.
type initCase struct {
	alter func(*machine, *node.Node)
	want  string
}

func TestInitChecks(t *testing.T) {
	for name, c := range initCases() {
		t.Run(name, func(t *testing.T) {
			m, n := fit(), controlPlane()
			c.alter(m, n)
			got := lines(Run(t.Context(), m, append(Root(), Init(n, tool(t))...), nil).Findings)
			if want := strings.TrimSpace(c.want); got != want {
				t.Errorf("found:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func initCases() map[string]initCase {
	all := map[string]initCase{}
	for _, some := range []map[string]initCase{hostCases(), kernelCases(), fileCases(), portCases(),
		runtimeCases(), versionCases(), proxyCases(), componentCases(), accountCases()} {
		for name, c := range some {
			all[name] = c
		}
	}
	return all
}

func hostCases() map[string]initCase {
	return map[string]initCase{
		"not root": {func(m *machine, _ *node.Node) { m.host.UserID = 1000 },
			`[ERROR IsPrivilegedUser]: kubeadm must run as root, but runs as user ID 1000; run the command as root, for example with "sudo"`},
		"one CPU": {func(m *machine, _ *node.Node) { m.host.CPUs = 1 },
			`[ERROR NumCPU]: the number of available CPUs 1 is less than the required 2; give the machine more CPUs`},
		"little memory": {func(m *machine, _ *node.Node) { m.host.MemoryMiB = 1699 },
			`[ERROR Mem]: this machine has 1699 MiB of memory, but a control plane node needs at least 1700 MiB; give the machine more memory`},
		"facts not to be had": {func(m *machine, _ *node.Node) { m.hostErr = errOops }, `
[ERROR IsPrivilegedUser]: reading the resources of this machine: oops; check that /proc and /sys are mounted
[ERROR NumCPU]: reading the resources of this machine: oops; check that /proc and /sys are mounted
[ERROR Mem]: reading the resources of this machine: oops; check that /proc and /sys are mounted`},
		"firewall": {func(m *machine, _ *node.Node) { m.services["firewalld"] = state.Service{Exists: true, Active: true} },
			`[WARNING Firewalld]: firewalld is active and may block other machines from ports 6443 and 10250; open them: firewall-cmd --permanent --add-port=6443/tcp --add-port=10250/tcp && firewall-cmd --reload`},
		"firewall at rest": {func(m *machine, _ *node.Node) { m.services["firewalld"] = state.Service{Exists: true} }, ""},
		"no kubelet service": {func(m *machine, _ *node.Node) { delete(m.services, "kubelet") },
			`[WARNING Service-kubelet]: the init system has no service "kubelet"; install the kubelet package, or run the kubelet in some other way`},
		"kubelet not at boot": {func(m *machine, _ *node.Node) { m.services["kubelet"] = state.Service{Exists: true, Active: true} },
			`[WARNING Service-kubelet]: the kubelet will not start when this machine boots; run "systemctl enable kubelet"`},
		"no init system": {func(m *machine, _ *node.Node) { m.serviceErr = state.ErrNoInitSystem },
			`
[WARNING Firewalld]: reading the state of service "firewalld": no supported init system (systemd or OpenRC) was found; check the service "firewalld" manually
[WARNING Service-kubelet]: reading the state of service "kubelet": no supported init system (systemd or OpenRC) was found; check the service "kubelet" manually`},
		"name not resolved": {func(m *machine, _ *node.Node) {
			m.resolves, m.resolveErr = nil, errors.New("no such host")
		},
			`[WARNING Hostname]: node name "cp1" cannot be resolved: no such host; add it to DNS or to /etc/hosts`},
		"name of any machine": {func(_ *machine, n *node.Node) { n.Name = "localhost" },
			`[WARNING Hostname]: node name "localhost" is not unique: a second machine with this name could not join; choose another name with --node-name, or name the machine with hostnamectl`},
		"name without address": {func(m *machine, _ *node.Node) { m.resolves = nil },
			`[WARNING Hostname]: node name "cp1" has no address; add it to DNS or to /etc/hosts`},
	}
}

func kernelCases() map[string]initCase {
	return map[string]initCase{
		"swap on": {func(m *machine, _ *node.Node) {
			m.files["/proc/swaps"] += "/dev/sda2                               partition\t1\t0\t-2\n/swapfile                               file\t1\t0\t-3\n"
		}, `[WARNING Swap]: swap is on (/dev/sda2, /swapfile), but the kubelet does not start with swap unless its configuration allows it; turn it off with "swapoff -a" and in /etc/fstab, or set failSwapOn: false for the kubelet`},
		"no word about swap": {func(m *machine, _ *node.Node) { delete(m.files, "/proc/swaps") },
			""},
		"swap hidden":         {func(m *machine, _ *node.Node) { m.broken["/proc/swaps"] = fs.ErrPermission }, ""},
		"swap not to be read": {func(m *machine, _ *node.Node) { m.broken["/proc/swaps"] = errOops }, `[WARNING Swap]: looking for swap space: oops`},
		"empty word about swap": {func(m *machine, _ *node.Node) { m.files["/proc/swaps"] = "" },
			""},
		"odd kernel": {func(m *machine, _ *node.Node) {
			m.kernelOdd = []error{errors.New("kernel 4.9 is not known")}
		},
			`[WARNING SystemVerification]: kernel 4.9 is not known`},
		"bad kernel": {func(m *machine, _ *node.Node) {
			m.kernelBad = []error{errors.New("no memory cgroup")}
		},
			`[ERROR SystemVerification]: no memory cgroup; boot a kernel and cgroup version that kubelet v1.37.1 supports`},
		"old cgroups": {func(m *machine, _ *node.Node) {
			m.kernelBad = []error{errors.New("cgroups v1 support is over")}
		},
			`[ERROR SystemVerification]: cgroups v1 support is over; boot with cgroups v2 (kernel argument systemd.unified_cgroup_hierarchy=1)`},
		"no forwarding": {func(m *machine, _ *node.Node) { m.files["/proc/sys/net/ipv4/ip_forward"] = "0\n" },
			`[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward is "0" but must be 1 for this machine to forward packets of Pods; run "sysctl -w net.ipv4.ip_forward=1" and write net.ipv4.ip_forward=1 to a file in /etc/sysctl.d`},
		"no forwarding of IPv6": {func(_ *machine, n *node.Node) { n.Cluster.PodSubnet = "fd00:10::/56" },
			`[ERROR FileContent--proc-sys-net-ipv6-conf-default-forwarding]: reading /proc/sys/net/ipv6/conf/default/forwarding: file does not exist; load the kernel module of this setting, if there is one`},
		"forwarding of IPv6 off": {func(m *machine, n *node.Node) {
			n.Cluster.PodSubnet = "fd00:10::/56"
			m.files["/proc/sys/net/ipv6/conf/default/forwarding"] = "0\n"
		},
			`[ERROR FileContent--proc-sys-net-ipv6-conf-default-forwarding]: /proc/sys/net/ipv6/conf/default/forwarding is "0" but must be 1 for this machine to forward packets of Pods; run "sysctl -w net.ipv6.conf.default.forwarding=1 net.ipv6.conf.all.forwarding=1" and write net.ipv6.conf.default.forwarding=1 and net.ipv6.conf.all.forwarding=1 to a file in /etc/sysctl.d; interfaces with accept_ra=1 will then ignore router advertisements, from which they may get their address and default route: set accept_ra=2 on them first`},
	}
}

func fileCases() map[string]initCase {
	return map[string]initCase{
		"a manifest": {func(m *machine, _ *node.Node) { m.files["/etc/kubernetes/manifests/etcd.yaml"] = "" },
			`[ERROR FileAvailable--etc-kubernetes-manifests-etcd.yaml]: /etc/kubernetes/manifests/etcd.yaml already exists; if it is left over from another cluster, clean up with "kubeadm reset"; otherwise move it out of the way`},
		"data of etcd": {func(m *machine, _ *node.Node) { m.files["/var/lib/etcd/member"] = "" },
			`[ERROR DirAvailable--var-lib-etcd]: /var/lib/etcd is not empty; if it is left over from another cluster, clean up with "kubeadm reset"; otherwise move it out of the way`},
		"a mounted file system": {func(m *machine, _ *node.Node) { m.files["/var/lib/etcd/lost+found/"] = "" }, ""},
		"a file of that name": {func(m *machine, _ *node.Node) { m.files["/var/lib/etcd/lost+found"] = "" },
			`[ERROR DirAvailable--var-lib-etcd]: /var/lib/etcd is not empty; if it is left over from another cluster, clean up with "kubeadm reset"; otherwise move it out of the way`},
		"data of etcd among the system's": {func(m *machine, n *node.Node) {
			n.Cluster.Etcd.DataDir, m.files["/var/lib/dpkg"] = "/var/lib", ""
		},
			`[ERROR DirAvailable--var-lib]: /var/lib is not empty and belongs to the operating system; use a separate directory, such as /var/lib/etcd`},
		"a file in place of etcd's directory": {func(m *machine, _ *node.Node) { m.broken["/var/lib/etcd"] = errors.New("not a directory") },
			`[ERROR DirAvailable--var-lib-etcd]: reading directory /var/lib/etcd: not a directory; make it an empty directory, or remove it`},
		"no losetup": {func(m *machine, _ *node.Node) {
			m.programs = []string{"kubelet", "mount", "cp"}
		},
			`[ERROR FileExisting-losetup]: program "losetup" is not in PATH (/usr/sbin:/usr/bin); install its package (find it with apt-file or dnf provides), or correct PATH`},
	}
}

func portCases() map[string]initCase {
	return map[string]initCase{
		"API port taken": {func(m *machine, _ *node.Node) { m.busy[":6443"] = &state.PortError{Owner: "nginx (pid 812)"} },
			`[ERROR Port-6443]: port 6443, which kube-apiserver needs, is in use by nginx (pid 812); stop that program, or choose another --apiserver-bind-port; if it belongs to another cluster, clean up with "kubeadm reset"`},
		"kubelet's port taken by an unknown program": {func(m *machine, _ *node.Node) { m.busy[":10250"] = &state.PortError{} },
			`[ERROR Port-10250]: port 10250, which the kubelet needs, is in use by an unknown program; find it with "ss -ltnp sport = :10250" and stop it; if it belongs to another cluster, clean up with "kubeadm reset"`},
		"address of another machine": {func(m *machine, n *node.Node) {
			n.Address = "10.9.9.9"
			m.busy["10.9.9.9:2379"] = errors.New("cannot assign requested address")
		}, `[ERROR Port-2379]: etcd needs port 2379: cannot assign requested address; set --apiserver-advertise-address to an address of this machine (10.0.0.5, 192.168.7.5)`},
		"ports of one's own": {func(m *machine, n *node.Node) {
			n.BindPort = 8443
			bind := []node.Arg{{Name: "bind-address", Value: "127.0.0.1"},
				{Name: "bind-address", Value: "fd00::5"}}
			n.Cluster.APIServer.Args, n.Cluster.Scheduler.Args = bind, bind
			m.busy["[fd00::5]:8443"], m.busy["[fd00::5]:10259"], m.busy[":10257"] = errOops,
				errOops, errOops
		}, `
[ERROR Port-8443]: kube-apiserver needs port 8443: oops; set the extra argument "bind-address" to an address of this machine (10.0.0.5, 192.168.7.5)
[ERROR Port-10259]: kube-scheduler needs port 10259: oops; set the extra argument "bind-address" to an address of this machine (10.0.0.5, 192.168.7.5)
[ERROR Port-10257]: kube-controller-manager needs port 10257: oops; find out what keeps this program from opening ports`},
		"etcd at the advertised address": {func(m *machine, n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "advertise-address", Value: "10.0.0.6"}}
			m.busy["10.0.0.6:2380"] = &state.PortError{Owner: "etcd (pid 9)"}
		}, `[ERROR Port-2380]: port 2380, which etcd needs, is in use by etcd (pid 9); stop that program; if it belongs to another cluster, clean up with "kubeadm reset"`},
		"API port of another component": {func(_ *machine, n *node.Node) { n.BindPort = 10250 },
			`[ERROR Port-10250]: port 10250 is reserved for the kubelet and cannot be used by kube-apiserver; choose another --apiserver-bind-port`},
	}
}

func runtimeCases() map[string]initCase {
	return map[string]initCase{
		"no runtime": {func(m *machine, _ *node.Node) { m.runtimeErr = errors.New("no such file") },
			`
[ERROR CRI]: no usable container runtime: no such file; start it (for example "systemctl enable --now containerd"), with its CRI plugin enabled, or set --cri-socket to another one
[ERROR ContainerRuntimeVersion]: the container runtime's cgroup driver is unknown because the runtime is not responding; first fix what check CRI reports`},
		"another runtime": {func(m *machine, _ *node.Node) {
			m.runtimeErr, m.sockets = errOops, []string{"unix:///var/run/crio/crio.sock"}
		}, `
[ERROR CRI]: no usable container runtime: oops; start it (for example "systemctl enable --now containerd"), with its CRI plugin enabled, or set --cri-socket to one that is open here: unix:///var/run/crio/crio.sock
[ERROR ContainerRuntimeVersion]: the container runtime's cgroup driver is unknown because the runtime is not responding; first fix what check CRI reports`},
		"runtime not ready": {func(m *machine, _ *node.Node) {
			m.runtime.Ready, m.runtime.Reason = false, "shim missing"
		},
			`[ERROR CRI]: container runtime containerd v2.4.2 at unix:///run/containerd/containerd.sock is not ready: shim missing; check the log of containerd and restart it`},
		"runtime that fails to tell": {func(m *machine, _ *node.Node) {
			m.runtime.ReportsDriver, m.runtime.DriverError = false, "no such cgroup"
		},
			`[ERROR ContainerRuntimeVersion]: containerd v2.4.2 failed to report its cgroup driver: no such cgroup; check the log of containerd, fix its configuration and restart it`},
		"old runtime": {func(m *machine, _ *node.Node) { m.runtime.ReportsDriver = false },
			`[WARNING ContainerRuntimeVersion]: containerd v2.4.2 cannot report its cgroup driver (RuntimeConfig), which kubelets from 1.38 on require; upgrade the container runtime`},
	}
}

const kernelUnknown = `[ERROR SystemVerification]: the kernel cannot be verified because the kubelet's version is unknown; first fix what check KubeletVersion reports
`

func versionCases() map[string]initCase {
	return map[string]initCase{
		"no kubelet": {func(m *machine, _ *node.Node) { m.programs = m.programs[1:] },
			kernelUnknown +
				`[ERROR KubeletVersion]: program "kubelet" is not in PATH (/usr/sbin:/usr/bin); install the kubelet package, or add the kubelet's directory to the PATH of this command`},
		"kubelet of another machine": {func(m *machine, _ *node.Node) {
			m.kubeletErr = errors.New("exec format error")
		}, kernelUnknown +
			`[ERROR KubeletVersion]: reading the version of /usr/bin/kubelet: exec format error; check what "/usr/bin/kubelet --version" prints, and install a kubelet that runs on this machine`},
		"kubelet without version": {func(m *machine, _ *node.Node) { m.kubelet = "dev" },
			kernelUnknown +
				`[ERROR KubeletVersion]: reading the version of /usr/bin/kubelet: could not parse "dev" as version; install a released kubelet`},
		"kubelet too old": {func(m *machine, _ *node.Node) { m.kubelet = "v1.33.9" },
			`[ERROR KubeletVersion]: kubelet v1.33.9 is too old for kubeadm v1.37.1: install v1.34.0 or newer`},
		"kubelet just old enough": {func(m *machine, _ *node.Node) { m.kubelet = "v1.34.0" }, ""},
		"kubelet newer than the cluster": {func(m *machine, n *node.Node) {
			m.kubelet, n.Cluster.Version = "v1.37.0", "v1.36.3"
		},
			`[ERROR KubeletVersion]: kubelet v1.37.0 is newer than the control plane, v1.36.3: install a kubelet of the same or an older minor version`},
		"a flag that kubelets lost": {func(m *machine, n *node.Node) {
			m.kubelet = "v1.35.4"
			n.KubeletArgs = []node.Arg{{Name: "v", Value: "2"},
				{Name: "pod-infra-container-image", Value: "pause"},
				{Name: "containerd", Value: "/x"}}
		}, `[ERROR ComponentArgs]: nodeRegistration.kubeletExtraArgs[1]: kubelet 1.35.4 has no flag --pod-infra-container-image (removed in 1.35); remove it`},
		"cluster newer than the tool": {func(_ *machine, n *node.Node) { n.Cluster.Version = "v1.38.0-alpha.0" },
			`[WARNING KubernetesVersion]: Kubernetes v1.38.0-alpha.0 is newer than kubeadm v1.37.1, which does not support it; use a kubeadm of the cluster's release`},
		"no version": {func(_ *machine, n *node.Node) { n.Cluster.Version = "new" },
			`[ERROR KubernetesVersion]: "new" is not a Kubernetes version: use the form v1.37.1; correct --kubernetes-version (kubernetesVersion)`},
	}
}

func componentCases() map[string]initCase {
	abac := node.Component{Args: []node.Arg{{Name: "authorization-mode", Value: "Node,RBAC,ABAC"},
		{Name: "authorization-policy-file", Value: "/etc/abac/policy.jsonl"}}}
	mounted := func(t corev1.HostPathType) node.Component {
		c := abac
		c.Volumes = []node.Volume{{Name: "abac", HostPath: "/srv/abac/", MountPath: "/etc/abac",
			PathType: t}}
		return c
	}
	return map[string]initCase{
		"a policy that is not mounted": {func(_ *machine, n *node.Node) { n.Cluster.APIServer = abac },
			`[ERROR ComponentFile]: kube-apiserver has --authorization-policy-file=/etc/abac/policy.jsonl, but apiServer.extraVolumes does not mount that path; mount the file, or its directory, there`},
		"a policy that a patch may mount": {func(_ *machine, n *node.Node) {
			n.Cluster.APIServer, n.Patches = abac, "/patches"
		},
			`[WARNING ComponentFile]: kube-apiserver has --authorization-policy-file=/etc/abac/policy.jsonl, but apiServer.extraVolumes does not mount that path; check that a patch mounts it`},
		"a policy that is not there": {func(_ *machine, n *node.Node) { n.Cluster.APIServer = mounted("") },
			`[ERROR ComponentFile]: kube-apiserver needs /srv/abac/policy.jsonl, which does not exist (--authorization-policy-file=/etc/abac/policy.jsonl); create it on every control plane node`},
		"a policy that is there": {func(m *machine, n *node.Node) {
			n.Cluster.APIServer, m.files["/srv/abac/policy.jsonl"] = mounted("DirectoryOrCreate"),
				"{}"
		}, ""},
		"a directory that must exist": {func(m *machine, n *node.Node) {
			n.Cluster.Scheduler.Volumes = mounted("Directory").Volumes
		}, `[ERROR ComponentFile]: kube-scheduler needs /srv/abac/, which does not exist (scheduler.extraVolumes, volume abac of type Directory); create it on every control plane node`},
		"a CA that init creates": {func(_ *machine, n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "kubelet-certificate-authority",
				Value: "/etc/kubernetes/pki/ca.crt"}}
			n.Cluster.Scheduler.Volumes = []node.Volume{{Name: "certs", HostPath: "/etc/kubernetes/pki",
				MountPath: "/certs", PathType: corev1.HostPathDirectory}}
		}, ""},
		"tokens beside the certificates": {func(m *machine, n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "token-auth-file",
				Value: "/etc/kubernetes/pki/tokens.csv"}}
			m.broken["/etc/kubernetes/pki/tokens.csv"] = errOops
		}, `[ERROR ComponentFile]: kube-apiserver needs /etc/kubernetes/pki/tokens.csv (--token-auth-file=/etc/kubernetes/pki/tokens.csv): oops; check that it can be read`},
	}
}

func accountCases() map[string]initCase {
	rootless := func(n *node.Node) { n.Cluster.FeatureGates = map[string]bool{release.RootlessControlPlane: true} }
	const person = "kubeadm-ks:x:1000:1000:Karl:/home/karl:/bin/bash\n"
	return map[string]initCase{
		"users to be made": {func(_ *machine, n *node.Node) { rootless(n) }, ""},
		"a person of a user's name": {func(m *machine, n *node.Node) { rootless(n); m.files["/etc/passwd"] = person },
			`[ERROR RootlessAccounts]: user kubeadm-ks exists, but cannot be used: its UID 1000 is not that of a system user, 100 to 999; rename or remove it to have it created: userdel kubeadm-ks`},
		"a person where root runs all": {func(m *machine, _ *node.Node) { m.files["/etc/passwd"] = person }, ""},
	}
}

func proxyCases() map[string]initCase {
	return map[string]initCase{
		"proxy for the API server": {func(m *machine, _ *node.Node) { m.proxies["10.0.0.5"] = "http://proxy:3128" },
			`[WARNING HTTPProxy]: connections to 10.0.0.5 would go through the proxy http://proxy:3128, which rarely works inside a cluster; add 10.0.0.5 to NO_PROXY`},
		"proxy for Services and Pods": {func(m *machine, n *node.Node) {
			n.Cluster.PodSubnet = "fd00:10::5/56"
			m.files["/proc/sys/net/ipv6/conf/default/forwarding"] = "1"
			m.proxies["10.96.0.1"], m.proxies["[fd00:10::1]"] = "http://proxy:3128", "http://proxy:3128"
		}, `
[WARNING HTTPProxyCIDR]: connections to 10.96.0.0/12 would go through the proxy http://proxy:3128, which rarely works inside a cluster; add 10.96.0.0/12 to NO_PROXY
[WARNING HTTPProxyCIDR]: connections to fd00:10::5/56 would go through the proxy http://proxy:3128, which rarely works inside a cluster; add fd00:10::5/56 to NO_PROXY`},
		"a proxy without sense": {func(m *machine, _ *node.Node) { m.proxyErr = errOops }, `
[ERROR HTTPProxy]: finding the proxy for 10.0.0.5: oops; fix HTTPS_PROXY and NO_PROXY
[ERROR HTTPProxyCIDR]: finding the proxy for 10.96.0.0/12: oops; fix HTTPS_PROXY and NO_PROXY`},
		"subnets without sense": {func(_ *machine, n *node.Node) { n.Cluster.ServiceSubnet = "10.96.0.0/12,10.1.1.1/32,ten" }, `
[ERROR HTTPProxyCIDR]: subnet "10.1.1.1/32" is too small to contain an address; write it like 10.96.0.0/12
[ERROR HTTPProxyCIDR]: "ten" is not a subnet; write it like 10.96.0.0/12`},
	}
}

func TestKubeletNewerThanClusterIsWarnedAbout(t *testing.T) {
	for version, want := range map[string]string{
		"v1.37.9": "", "v1.38.0": "",
		"v1.36.3": "[WARNING KubeletVersion]: kubelet v1.37.1 is newer than the cluster's control plane, v1.36.3, which Kubernetes does not support; install a kubelet of the same or an older minor version",
	} {
		n := controlPlane()
		n.Cluster.Version = version
		if got := lines(Run(t.Context(), fit(), AfterDiscovery(n, KubeletVersion()), nil).Findings); got != want {
			t.Errorf("%s: found %q, want %q", version, got, want)
		}
	}
}

func TestJoinChecks(t *testing.T) {
	m, l := fit(), worker()
	l.Name = "Not_a name"
	m.kubelet = "v1.38.0"
	found := Run(t.Context(), m, Join(l, tool(t), KubeletVersion()), nil)
	if got := lines(found.Findings); !strings.HasPrefix(got, `[WARNING Hostname]: node name "Not_a name": `) || len(found.Findings) != 1 {
		t.Errorf("found:\n%s", got)
	}
}
