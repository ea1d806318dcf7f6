package cli

import (
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/doctor"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// newHealthyNode is a control plane node after init, with what kubelet and controllers report.
func newHealthyNode(t *testing.T) *testMachine {
	t.Helper()
	return newHealthyNodeOf(t, quick)
}

// newHealthyNodeOf is such a node, created by that configuration.
func newHealthyNodeOf(t *testing.T, config []byte) *testMachine {
	t.Helper()
	s := newTestMachine(t)
	s.initClusterOf(t, config)
	s.issueKubelet(t)
	w := s.world
	w.Files["/etc/cni/net.d/10-pods.conflist"] = memory.File{Mode: 0o644,
		Data: []byte(`{"plugins": [{"type": "ptp"}]}`)}
	w.Files["/etc/cni/net.d"] = memory.File{Mode: fs.ModeDir | 0o755}
	w.CRI.SandboxImage = "registry.k8s.io/pause:3.10.2"
	w.Files["/proc/filesystems"] = memory.File{Data: []byte("nodev\toverlay\n"), Mode: 0o444}
	w.MemberList = []state.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.10:2380"},
		ClientURLs: []string{"https://192.0.2.10:2379"}}}
	w.LinkList = []state.Link{{Name: "eth0", MTU: 1500}, {Name: "veth1", MTU: 1500}}
	var documents []string
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		documents = append(documents, `{apiVersion: v1, kind: Pod, metadata: {name: `+component+`-cp1,
  namespace: kube-system, labels: {component: `+component+`, tier: control-plane}},
  spec: {nodeName: cp1, containers: [{name: c, image: "registry.k8s.io/`+component+`:v1.37.1"}]}}`,
			`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: `+component+`, namespace: kube-system},
  spec: {holderIdentity: cp1_1, renewTime: "`+w.Now().UTC().Format("2006-01-02T15:04:05.000000Z")+`"}}`)
	}
	if err := w.AddObjects(strings.Join(documents, "\n---\n")); err != nil {
		t.Fatal(err)
	}
	s.editObject(t, "Node", "cp1", func(o map[string]any) {
		o["status"] = map[string]any{
			"nodeInfo":   map[string]any{"kubeletVersion": "v1.37.1"},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			"addresses":  []any{map[string]any{"type": "InternalIP", "address": "192.0.2.10"}},
		}
	})
	s.editObject(t, "Deployment", "coredns", func(o map[string]any) {
		o["status"] = map[string]any{"availableReplicas": int64(2)}
	})
	s.publishClusterInfo(t)
	return s
}

// issueKubelet gives the kubelet a client certificate by the CA of the cluster.
func (s *testMachine) issueKubelet(t *testing.T) {
	t.Helper()
	ca, err := pki.StoredPair{Certificate: s.world.Files["/etc/kubernetes/pki/ca.crt"].Data,
		Key: s.world.Files["/etc/kubernetes/pki/ca.key"].Data}.ParseCA()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(rand.Reader, pki.ClientSpec("system:node:cp1", []string{"system:nodes"},
		pki.NewValidity(s.world.Now(), 365*24*time.Hour)), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s.world.Files["/var/lib/kubelet/pki/kubelet-client-current.pem"] = memory.File{Mode: 0o600,
		Data: slices.Concat(pki.EncodeCertificates(cert), text)}
}

// editObject changes the fields of the object of a kind and name, which must exist.
func (s *testMachine) editObject(t *testing.T, kind, name string, edit func(map[string]any)) {
	t.Helper()
	for key, o := range s.world.Objects {
		if key.Kind.Kind == kind && key.Name == name {
			edit(o.Object)
			return
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
}

func (s *testMachine) deleteObject(t *testing.T, kind, name string) {
	t.Helper()
	before := len(s.world.Objects)
	for key := range s.world.Objects {
		if key.Kind.Kind == kind && key.Name == name {
			delete(s.world.Objects, key)
		}
	}
	if len(s.world.Objects) == before {
		t.Fatalf("there is no %s %s", kind, name)
	}
}

// publishClusterInfo makes the simulated API server show the cluster-info that init has created.
func (s *testMachine) publishClusterInfo(t *testing.T) {
	t.Helper()
	s.editObject(t, "ConfigMap", "cluster-info", func(o map[string]any) {
		s.world.Discovery = map[string]string{}
		for key, value := range o["data"].(map[string]any) {
			s.world.Discovery[key] = value.(string)
		}
	})
}

// diagnose runs the doctor and returns its result and exit code.
func (s *testMachine) diagnose(t *testing.T, args ...string) (d doctor.Diagnosis, code int) {
	t.Helper()
	err := s.run(t.Context(), append([]string{"doctor", "-o", "json"}, args...)...)
	if err != nil {
		code = problem.ExitCode(err)
	}
	if err := json.Unmarshal(s.out.Bytes(), &d); err != nil {
		t.Fatalf("%v, in\n%s%s", err, &s.out, &s.err)
	}
	return d, code
}

func describeFindings(d doctor.Diagnosis) string {
	var lines []string
	for _, f := range d.Findings {
		lines = append(lines, string(f.Severity)+" "+f.Check+": "+f.Text+"\n"+f.Evidence)
	}
	return strings.Join(lines, "\n")
}

func TestDoctorFindsNothingOnHealthyNode(t *testing.T) {
	s := newHealthyNode(t)
	before := s.world.Snapshot()
	d, code := s.diagnose(t)
	if len(d.Findings) > 0 || code != 0 {
		t.Errorf("exit code %d:\n%s", code, describeFindings(d))
	}
	for _, n := range d.NotChecked {
		t.Errorf("not checked: %s: %s", n.Check, n.Reason)
	}
	if s.world.Snapshot() != before {
		t.Error("it has changed the machine or the cluster")
	}
	if d.Machine.Role != "control-plane" || d.Kind != "Diagnosis" || len(d.Passed[doctor.Cluster]) < 10 {
		t.Errorf("got %+v", d)
	}
	if err := s.run(t.Context(), "doctor"); err != nil || !strings.Contains(s.out.String(), "nothing is wrong") {
		t.Errorf("%v:\n%s", err, &s.out)
	}
}

func TestDoctorFindsNothingOnNewMachine(t *testing.T) {
	s := newTestMachine(t)
	d, code := s.diagnose(t)
	if len(d.Findings) > 0 || code != 0 {
		t.Errorf("exit code %d:\n%s", code, describeFindings(d))
	}
	if d.Machine.Role != "none" {
		t.Errorf("got %+v", d.Machine)
	}
}

// plantedDefect is a defect, and what the doctor must say of it.
type plantedDefect struct {
	plant func(t *testing.T, s *testMachine)
	check string // that finds it
	says  string // is in its text or evidence
	warns bool   // it is a warning only
	fixed bool   // --fix fixes it
	also  bool   // others follow from it
}

func writeFile(name, text string) func(*testing.T, *testMachine) {
	return func(_ *testing.T, s *testMachine) {
		s.world.Files[name] = memory.File{Data: []byte(text), Mode: 0o600, ModTime: s.world.Now()}
	}
}

func edit(name, old, new string) func(*testing.T, *testMachine) {
	return func(t *testing.T, s *testMachine) {
		t.Helper()
		f := s.world.Files[name]
		if !strings.Contains(string(f.Data), old) {
			t.Fatalf("%s has no %q:\n%s", name, old, f.Data)
		}
		f.Data = []byte(strings.Replace(string(f.Data), old, new, 1))
		s.world.Files[name] = f
	}
}

func remove(name string) func(*testing.T, *testMachine) {
	return func(_ *testing.T, s *testMachine) { delete(s.world.Files, name) }
}

func add(documents string) func(*testing.T, *testMachine) {
	return func(t *testing.T, s *testMachine) {
		t.Helper()
		if err := s.world.AddObjects(documents); err != nil {
			t.Fatal(err)
		}
	}
}

func deleted(kind, name string) func(*testing.T, *testMachine) {
	return func(t *testing.T, s *testMachine) { t.Helper(); s.deleteObject(t, kind, name) }
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
		"bridge with netfilter off": {plant: func(t *testing.T, s *testMachine) {
			writeFile("/etc/cni/net.d/10-pods.conflist", bridge)(t, s)
			writeFile("/proc/sys/net/bridge/bridge-nf-call-iptables", "0\n")(t, s)
		}, check: "BridgeNetfilter", says: `is "0"`, fixed: true},
		"slow disk": {plant: func(_ *testing.T, s *testMachine) { s.world.SyncTime = 30 * time.Millisecond },
			check: "DiskLatency", says: "a write takes 30ms", warns: true},
		"cgroup drivers differ": {plant: func(_ *testing.T, s *testMachine) { s.world.CRI.CgroupDriver = "cgroupfs" },
			check: "CgroupDriver", says: "uses cgroupfs, which containerd reports", warns: true},
		"sandbox image": {plant: func(_ *testing.T, s *testMachine) { s.world.CRI.SandboxImage = "pause:1" },
			check: "SandboxImage", says: "pause:1", warns: true},
		"sandbox image in the configuration": {plant: func(t *testing.T, s *testMachine) {
			s.world.CRI.SandboxImage = ""
			writeFile("/etc/containerd/config.toml", "    sandbox = 'pause:1'\n")(t, s)
		}, check: "SandboxImage", says: "config.toml: sandbox = 'pause:1'", warns: true},
		"large MTU": {plant: func(_ *testing.T, s *testMachine) { s.world.LinkList[1].MTU = 9000 }, check: "MTU",
			says: "MTU of eth0: 1500; of interfaces of Pods: veth1: 9000", warns: true},
		"large MTU of a tunnel": {plant: func(_ *testing.T, s *testMachine) {
			s.world.LinkList = append(s.world.LinkList, state.Link{Name: "vxlan.calico", MTU: 1500})
		}, check: "MTU", says: "vxlan.calico: 1500", warns: true},
		"clock ahead": {plant: func(_ *testing.T, s *testMachine) { s.world.ServerAhead = time.Hour },
			check: "Clock", says: "differ by 1h0m0s"},
		"clock a little behind": {plant: func(_ *testing.T, s *testMachine) { s.world.ServerAhead = -time.Minute },
			check: "Clock", says: "differ by 1m0s", warns: true},
		"unknown name": {plant: func(_ *testing.T, s *testMachine) { delete(s.world.Names, "cp1") },
			check: "Hostname", says: `"cp1" cannot be resolved`, warns: true},
		"module": {plant: func(t *testing.T, s *testMachine) {
			s.world.CRI.Ready = false
			writeFile("/proc/filesystems", "")(t, s)
		}, check: "KernelModules", says: "module overlay is not loaded", warns: true, fixed: true, also: true},
		"firewalld": {plant: func(_ *testing.T, s *testMachine) {
			s.world.Services["firewalld"] = state.Service{Exists: true, Active: true}
		}, check: "Firewalld", says: "firewalld is active", warns: true},
		"kubelet too old": {plant: func(_ *testing.T, s *testMachine) { s.world.Kubelet = "v1.30.0" },
			check: "KubeletVersion", says: "too old"},
		"kubelet not enabled": {plant: func(_ *testing.T, s *testMachine) {
			k := s.world.Services["kubelet"]
			k.Enabled = false
			s.world.Services["kubelet"] = k
		}, check: "Service-kubelet", says: "will not start when this machine boots", warns: true, fixed: true},
		"runtime stopped": {plant: func(_ *testing.T, s *testMachine) {
			s.world.Services["containerd"] = state.Service{Exists: true}
			s.world.Sockets = nil
		}, check: "CRI", says: "service containerd is not active"},
		"CRI plugin disabled": {plant: func(t *testing.T, s *testMachine) {
			s.world.Sockets = nil
			writeFile("/etc/containerd/config.toml", "version = 3\ndisabled_plugins = [\"cri\"]\n")(t, s)
		}, check: "CRI", says: `disabled_plugins = ["cri"]`},
		"runtime not known": {plant: func(t *testing.T, s *testMachine) {
			writeFile("/var/lib/kubelet/instance-config.yaml", "containerRuntimeEndpoint: [\n")(t, s)
		}, check: "CRI", says: "/var/lib/kubelet/instance-config.yaml", also: true},
		"proxy in a manifest": {plant: edit("/etc/kubernetes/manifests/kube-scheduler.yaml", "    image:",
			"    env: [{name: HTTPS_PROXY, value: \"http://me:pw@proxy:3128\"}, {name: NO_PROXY, value: example}]\n    image:"),
			check: "ManifestProxy", says: "a proxy is used for 192.0.2.10"},
	}
}

func nodeDefects() map[string]plantedDefect {
	return map[string]plantedDefect{
		"kubelet stopped": {plant: func(_ *testing.T, s *testMachine) {
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
		"crashing scheduler": {plant: func(_ *testing.T, s *testMachine) {
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
		"key of another certificate": {plant: func(_ *testing.T, s *testMachine) {
			s.world.Files["/etc/kubernetes/pki/front-proxy-client.key"] = s.world.Files["/etc/kubernetes/pki/apiserver.key"]
		}, check: "Certificates", says: "does not match"},
		"certificate of another CA": {plant: func(_ *testing.T, s *testMachine) {
			for _, end := range []string{".crt", ".key"} {
				s.world.Files["/etc/kubernetes/pki/front-proxy-client"+end] =
					s.world.Files["/etc/kubernetes/pki/apiserver-kubelet-client"+end]
			}
		}, check: "Certificates", says: "does not verify against CA"},
		"all certificates expire soon": {plant: func(t *testing.T, s *testMachine) {
			s.world.Clock = memory.NewTickingClock(s.world.Now().Add(350 * 24 * time.Hour))
		}, check: "Certificates", says: "apiserver.crt expires on", warns: true, also: true},
		"all certificates have expired": {plant: func(t *testing.T, s *testMachine) {
			s.world.Clock = memory.NewTickingClock(s.world.Now().Add(400 * 24 * time.Hour))
		}, check: "Certificates", says: "has expired", also: true},
		"old certificate in use": {plant: func(t *testing.T, s *testMachine) {
			f := s.world.Files["/etc/kubernetes/scheduler.conf"]
			f.ModTime = s.world.Now().Add(time.Hour)
			s.world.Files["/etc/kubernetes/scheduler.conf"] = f
		}, check: "ServedCertificates", says: "kube-scheduler does not use the certificate", warns: true},
		"service account keys": {plant: func(_ *testing.T, s *testMachine) {
			s.world.Files["/etc/kubernetes/pki/sa.key"] = s.world.Files["/etc/kubernetes/pki/apiserver.key"]
		}, check: "ServiceAccountKeys", says: "does not contain the public key"},
		"kubeconfig with another address": {plant: edit("/etc/kubernetes/scheduler.conf", "https://192.0.2.10:6443",
			"https://192.0.2.99:6443"), check: "Kubeconfigs", says: "https://192.0.2.99:6443"},
		"kubeconfig lost": {plant: remove("/etc/kubernetes/controller-manager.conf"), check: "Kubeconfigs",
			says: "controller-manager.conf does not exist", also: true},
		"readable key": {plant: func(_ *testing.T, s *testMachine) {
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
		"member without a node": {plant: func(_ *testing.T, s *testMachine) {
			s.world.MemberList = append(s.world.MemberList, state.Member{ID: 9, Name: "lost",
				PeerURLs: []string{"https://192.0.2.10:2380"}, ClientURLs: []string{"https://192.0.2.10:2379"}})
		}, check: "EtcdMembers", says: "no Node with the name of etcd member lost", warns: true},
		"no quorum": {plant: func(_ *testing.T, s *testMachine) {
			s.world.MemberList = append(s.world.MemberList, state.Member{ID: 9, Name: "cp1",
				PeerURLs: []string{"https://192.0.2.98:2380"}, ClientURLs: []string{"https://192.0.2.98:2379"}})
			s.world.UnreachableMembers = []uint64{9}
		}, check: "EtcdMembers", says: "etcd has no quorum", also: true},
		"etcd alarm": {plant: func(_ *testing.T, s *testMachine) {
			s.world.MemberProblems = []string{"memberID:1 alarm:NOSPACE "}
		}, check: "EtcdMembers", says: "etcd member cp1 has raised the alarm NOSPACE: its database is full"},
		"alarm of one of two members": {plant: func(t *testing.T, s *testMachine) {
			s.world.MemberList = append(s.world.MemberList, state.Member{ID: 10, Name: "ghost",
				PeerURLs: []string{"https://192.0.2.10:2380"}, ClientURLs: []string{"https://192.0.2.10:2379"}})
			add(newNode("ghost", `{conditions: [{type: Ready, status: "True"}]}`))(t, s)
			s.world.MemberProblems = []string{"memberID:10 alarm:CORRUPT "}
		}, check: "EtcdMembers", says: "etcd member ghost has raised the alarm CORRUPT"},
		"member without a leader": {plant: func(_ *testing.T, s *testMachine) {
			s.world.MemberProblems = []string{"etcdserver: no leader", "memberID:1 alarm:NOSPACE "}
		}, check: "EtcdMembers", says: "etcd has no quorum", also: true},
		"no leader": {plant: add(`{apiVersion: coordination.k8s.io/v1, kind: Lease,
  metadata: {name: kube-scheduler, namespace: kube-system}, spec: {}}`), check: "Leaders",
			says: "kube-scheduler has no leader"},
		"no CoreDNS": {plant: deleted("Deployment", "coredns"), check: "CoreDNS", says: "CoreDNS is not deployed"},
		"CoreDNS not available": {plant: func(t *testing.T, s *testMachine) {
			s.editObject(t, "Deployment", "coredns", func(o map[string]any) { delete(o, "status") })
		}, check: "CoreDNS", says: "no replica of CoreDNS is available"},
		"no Service of CoreDNS": {plant: deleted("Service", "kube-dns"), check: "CoreDNS",
			says: "no Service kube-system/kube-dns"},
		"no kube-proxy": {plant: deleted("DaemonSet", "kube-proxy"), check: "KubeProxy",
			says: "kube-proxy is not deployed", warns: true},
		"kube-proxy does not run": {plant: func(t *testing.T, s *testMachine) {
			s.editObject(t, "DaemonSet", "kube-proxy", func(o map[string]any) {
				o["status"] = map[string]any{"desiredNumberScheduled": int64(1)}
			})
		}, check: "KubeProxy", says: "kube-proxy runs on 0 of 1 nodes"},
		"cluster-info unsigned": {plant: func(_ *testing.T, s *testMachine) {
			maps.DeleteFunc(s.world.Discovery, func(key, _ string) bool { return strings.HasPrefix(key, "jws-") })
		}, check: "ClusterInfo", says: "is not signed with token"},
		"token without end": {plant: func(t *testing.T, s *testMachine) {
			add(`{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token,
  metadata: {name: bootstrap-token-eeeeee, namespace: kube-system},
  data: {token-id: ZWVlZWVl, token-secret: ZWVlZWVlZWVlZWVlZWVlZQ==}}`)(t, s)
		}, check: "BootstrapTokens", says: "eeeeee never expires", warns: true},
		"no binding of administrators": {plant: func(t *testing.T, s *testMachine) {
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

// Turning swap off is asked for on its own: two questions, whose answers may come in one piece.
func TestDoctorReadsEachAnswer(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/proc/swaps"] = memory.File{Data: []byte("Filename Type Size Used Priority\n/swap file 1 0 -2\n"), Mode: 0o444}
	s.world.Files["/proc/sys/net/ipv4/ip_forward"] = memory.File{Data: []byte("0\n"), Mode: 0o644}
	s.In = strings.NewReader("y\ny\n")
	if err := s.run(t.Context(), "doctor", "--fix"); err != nil {
		t.Fatalf("%v\n%s%s", err, &s.out, &s.err)
	}
	if n := strings.Count(s.out.String(), "Continue? [y/N]"); n != 2 {
		t.Errorf("it asked %d times:\n%s", n, &s.out)
	}
	if d, _ := s.diagnose(t); len(d.Findings) > 0 {
		t.Errorf("it is not fixed:\n%s", describeFindings(d))
	}
}

func TestDoctorFindsPlantedDefects(t *testing.T) {
	all := map[string]plantedDefect{}
	for _, list := range []map[string]plantedDefect{hostDefects(), nodeDefects(), clusterDefects()} {
		maps.Copy(all, list)
	}
	for name, c := range all {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newHealthyNode(t)
			c.plant(t, s)
			d, code := s.diagnose(t)
			i := slices.IndexFunc(d.Findings, func(f doctor.Finding) bool {
				return f.Check == c.check && strings.Contains(f.Text+"\n"+f.Evidence, c.says)
			})
			if i < 0 {
				t.Fatalf("%s says nothing of %q:\n%s\nnot checked: %v", c.check, c.says, describeFindings(d), d.NotChecked)
			}
			f := d.Findings[i]
			if (f.Severity == doctor.Warning) != c.warns || !c.also && (code == 0) != c.warns {
				t.Errorf("exit code %d, %+v", code, f)
			}
			if !c.also && len(d.Findings) > 1 {
				t.Errorf("there are more findings:\n%s", describeFindings(d))
			}
			if f.Why == "" {
				t.Errorf("it lacks a reason: %+v", f)
			}
			checkCommands(t, d)
			if strings.Contains(s.out.String(), "me:pw@") {
				t.Error("it shows a password")
			}
			if c.fixed {
				if !f.Fixable {
					t.Fatalf("it cannot be fixed: %+v", f)
				}
				s.diagnose(t, "--fix", "--yes")
				if d, _ := s.diagnose(t); strings.Contains(describeFindings(d), c.says) {
					t.Errorf("it is not fixed:\n%s\n%s", describeFindings(d), &s.err)
				}
			}
		})
	}
}
