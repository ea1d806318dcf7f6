//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/doctor"
	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// doctorDefect is a defect that is planted on a node, and what the doctor must say of it. The defects:
//
//	host:    1 no forwarding  2 kubelet not enabled  3 kubelet stopped  4 runtime stopped  5 CRI plugin disabled
//	         6 another sandbox image  7 proxy of the shell  8 proxy in a manifest  9 own name unknown  10 MTU of Pods
//	         11 kubelet of a peer unreachable  12 bridge without packet filter  13 firewalld  14 losetup missing
//	         15 cgroup drivers differ  16 endpoint unknown
//	node:    17 unknown field of the kubelet's configuration  18 unknown flag of the kubelet  19 unknown flag of a
//	         component  20 manifest lost  21 kubeconfig of another CA  22 kubeconfig of another address  23 expired
//	         certificate  24 certificate of another CA  25 key of another certificate  26 readable key  27 service
//	         account keys  28 manifest changed  29 kubelet configuration changed  30 no Pod network  31 old certificate
//	         in use  32 kubelet certificate lost  33 kubeconfig lost
//	cluster: 34 node not ready  35 kubelet too new  36 CoreDNS scaled to 0  37 no Service of CoreDNS  38 no kube-proxy
//	         39 no cluster-info  40 token that never expires  41 request that waits  42 binding deleted
//	         43 configuration deleted  44 no leader  45 learner that never starts  46 API server down
type doctorDefect struct {
	name        string
	worker      bool   // planted on worker1 and not on cp1
	fromCP      bool   // found on cp1 although it is planted on worker1
	plant, undo string // shell scripts; undo must succeed on a node that was fixed too
	env         []string
	args        []string
	check, says string // the name of the check, and a part of its text or evidence
	fixed       bool   // --fix fixes it
	mended      bool   // the command of the finding mends it
	slow        bool   // only in the full run
}

// save and restore keep a file over a defect, with its times.
const (
	save    = "cp -a %[1]s /root/saved\n"
	restore = "cp -a /root/saved %[1]s\n"
)

// edited is a defect of a file: sed changes it.
func edited(d doctorDefect, file, sed string) doctorDefect {
	d.plant = fmt.Sprintf(save, file) + fmt.Sprintf("sed -i '%s' %s\n", sed, file) + d.plant
	d.undo = fmt.Sprintf(restore, file) + d.undo
	return d
}

// moved is a defect of a file that is lost.
func moved(d doctorDefect, file string) doctorDefect {
	d.plant, d.undo = "mv "+file+" /root/moved\n"+d.plant, "mv /root/moved "+file+"\n"+d.undo
	return d
}

// deletedObject is a defect of an object that is lost.
func deletedObject(d doctorDefect, object string) doctorDefect {
	d.plant = "kubectl get -o yaml " + object + " | grep -v -e ' resourceVersion:' -e ' uid:' -e ' creationTimestamp:' >/root/object\n" +
		"kubectl delete " + object
	d.undo = "kubectl create -f /root/object"
	return d
}

const (
	kubeletFile  = "/var/lib/kubelet/config.yaml"
	schedulerPod = "/etc/kubernetes/manifests/kube-scheduler.yaml"
	runtimeFile  = "/etc/containerd/config.toml"
)

func hostDefects() []doctorDefect {
	const sysctl = "/proc/sys/net/"
	return []doctorDefect{
		{name: "no forwarding", plant: "echo 0 >" + sysctl + "ipv4/ip_forward",
			undo:  "test $(cat " + sysctl + "ipv4/ip_forward) = 1; rm /etc/sysctl.d/kubeadm-net.ipv4.ip_forward.conf",
			check: "FileContent--proc-sys-net-ipv4-ip_forward", says: `is "0" but must be 1`, fixed: true},
		{name: "kubelet not enabled", worker: true, plant: "systemctl disable kubelet",
			undo: "systemctl is-enabled kubelet", check: "Service-kubelet", says: "will not start when this machine boots", fixed: true},
		{name: "kubelet stopped", worker: true, plant: "systemctl stop kubelet", undo: "systemctl is-active kubelet",
			check: "Kubelet", says: "the kubelet is not running", fixed: true},
		{name: "runtime stopped", worker: true, plant: "systemctl stop containerd", undo: "systemctl is-active containerd",
			check: "CRI", says: "service containerd is not active", fixed: true},
		edited(doctorDefect{name: "CRI plugin disabled", worker: true, plant: "systemctl restart containerd",
			undo:  "systemctl restart containerd",
			check: "CRI", says: "disabled_plugins", slow: true}, runtimeFile,
			`s/^version = 3/version = 3\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]/`),
		edited(doctorDefect{name: "another sandbox image", worker: true, plant: "systemctl restart containerd",
			undo: "systemctl restart containerd", check: "SandboxImage", says: "pause:9.9"}, runtimeFile,
			"s/pause:3.10.2/pause:9.9/"),
		{name: "proxy of the shell", env: []string{"HTTPS_PROXY=http://me:planted-password@192.0.2.1:3128"},
			check: "HTTPProxy", says: "would go through the proxy http://192.0.2.1:3128"},
		edited(doctorDefect{name: "proxy in a manifest", undo: schedulerRestarted, check: "ManifestProxy", says: "a proxy is used for", slow: true},
			schedulerPod, `s/^    image:/    env: [{name: HTTPS_PROXY, value: "http:\/\/192.0.2.1:3128"}]\n    image:/`),
		{name: "own name unknown", worker: true, plant: "mount --bind /dev/null /etc/hosts", undo: "umount /etc/hosts",
			check: "Hostname", says: `"worker1" cannot be resolved`},
		{name: "MTU of Pods", worker: true, plant: "ip link add veth9000 mtu 9000 type veth peer name veth9001",
			undo: "ip link delete veth9000", check: "MTU", says: "veth9000: 9000"},
		{name: "kubelet of a peer unreachable", worker: true, fromCP: true,
			plant: "iptables -I INPUT -p tcp --dport 10250 -j REJECT --reject-with tcp-reset",
			undo:  "iptables -D INPUT -p tcp --dport 10250 -j REJECT --reject-with tcp-reset",
			check: "PeerPorts", says: "the kubelet of node worker1"},
		{name: "bridge without packet filter", worker: true,
			plant: `echo '{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "bridge"}]}' >/etc/cni/net.d/01-bridge.conflist
echo 0 >` + sysctl + "bridge/bridge-nf-call-iptables",
			undo: "rm /etc/cni/net.d/01-bridge.conflist /etc/sysctl.d/kubeadm-net.bridge.bridge-nf-call-iptables.conf\n" +
				"test $(cat " + sysctl + "bridge/bridge-nf-call-iptables) = 1",
			check: "BridgeNetfilter", says: "does not see bridged packets", fixed: true},
		{name: "firewalld", worker: true, plant: "systemd-run --unit=firewalld sleep 600", undo: "systemctl stop firewalld",
			check: "Firewalld", says: "firewalld is active"},
		{name: "losetup missing", worker: true, plant: "where=$(command -v losetup); echo $where >/root/where; mv $where /root/losetup",
			undo: "mv /root/losetup $(cat /root/where)", check: "FileExisting-losetup", says: `"losetup" is not in PATH`},
		edited(doctorDefect{name: "cgroup drivers differ", worker: true, check: "CgroupDriver",
			says: "uses cgroupfs, which containerd reports"}, kubeletFile, "s/cgroupDriver: cgroupfs/cgroupDriver: systemd/"),
		{name: "endpoint unknown", plant: "sed 's,server: https://.*,server: https://no-such-name.test:6443,' /etc/kubernetes/admin.conf >/root/other.conf",
			undo: "rm /root/other.conf", args: []string{"--kubeconfig=/root/other.conf"},
			check: "EndpointDNS", says: `"no-such-name.test", cannot be resolved`},
	}
}

// schedulerRestarted begins the scheduler again after a defect of its manifest: one that starts while the
// next defect is planted would keep the kubeconfig of that defect for as long as it runs.
const schedulerRestarted = "mv " + schedulerPod + " /root/scheduler.yaml\n" +
	"timeout 60 sh -c 'while pidof kube-scheduler; do sleep 0.2; done'\n" +
	"mv /root/scheduler.yaml " + schedulerPod + "\n" +
	"timeout 60 sh -c 'until kubectl --server=https://127.0.0.1:10259 --insecure-skip-tls-verify get --raw /livez; do sleep 0.5; done'\n"

func nodeDefects() []doctorDefect {
	const (
		client = "/etc/kubernetes/pki/front-proxy-client"
		other  = "/etc/kubernetes/pki/apiserver-kubelet-client"
		pair   = client + ".crt " + client + ".key"
	)
	return []doctorDefect{
		edited(doctorDefect{name: "unknown field of the kubelet's configuration", worker: true, check: "KubeletConfig",
			says: "maxPodz"}, kubeletFile, "$a maxPodz: 3"),
		edited(doctorDefect{name: "unknown flag of the kubelet", worker: true, plant: "systemctl restart --no-block kubelet",
			undo: "systemctl restart kubelet", check: "Kubelet", says: "--no-such-flag", slow: true},
			"/var/lib/kubelet/kubeadm-flags.env", `s/ARGS="/ARGS="--no-such-flag /`),
		edited(doctorDefect{name: "unknown flag of a component", undo: schedulerRestarted, check: "StaticPods", says: "--no-such-flag", slow: true},
			schedulerPod, `s/^    - kube-scheduler$/    - kube-scheduler\n    - --no-such-flag/`),
		moved(doctorDefect{name: "manifest lost", undo: schedulerRestarted, mended: true,
			check: "StaticPodManifest", says: schedulerPod}, schedulerPod),
		edited(doctorDefect{name: "kubeconfig of another CA", check: "Kubeconfigs", says: "is not the CA of this cluster"},
			"/etc/kubernetes/scheduler.conf",
			"s/certificate-authority-data: .*/certificate-authority-data: '\"$(base64 -w0 /etc/kubernetes/pki/front-proxy-ca.crt)\"'/"),
		edited(doctorDefect{name: "kubeconfig of another address", check: "Kubeconfigs", says: "https://192.0.2.99:6443"},
			"/etc/kubernetes/scheduler.conf", "s,server: .*,server: https://192.0.2.99:6443,"),
		{name: "expired certificate", check: "Certificates", says: "has expired"}, // planted by plantExpired
		{name: "certificate of another CA",
			plant: "tar cf /root/pair " + pair + "; cp " + other + ".crt " + client + ".crt; cp " + other + ".key " + client + ".key",
			undo:  "tar xf /root/pair -C /", check: "Certificates", says: "does not verify against CA"},
		{name: "key of another certificate", plant: "tar cf /root/pair " + pair + "; cp " + other + ".key " + client + ".key",
			undo: "tar xf /root/pair -C /", check: "Certificates", says: "does not match"},
		{name: "readable key", plant: "chmod 644 /etc/kubernetes/pki/ca.key", undo: "chmod 600 /etc/kubernetes/pki/ca.key",
			check: "FilePermissions", says: "/etc/kubernetes/pki/ca.key can be read"},
		edited(doctorDefect{name: "service account keys", plant: "cp " + other + ".key /etc/kubernetes/pki/sa.key",
			check: "ServiceAccountKeys", says: "does not contain the public key"}, "/etc/kubernetes/pki/sa.key", ""),
		edited(doctorDefect{name: "manifest changed", undo: schedulerRestarted, check: "ManifestDrift", says: "--v=2", slow: true}, schedulerPod,
			`s/^    - kube-scheduler$/    - kube-scheduler\n    - --v=2/`),
		edited(doctorDefect{name: "kubelet configuration changed", worker: true, check: "KubeletConfigDrift",
			says: "maxPods"}, kubeletFile, "$a maxPods: 42"),
		{name: "no Pod network", worker: true, plant: "mkdir /root/cni; mv /etc/cni/net.d/* /root/cni",
			undo:  "cp /root/cni/* /etc/cni/net.d; rm -r /root/cni", // containerd does not see files that are moved in
			check: "PodNetwork", says: "no configuration file"},
		edited(doctorDefect{name: "old certificate in use", check: "ServedCertificates",
			says: "kube-scheduler does not use the certificate"}, "/etc/kubernetes/scheduler.conf", ""),
		moved(doctorDefect{name: "kubelet certificate lost", worker: true, check: "KubeletCertificate",
			says: "does not exist"}, "/var/lib/kubelet/pki/kubelet-client-current.pem"),
		moved(doctorDefect{name: "kubeconfig lost", check: "Kubeconfigs", mended: true,
			says: "controller-manager.conf does not exist"},
			"/etc/kubernetes/controller-manager.conf"),
	}
}

func clusterDefects() []doctorDefect {
	members := strings.Join(etcdctlCommand("member "), " ")
	const ghost = `kubectl create -f - <<END
{apiVersion: v1, kind: Node, metadata: {name: ghost}}
END
`
	return []doctorDefect{
		{name: "node not ready", plant: ghost, undo: "kubectl delete node ghost", check: "Nodes", says: "node ghost is not ready"},
		{name: "kubelet too new", plant: ghost + `kubectl patch node ghost --subresource=status --type=merge --patch '{"status": {"nodeInfo":
{"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
"operatingSystem": "linux", "osImage": "", "systemUUID": "", "kubeletVersion": "v1.39.0"}}}'`,
			undo: "kubectl delete node ghost", check: "Versions", says: "kubelet v1.39.0, API server v1."},
		{name: "CoreDNS scaled to 0", plant: "kubectl -n kube-system scale deployment coredns --replicas=0",
			undo: "kubectl -n kube-system scale deployment coredns --replicas=2", check: "CoreDNS", says: "scaled to 0 replicas"},
		deletedObject(doctorDefect{name: "no Service of CoreDNS", check: "CoreDNS", says: "no Service kube-system/kube-dns"},
			"-n kube-system service/kube-dns"),
		deletedObject(doctorDefect{name: "no cluster-info", check: "ClusterInfo", says: "does not exist"},
			"-n kube-public configmap/cluster-info"),
		{name: "token that never expires", plant: "kubeadm token create eeeeee.eeeeeeeeeeeeeeee --ttl 0",
			undo: "kubeadm token delete eeeeee", check: "BootstrapTokens", says: "eeeeee never expires"},
		{name: "request that waits", slow: true, plant: `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
  -keyout /dev/null -subj /CN=planted -out /root/planted.csr
kubectl create -f - <<END
{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: planted},
 spec: {signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], request: $(base64 -w0 /root/planted.csr)}}
END`, undo: "kubectl delete csr planted", check: "CertificateRequests", says: "planted is waiting for approval"},
		{name: "binding deleted", check: "ClusterAccess", says: "kubeadm:kubelet-bootstrap", mended: true,
			plant: "kubectl delete clusterrolebinding kubeadm:kubelet-bootstrap"},
		{name: "no kube-proxy", check: "KubeProxy", says: "kube-proxy is not deployed", mended: true,
			plant: "kubectl -n kube-system delete daemonset kube-proxy", slow: true},
		deletedObject(doctorDefect{name: "configuration deleted", check: "ClusterConfig",
			says: "no ConfigMap kube-system/kubeadm-config"}, "-n kube-system configmap/kubeadm-config"),
		moved(doctorDefect{name: "no leader", slow: true, plant: `sleep 5
kubectl -n kube-system patch lease kube-scheduler --type=merge --patch '{"spec": {"holderIdentity": ""}}'`,
			undo: schedulerRestarted, check: "Leaders", says: "kube-scheduler has no leader"}, schedulerPod),
		{name: "learner that never starts", slow: true,
			plant: members + "add ghost --learner --peer-urls=https://192.0.2.77:2380",
			undo:  members + "remove $(" + members + "list | grep 192.0.2.77 | cut -d, -f1)",
			check: "EtcdMembers", says: "has been added but has not started"},
		moved(doctorDefect{name: "API server down", slow: true, check: "APIServer", says: "does not answer"},
			"/etc/kubernetes/manifests/kube-apiserver.yaml"),
	}
}

// TestDoctorFindsPlantedDefects plants defects on a control plane and a worker, one after the other.
// Each is found, its cause is named, and --fix fixes those that it claims to fix.
func TestDoctorFindsPlantedDefects(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	must(t, s.initAndJoin(t.Context()))
	begun := time.Now()
	planted := 0
	for _, d := range slices.Concat(hostDefects(), nodeDefects(), clusterDefects()) {
		if d.slow && !suite.full {
			continue
		}
		planted++
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) { checkDefect(t, s, d) })
	}
	t.Logf("%d defects in %s", planted, time.Since(begun).Round(time.Second))
	for _, n := range s.Nodes() {
		awaitNothingFound(t, n)
	}
}

func checkDefect(t *testing.T, s *testCluster, d doctorDefect) {
	t.Helper()
	n, on := s.cp, s.cp
	if d.worker {
		n, on = s.worker, s.worker
	}
	if d.fromCP {
		on = s.cp
	}
	const admin = "export KUBECONFIG=/etc/kubernetes/admin.conf\n"
	if d.name == "expired certificate" {
		d.plant = "true"
		undo := plantExpired(t, n)
		defer undo()
	}
	if d.plant != "" {
		runShell(t, n, admin+d.plant)
	}
	if d.undo != "" {
		defer func() {
			await(t, "the defect to be undone", waitLimit, func() error {
				_, err := n.Run(t.Context(), "sh", "-ec", admin+d.undo)
				return err
			})
		}()
	}
	var found doctor.Finding
	await(t, "check "+d.check+" to find it", 40*time.Second, func() error {
		all, result := diagnose(t, on, d.env, d.args...)
		if strings.Contains(result.Stdout+result.Stderr, "planted-password") {
			t.Error("it shows a password")
		}
		i := slices.IndexFunc(all.Findings, func(f doctor.Finding) bool {
			return f.Check == d.check && strings.Contains(f.Text+"\n"+f.Evidence, d.says)
		})
		if i < 0 {
			return fmt.Errorf("it finds\n%s\nnot checked: %v", describeFindings(all), all.NotChecked)
		}
		found = all.Findings[i]
		if (found.Severity == doctor.Error) && result.Code != 2 {
			return fmt.Errorf("exit code %d with an error", result.Code)
		}
		return nil
	})
	if d.fixed != found.Fixable {
		t.Errorf("it can be fixed: %v, want %v: %+v", found.Fixable, d.fixed, found)
	}
	if d.mended {
		runShell(t, on, admin+found.Command)
		await(t, "check "+d.check+" to find nothing", waitLimit, func() error {
			all, _ := diagnose(t, on, d.env, d.args...)
			if text := describeFindings(all); strings.Contains(text, d.says) {
				return fmt.Errorf("it finds\n%s", text)
			}
			return nil
		})
	}
	if d.fixed {
		dry, _ := on.Run(t.Context(), kubeadm, "doctor", "--fix", "--dry-run")
		if !strings.Contains(dry.Stdout, "would ") {
			t.Errorf("the dry run says\n%s%s", dry.Stdout, dry.Stderr)
		}
		fixed, _ := on.Run(t.Context(), kubeadm, "doctor", "--fix", "--yes", "-o", "json")
		if after := parseDiagnosis(t, fixed); strings.Contains(describeFindings(after), d.says) {
			t.Errorf("it is not fixed:\n%s\n%s", describeFindings(after), fixed.Stderr)
		}
	}
}

// plantExpired replaces a certificate of a control plane by an expired one and returns how to undo that.
func plantExpired(t *testing.T, n *nodes.Node) (undo func()) {
	t.Helper()
	ca, err := pki.StoredPair{Certificate: []byte(readFile(t, n, certsDir+"front-proxy-ca.crt")),
		Key: []byte(readFile(t, n, certsDir+"front-proxy-ca.key"))}.ParseCA()
	must(t, err)
	old := readFile(t, n, certsDir+"front-proxy-client.crt")
	expireFile(t, n, pki.Renewable{Base: "front-proxy-client"}, ca)
	return func() { must(t, n.WriteFile(certsDir+"front-proxy-client.crt", []byte(old), 0o644)) }
}

// diagnose runs the doctor on a node.
func diagnose(t *testing.T, n *nodes.Node, env []string, args ...string) (doctor.Diagnosis, nodes.Result) {
	t.Helper()
	command := n.Command(append([]string{kubeadm, "doctor", "-o", "json"}, args...)...)
	command.Env = env
	result, err := command.Run(t.Context())
	if exit := (*nodes.ExitError)(nil); err != nil && (!errors.As(err, &exit) || result.Code != 2) {
		t.Fatal(err)
	}
	return parseDiagnosis(t, result), result
}

func parseDiagnosis(t *testing.T, result nodes.Result) (d doctor.Diagnosis) {
	t.Helper()
	if err := json.Unmarshal([]byte(result.Stdout), &d); err != nil {
		t.Fatalf("%v: %s%s", err, result.Stdout, result.Stderr)
	}
	return d
}

func describeFindings(d doctor.Diagnosis) string {
	var lines []string
	for _, f := range d.Findings {
		lines = append(lines, fmt.Sprintf("%s %s: %s\n%s", f.Severity, f.Check, f.Text, f.Evidence))
	}
	return strings.Join(lines, "\n")
}

// isTrueOfNodes reports whether a finding is no false one, although nothing was planted: nodes run with
// cgroups v1 and on a disk that other tests keep busy.
func isTrueOfNodes(f doctor.Finding) bool {
	return f.Check == "SystemVerification" && strings.Contains(f.Text, "cgroup") || f.Check == "DiskLatency"
}

// awaitNothingFound waits until the doctor finds nothing on a node.
func awaitNothingFound(t *testing.T, n *nodes.Node) {
	t.Helper()
	await(t, "the doctor to find nothing on "+n.Name(), waitLimit, func() error {
		d, result := diagnose(t, n, nil)
		d.Findings = slices.DeleteFunc(d.Findings, isTrueOfNodes)
		if len(d.Findings) > 0 {
			return fmt.Errorf("it finds\n%s", describeFindings(d))
		}
		t.Logf("%s: nothing found in %s; not checked: %v", n.Name(), result.Duration.Round(10*time.Millisecond), d.NotChecked)
		return nil
	})
}

// TestDoctorFindsNothing runs the doctor on machines without Kubernetes, and on all nodes of healthy
// clusters: of one control plane and one worker, and in the full run of three and two, and of one that
// upstream's kubeadm has created. It finds nothing, changes nothing and takes less than five seconds.
func TestDoctorFindsNothing(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	for _, n := range s.Nodes() {
		awaitNothingFound(t, n)
		runUnchanged(t, n, nil, "sh", "-c", "kubeadm doctor || [ $? = 2 ]")
	}
	must(t, s.initAndJoin(t.Context()))
	for _, n := range s.Nodes() {
		awaitNothingFound(t, n)
		var result nodes.Result
		checkChangesNothing(t, s.cp, n, func() {
			_, result = diagnose(t, n, nil)
		})
		if result.Duration > 5*time.Second {
			t.Errorf("%s: the doctor took %s", n.Name(), result.Duration)
		}
		checkBundle(t, n)
	}
	if !suite.full {
		return
	}
	for name, program := range map[string]string{"ours": kubeadm, "upstream": upstreamKubeadm} {
		t.Run(name, func(t *testing.T) {
			s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}, initProgram: program}
			must(t, s.createFirst(t.Context(), 3, 2, nodes.Config{}))
			must(t, s.joinNodes(t.Context(), s.controlPlanes[1:]...))
			must(t, s.joinNodes(t.Context(), s.workers...))
			must(t, awaitClusterReady(t.Context(), s.cp, 5))
			for _, n := range s.Nodes() {
				awaitNothingFound(t, n)
			}
		})
	}
}

// checkBundle writes a support bundle on a node and looks for the secrets of the node in it.
func checkBundle(t *testing.T, n *nodes.Node) {
	t.Helper()
	size := runShell(t, n, `kubeadm doctor --bundle /root/bundle.tar.gz >/dev/null 2>&1 || [ $? = 2 ]
mkdir /root/bundle
tar xzf /root/bundle.tar.gz -C /root/bundle
for f in $(find /etc/kubernetes /var/lib/kubelet/pki -name '*.key' -o -name '*.pem'); do
  sed -n '/BEGIN.*PRIVATE KEY/{n;p}' $f
done >/root/secrets
sed -n 's/^ *client-key-data: //p' /etc/kubernetes/*.conf | cut -c 1-80 >>/root/secrets
if [ -e /etc/kubernetes/admin.conf ]; then
  for s in $(kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system get secrets \
      -o 'jsonpath={.items[*].data.token-secret}'); do echo $s | base64 -d; echo; done >>/root/secrets
fi
test -s /root/secrets
if grep -rFf /root/secrets /root/bundle; then exit 1; fi
cd /root/bundle/kubeadm-bundle
test -s doctor.json; test -s logs/kubelet.log; test -s versions.yaml; test -s files/var/lib/kubelet/config.yaml
stat -c '%a %s' /root/bundle.tar.gz
rm -r /root/bundle /root/bundle.tar.gz /root/secrets`)
	if !strings.HasPrefix(size, "600 ") {
		t.Errorf("the bundle has mode and size %s", size)
	}
	t.Logf("%s: mode and size of the bundle: %s", n.Name(), size)
}
