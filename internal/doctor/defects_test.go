package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// plantedDefect is a defect, and what the doctor must say of it.
type plantedDefect struct {
	plant func(t *testing.T, s *testNode)
	check string // that finds it
	says  string // is in its text or evidence
	warns bool   // it is a warning only
	fixed bool   // the fix works
	also  bool   // others follow from it
}

func hostDefects() map[string]plantedDefect {
	const bridge = `{"plugins": [{"type": "bridge"}]}`
	return map[string]plantedDefect{
		"no forwarding": {plant: writeFile("/proc/sys/net/ipv4/ip_forward", "0\n"),
			check: "FileContent--proc-sys-net-ipv4-ip_forward", says: `is "0" but must be 1`, fixed: true},
		"swap": {plant: writeFile("/proc/swaps", "Filename Type Size Used Priority\n/swap file 1 0 -2\n"),
			check: "Swap", says: "swap is on (/swap)", warns: true},
		"bridge without netfilter": {plant: writeFile("/etc/cni/net.d/10-pods.conflist", bridge),
			check: "BridgeNetfilter", says: "module br_netfilter is not loaded", fixed: true},
		"bridge with netfilter off": {plant: func(t *testing.T, s *testNode) {
			writeFile("/etc/cni/net.d/10-pods.conflist", bridge)(t, s)
			writeFile("/proc/sys/net/bridge/bridge-nf-call-iptables", "0\n")(t, s)
		}, check: "BridgeNetfilter", says: `is "0"`, fixed: true},
		"slow disk": {plant: func(_ *testing.T, s *testNode) { s.world.SyncTime = 30 * time.Millisecond },
			check: "DiskLatency", says: "a write takes 30ms", warns: true},
		"cgroup drivers differ": {plant: func(_ *testing.T, s *testNode) { s.world.CRI.CgroupDriver = "cgroupfs" },
			check: "CgroupDriver", says: "uses cgroupfs, which containerd reports", warns: true},
		"sandbox image": {plant: func(_ *testing.T, s *testNode) { s.world.CRI.SandboxImage = "pause:1" },
			check: "SandboxImage", says: "pause:1", warns: true},
		"sandbox image in the configuration": {plant: func(t *testing.T, s *testNode) {
			s.world.CRI.SandboxImage = ""
			writeFile("/etc/containerd/config.toml", "    sandbox = 'pause:1'\n")(t, s)
		}, check: "SandboxImage", says: "config.toml: sandbox = 'pause:1'", warns: true},
		"large MTU": {plant: func(_ *testing.T, s *testNode) { s.world.LinkList[1].MTU = 9000 }, check: "MTU",
			says: "MTU of eth0: 1500; of interfaces of Pods: veth1: 9000", warns: true},
		"large MTU of a tunnel": {plant: func(_ *testing.T, s *testNode) {
			s.world.LinkList = append(s.world.LinkList, state.Link{Name: "vxlan.calico", MTU: 1500})
		}, check: "MTU", says: "vxlan.calico: 1500", warns: true},
		"clock ahead": {plant: func(_ *testing.T, s *testNode) { s.world.ServerAhead = time.Hour },
			check: "Clock", says: "differ by 1h0m0s"},
		"clock a little behind": {plant: func(_ *testing.T, s *testNode) { s.world.ServerAhead = -time.Minute },
			check: "Clock", says: "differ by 1m0s", warns: true},
		"unknown name": {plant: func(_ *testing.T, s *testNode) { delete(s.world.Names, "cp1") },
			check: "Hostname", says: `"cp1" cannot be resolved`, warns: true},
		"module": {plant: func(t *testing.T, s *testNode) {
			s.world.CRI.Ready = false
			writeFile("/proc/filesystems", "")(t, s)
		}, check: "KernelModules", says: "module overlay is not loaded", warns: true, fixed: true, also: true},
		"firewalld": {plant: func(_ *testing.T, s *testNode) {
			s.world.Services["firewalld"] = state.Service{Exists: true, Active: true}
		}, check: "Firewalld", says: "firewalld is active", warns: true},
		"kubelet too old": {plant: func(_ *testing.T, s *testNode) { s.world.Kubelet = "v1.30.0" },
			check: "KubeletVersion", says: "too old"},
		"kubelet not enabled": {plant: func(_ *testing.T, s *testNode) {
			k := s.world.Services["kubelet"]
			k.Enabled = false
			s.world.Services["kubelet"] = k
		}, check: "Service-kubelet", says: "will not start when this machine boots", warns: true, fixed: true},
		"runtime stopped": {plant: func(_ *testing.T, s *testNode) {
			s.world.Services["containerd"] = state.Service{Exists: true}
			s.world.Sockets = nil
		}, check: "CRI", says: "service containerd is not active"},
		"CRI plugin disabled": {plant: func(t *testing.T, s *testNode) {
			s.world.Sockets = nil
			writeFile("/etc/containerd/config.toml", "version = 3\ndisabled_plugins = [\"cri\"]\n")(t, s)
		}, check: "CRI", says: `disabled_plugins = ["cri"]`},
		"runtime not known": {plant: func(t *testing.T, s *testNode) {
			writeFile("/var/lib/kubelet/instance-config.yaml", "containerRuntimeEndpoint: [\n")(t, s)
		}, check: "CRI", says: "/var/lib/kubelet/instance-config.yaml", also: true},
		"proxy in a manifest": {plant: edit("/etc/kubernetes/manifests/kube-scheduler.yaml", "    image:",
			"    env: [{name: HTTPS_PROXY, value: \"http://me:pw@proxy:3128\"}, {name: NO_PROXY, value: example}]\n    image:"),
			check: "ManifestProxy", says: "a proxy is used for 192.0.2.10"},
	}
}

func nodeDefects() map[string]plantedDefect {
	return map[string]plantedDefect{
		"kubelet stopped": {plant: func(_ *testing.T, s *testNode) {
			s.world.Services["kubelet"] = state.Service{Exists: true, Enabled: true}
			s.world.ServiceLogs = map[string]string{"kubelet": "stopped by hand\n"}
		}, check: "Kubelet", says: "stopped by hand", fixed: true, also: true},
		"kubelet configuration": {plant: writeFile("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nmaxPodz: 3\n"),
			check: "KubeletConfig", says: "maxPodz", warns: true, also: true},
		"kubelet configuration damaged": {plant: writeFile("/var/lib/kubelet/config.yaml", "maxPods: [\n"),
			check: "KubeletConfig", says: "/var/lib/kubelet/config.yaml: ", also: true},
		"kubelet configuration lost": {plant: remove("/var/lib/kubelet/config.yaml"), check: "KubeletConfig",
			says: "does not exist", also: true},
		"kubelet configuration changed": {plant: edit("/var/lib/kubelet/config.yaml", "kind:", "maxPods: 42\nkind:"),
			check: "KubeletConfigDrift", says: "maxPods", warns: true},
		"kubelet certificate lost": {plant: remove("/var/lib/kubelet/pki/kubelet-client-current.pem"),
			check: "KubeletCertificate", says: "does not exist"},
		"no Pod network": {plant: remove("/etc/cni/net.d/10-pods.conflist"), check: "PodNetwork",
			says: "no configuration file in /etc/cni/net.d", warns: true},
		"crashing scheduler": {plant: func(_ *testing.T, s *testNode) {
			s.world.CrashLog = func(component string, _ []byte) string {
				if component == "kube-scheduler" {
					return "Error: unknown flag: --bad\n"
				}
				return ""
			}
		}, check: "StaticPods", says: "unknown flag: --bad"},
		"manifest lost": {plant: remove("/etc/kubernetes/manifests/kube-scheduler.yaml"),
			check: "StaticPodManifest", says: "kube-scheduler.yaml"},
		"manifest damaged": {plant: writeFile("/etc/kubernetes/manifests/kube-scheduler.yaml", "kind: [\n"),
			check: "StaticPods", says: "kube-scheduler.yaml is not a Pod", also: true},
		"manifest changed": {plant: edit("/etc/kubernetes/manifests/kube-scheduler.yaml", "    - --leader-elect=true",
			"    - --leader-elect=true\n    - --v=5"), check: "ManifestDrift", says: "--v=5", warns: true},
		"certificate lost": {plant: remove("/etc/kubernetes/pki/front-proxy-client.crt"), check: "Certificates",
			says: "front-proxy-client.crt does not exist", also: true},
		"key of another certificate": {plant: func(_ *testing.T, s *testNode) {
			s.world.Files["/etc/kubernetes/pki/front-proxy-client.key"] = s.world.Files["/etc/kubernetes/pki/apiserver.key"]
		}, check: "Certificates", says: "does not match"},
		"certificate of another CA": {plant: func(_ *testing.T, s *testNode) {
			for _, end := range []string{".crt", ".key"} {
				s.world.Files["/etc/kubernetes/pki/front-proxy-client"+end] =
					s.world.Files["/etc/kubernetes/pki/apiserver-kubelet-client"+end]
			}
		}, check: "Certificates", says: "does not verify against CA"},
		"all certificates expire soon": {plant: func(t *testing.T, s *testNode) {
			s.world.Clock = memory.NewTickingClock(s.world.Now().Add(350 * 24 * time.Hour))
		}, check: "Certificates", says: "apiserver.crt expires on", warns: true, also: true},
		"all certificates have expired": {plant: func(t *testing.T, s *testNode) {
			s.world.Clock = memory.NewTickingClock(s.world.Now().Add(400 * 24 * time.Hour))
		}, check: "Certificates", says: "has expired", also: true},
		"old certificate in use": {plant: func(t *testing.T, s *testNode) {
			f := s.world.Files["/etc/kubernetes/scheduler.conf"]
			f.ModTime = s.world.Now().Add(time.Hour)
			s.world.Files["/etc/kubernetes/scheduler.conf"] = f
		}, check: "ServedCertificates", says: "kube-scheduler does not use the certificate", warns: true},
		"service account keys": {plant: func(_ *testing.T, s *testNode) {
			s.world.Files["/etc/kubernetes/pki/sa.key"] = s.world.Files["/etc/kubernetes/pki/apiserver.key"]
		}, check: "ServiceAccountKeys", says: "does not contain the public key"},
		"kubeconfig with another address": {plant: edit("/etc/kubernetes/scheduler.conf", "https://192.0.2.10:6443",
			"https://192.0.2.99:6443"), check: "Kubeconfigs", says: "https://192.0.2.99:6443"},
		"kubeconfig lost": {plant: remove("/etc/kubernetes/controller-manager.conf"), check: "Kubeconfigs",
			says: "controller-manager.conf does not exist", also: true},
		"readable key": {plant: func(_ *testing.T, s *testNode) {
			f := s.world.Files["/etc/kubernetes/pki/ca.key"]
			f.Mode = 0o644
			s.world.Files["/etc/kubernetes/pki/ca.key"] = f
		}, check: "FilePermissions", says: "ca.key can be read"},
	}
}

func clusterDefects() map[string]plantedDefect {
	newNode := func(name, status string) string {
		return `{apiVersion: v1, kind: Node, metadata: {name: ` + name + `}, status: ` + status + `}`
	}
	return map[string]plantedDefect{
		"node not ready": {plant: add(newNode("ghost", `{conditions: [{type: Ready, status: Unknown,
  reason: NodeStatusUnknown, message: Kubelet stopped posting node status.}]}`)), check: "Nodes",
			says: "NodeStatusUnknown: Kubelet stopped posting"},
		"node without Pod network": {plant: add(newNode("ghost", `{conditions: [{type: Ready, status: "False",
  message: "container runtime network not ready: cni plugin not initialized"}]}`)), check: "Nodes",
			says: "node ghost has no Pod network"},
		"kubelet too new": {plant: add(newNode("ghost", `{nodeInfo: {kubeletVersion: v1.39.0},
  conditions: [{type: Ready, status: "True"}]}`)), check: "Versions", says: "kubelet v1.39.0, API server v1.37.1"},
		"port of a peer": {plant: add(newNode("ghost", `{conditions: [{type: Ready, status: "True"}],
  addresses: [{type: InternalIP, address: 192.0.2.77}]}`)), check: "PeerPorts",
			says: "192.0.2.77:10250 cannot be reached"},
		"member without a node": {plant: func(_ *testing.T, s *testNode) {
			s.world.MemberList = append(s.world.MemberList, state.Member{ID: 9, Name: "lost",
				PeerURLs: []string{"https://192.0.2.10:2380"}, ClientURLs: []string{"https://192.0.2.10:2379"}})
		}, check: "EtcdMembers", says: "no Node with the name of etcd member lost", warns: true},
		"address on no interface": {plant: func(_ *testing.T, s *testNode) {
			s.world.Interfaces = []state.Address{{IP: "192.0.2.44", Bits: 24, Interface: "eth0", DefaultRoute: true}}
		}, check: "AdvertiseAddress", says: "192.0.2.10, is on no interface", also: true},
		"kubelet with an address on no interface": {plant: func(_ *testing.T, s *testNode) {
			const file = "/var/lib/kubelet/kubeadm-flags.env"
			s.world.Files[file] = memory.File{Data: []byte(`KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.44 --v=2"`), Mode: 0o644}
		}, check: "NodeAddress", says: "its address is 192.0.2.44, which is on no interface"},
		"host renamed": {plant: func(_ *testing.T, s *testNode) { s.world.Info.Hostname = "Renamed" },
			check: "NodeName", says: "the kubelet of Node cp1 gives itself another name, renamed"},
		"kubelet with another name": {plant: func(_ *testing.T, s *testNode) {
			const file = "/etc/default/kubelet"
			s.world.Files[file] = memory.File{Data: []byte("KUBELET_EXTRA_ARGS=--hostname-override=other"), Mode: 0o644}
		}, check: "NodeName", says: "/etc/default/kubelet sets --hostname-override"},
		"peer URL of another address": {plant: func(_ *testing.T, s *testNode) {
			s.world.MemberList[0].PeerURLs = []string{"https://192.0.2.44:2380"}
		}, check: "EtcdMembers", says: "know the member of this node, cp1, at another address", also: true},
		"no quorum": {plant: func(_ *testing.T, s *testNode) {
			s.world.MemberList = append(s.world.MemberList, state.Member{ID: 9, Name: "cp1",
				PeerURLs: []string{"https://192.0.2.98:2380"}, ClientURLs: []string{"https://192.0.2.98:2379"}})
			s.world.UnreachableMembers = []uint64{9}
		}, check: "EtcdMembers", says: "etcd has no quorum", also: true},
		"member of another cluster": {plant: func(_ *testing.T, s *testNode) {
			s.world.MemberList[0].ClusterID = 7
			s.world.MemberStatuses = map[uint64]state.MemberStatus{s.world.MemberList[0].ID: {ClusterID: 8}}
		}, check: "EtcdMembers", says: "etcd member cp1 is not healthy: its data are those of another etcd cluster", also: true},
		"members that contradict each other": {plant: func(t *testing.T, s *testNode) {
			s.world.MemberList = append(s.world.MemberList, state.Member{ID: 10, Name: "ghost",
				PeerURLs: []string{"https://192.0.2.11:2380"}, ClientURLs: []string{"https://192.0.2.11:2379"}})
			add(newNode("ghost", `{conditions: [{type: Ready, status: "True"}]}`))(t, s)
			s.world.OwnLists = map[uint64][]state.Member{10: s.world.MemberList[:1]}
		}, check: "EtcdMembers", says: "knows other members than the others do"},
		"etcd alarm": {plant: func(_ *testing.T, s *testNode) {
			s.world.MemberProblems = []string{"memberID:1 alarm:NOSPACE "}
		}, check: "EtcdMembers", says: "etcd member cp1 has raised the alarm NOSPACE: its database is full"},
		"alarm of one of two members": {plant: func(t *testing.T, s *testNode) {
			s.world.MemberList = append(s.world.MemberList, state.Member{ID: 10, Name: "ghost",
				PeerURLs: []string{"https://192.0.2.10:2380"}, ClientURLs: []string{"https://192.0.2.10:2379"}})
			add(newNode("ghost", `{conditions: [{type: Ready, status: "True"}]}`))(t, s)
			s.world.MemberProblems = []string{"memberID:10 alarm:CORRUPT "}
		}, check: "EtcdMembers", says: "etcd member ghost has raised the alarm CORRUPT"},
		"member without a leader": {plant: func(_ *testing.T, s *testNode) {
			s.world.MemberProblems = []string{"etcdserver: no leader", "memberID:1 alarm:NOSPACE "}
		}, check: "EtcdMembers", says: "etcd has no quorum", also: true},
		"no leader": {plant: add(`{apiVersion: coordination.k8s.io/v1, kind: Lease,
  metadata: {name: kube-scheduler, namespace: kube-system}, spec: {}}`), check: "Leaders",
			says: "kube-scheduler has no leader"},
		"no CoreDNS": {plant: deleted("Deployment", "coredns"), check: "CoreDNS", says: "CoreDNS is not deployed"},
		"CoreDNS not available": {plant: func(t *testing.T, s *testNode) {
			s.editObject(t, "Deployment", "coredns", func(o map[string]any) { delete(o, "status") })
		}, check: "CoreDNS", says: "no replica of CoreDNS is available"},
		"no Service of CoreDNS": {plant: deleted("Service", "kube-dns"), check: "CoreDNS",
			says: "no Service kube-system/kube-dns"},
		"no kube-proxy": {plant: deleted("DaemonSet", "kube-proxy"), check: "KubeProxy",
			says: "kube-proxy is not deployed", warns: true},
		"kube-proxy does not run": {plant: func(t *testing.T, s *testNode) {
			s.editObject(t, "DaemonSet", "kube-proxy", func(o map[string]any) {
				o["status"] = map[string]any{"desiredNumberScheduled": int64(1)}
			})
		}, check: "KubeProxy", says: "kube-proxy runs on 0 of 1 nodes"},
		"cluster-info unsigned": {plant: func(_ *testing.T, s *testNode) {
			maps.DeleteFunc(s.world.Discovery, func(key, _ string) bool { return strings.HasPrefix(key, "jws-") })
		}, check: "ClusterInfo", says: "is not signed with token"},
		"token without end": {plant: func(t *testing.T, s *testNode) {
			add(`{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token,
  metadata: {name: bootstrap-token-eeeeee, namespace: kube-system},
  data: {token-id: ZWVlZWVl, token-secret: ZWVlZWVlZWVlZWVlZWVlZQ==}}`)(t, s)
		}, check: "BootstrapTokens", says: "eeeeee never expires", warns: true},
		"no binding of administrators": {plant: func(t *testing.T, s *testNode) {
			s.editObject(t, "ClusterRoleBinding", "kubeadm:kubelet-bootstrap", func(o map[string]any) {
				o["subjects"] = []any{}
			})
		}, check: "ClusterAccess", says: "ClusterRoleBinding kubeadm:kubelet-bootstrap"},
		"no automatic approval": {plant: deleted("ClusterRoleBinding", "kubeadm:node-autoapprove-bootstrap"),
			check: "ClusterAccess", says: "kubeadm:node-autoapprove-bootstrap", warns: true},
		"no access to cluster-info": {plant: deleted("RoleBinding", "kubeadm:bootstrap-signer-clusterinfo"),
			check: "ClusterAccess", says: "RoleBinding kube-public/kubeadm:bootstrap-signer-clusterinfo", warns: true},
		"waiting request": {plant: add(`{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest,
  metadata: {name: csr-1, creationTimestamp: "2026-01-01T00:00:00Z"},
  spec: {signerName: kubernetes.io/kubelet-serving, username: "system:node:cp1"}}`),
			check: "CertificateRequests", says: "csr-1 is waiting for approval", warns: true},
		"no configuration": {plant: deleted("ConfigMap", "kubeadm-config"), check: "ClusterConfig",
			says: "there is no ConfigMap kube-system/kubeadm-config", also: true},
	}
}

func TestPlantedDefectsAreFound(t *testing.T) {
	all := map[string]plantedDefect{}
	for _, list := range []map[string]plantedDefect{hostDefects(), nodeDefects(), clusterDefects()} {
		maps.Copy(all, list)
	}
	for name, c := range all {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newHealthyNode(t)
			c.plant(t, s)
			d := s.diagnose(t)
			i := slices.IndexFunc(d.Findings, func(f Finding) bool {
				return f.Check == c.check && strings.Contains(f.Text+"\n"+f.Evidence, c.says)
			})
			if i < 0 {
				t.Fatalf("%s says nothing of %q:\n%s\nnot checked: %v", c.check, c.says, describeFindings(d), d.NotChecked)
			}
			f := d.Findings[i]
			if (f.Severity == Warning) != c.warns || !c.also && d.HasErrors() == c.warns {
				t.Errorf("got %+v", f)
			}
			if !c.also && len(d.Findings) > 1 {
				t.Errorf("there are more findings:\n%s", describeFindings(d))
			}
			if f.Why == "" {
				t.Errorf("it lacks a reason: %+v", f)
			}
			checkCommands(t, d)
			if strings.Contains(fmt.Sprint(d), "me:pw@") {
				t.Error("it shows a password")
			}
			if c.fixed {
				if !f.Fixable {
					t.Fatalf("it cannot be fixed: %+v", f)
				}
				if d := s.fix(t, d); strings.Contains(describeFindings(d), c.says) {
					t.Errorf("it is not fixed:\n%s", describeFindings(d))
				}
			}
		})
	}
}

// checkCommands checks that no finding suggests a phase of init that would write the defaults over
// what the cluster is configured for. Only cluster-info needs no configuration.
func checkCommands(t *testing.T, d Diagnosis) {
	t.Helper()
	for _, f := range d.Findings {
		for _, text := range []string{f.Command, f.Remedy} {
			for _, after := range strings.Split(text, "kubeadm init phase ")[1:] {
				if !strings.Contains(after, "--config") && !strings.HasPrefix(after, "bootstrap-token") {
					t.Errorf("check %s suggests: %s", f.Check, text)
				}
			}
		}
	}
}
