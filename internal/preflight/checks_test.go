package preflight

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const (
	commonNames = " CRI ContainerRuntimeVersion Swap FileExisting-losetup FileExisting-mount FileExisting-cp" +
		" SystemVerification Hostname KubeletVersion ComponentArgs Service-kubelet Port-10250"
	beforeCommon = "NumCPU Mem KubernetesVersion Firewalld Port-6443 Port-10259 Port-10257" +
		" FileAvailable--etc-kubernetes-manifests-kube-apiserver.yaml" +
		" FileAvailable--etc-kubernetes-manifests-kube-controller-manager.yaml" +
		" FileAvailable--etc-kubernetes-manifests-kube-scheduler.yaml" +
		" FileAvailable--etc-kubernetes-manifests-etcd.yaml HTTPProxy"
	joinFiles = "FileAvailable--etc-kubernetes-kubelet.conf FileAvailable--etc-kubernetes-bootstrap-kubelet.conf"
	caFile    = " FileAvailable--etc-kubernetes-pki-ca.crt"
	ipv4      = " FileContent--proc-sys-net-ipv4-ip_forward"
	ipv6      = " FileContent--proc-sys-net-ipv6-conf-default-forwarding"
	localData = " Port-2379 Port-2380 DirAvailable--var-lib-etcd"
	running   = " ComponentArgs ComponentVolumes IPFamilies"
)

func names(checks []Check) string {
	var list []string
	for _, c := range checks {
		list = append(list, c.Name)
	}
	return strings.Join(list, " ")
}

func TestOrderOfInitChecks(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*node.Node)
		want  string
	}{
		"default": {func(*node.Node) {},
			beforeCommon + " HTTPProxyCIDR" + commonNames + " ComponentArgs" + ipv4 + localData + running},
		"dual stack": {
			func(n *node.Node) { n.Cluster.PodSubnet = "10.244.0.0/16,fd00:10::/56" },
			beforeCommon + strings.Repeat(" HTTPProxyCIDR",
				3) + commonNames + " ComponentArgs" + ipv4 + ipv6 + localData + running,
		},
		"IPv6 and another data directory": {
			func(n *node.Node) {
				n.Address, n.Cluster.ServiceSubnet, n.Cluster.Etcd.DataDir = "fd00::5",
					"fd00:96::/112", "/data/etcd"
			},
			beforeCommon + " HTTPProxyCIDR" + commonNames + " ComponentArgs" + ipv6 +
				" Port-2379 Port-2380 DirAvailable--data-etcd" + running,
		},
		"external etcd": {
			func(n *node.Node) {
				n.Cluster.Etcd.External = &node.ExternalEtcd{
					Endpoints: []string{"https://a:2379", "https://b:2379"}, CAFile: "/ca",
					CertFile: "/c",
				}
			},
			beforeCommon + " HTTPProxyCIDR" +
				commonNames + " ComponentArgs" + ipv4 + strings.Repeat(" ExternalEtcdVersion", 2) +
				strings.Repeat(" ExternalEtcdClientCertificates", 2) + running,
		},
	} {
		n := controlPlane()
		c.alter(n)
		if got := names(Init(n, tool(t))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestOrderOfJoinChecks(t *testing.T) {
	for _, c := range []struct {
		role           node.Role
		endpoint, want string
	}{
		{node.Worker, "10.0.0.5:6443", joinFiles + commonNames + caFile + " HTTPProxy" + ipv4},
		{node.Worker, "[fd00::5]:6443", joinFiles + commonNames + caFile + " HTTPProxy" + ipv6},
		{node.Worker, "cluster.example:6443", joinFiles + commonNames + caFile + " HTTPProxy"},
		{node.Worker, "", joinFiles + commonNames + caFile},
		{node.ControlPlane, "10.0.0.5:6443", joinFiles + commonNames + " HTTPProxy" + ipv4},
	} {
		l := worker()
		l.Role, l.Discovery.Endpoint = c.role, c.endpoint
		if got := names(Join(l, tool(t), KubeletVersion())); got != c.want {
			t.Errorf("%s at %q:\n got %s\nwant %s", c.role, c.endpoint, got, c.want)
		}
	}
}

func TestJoinChecksOnWindows(t *testing.T) {
	l := worker()
	l.Discovery.Endpoint, l.Platform = "10.0.0.5:6443", node.Windows("C:")
	const want = joinFiles + " CRI DirAccess FileExisting-xcopy SystemVerification Hostname KubeletVersion " +
		"ComponentArgs Service-kubelet Port-10250" + caFile + " HTTPProxy"
	if got := names(Join(l, tool(t), KubeletVersion())); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Every user can create directories below the root of a drive of Windows.
func TestDirectoriesOfOtherUsers(t *testing.T) {
	w, l := fake.New(), worker()
	l.Paths = node.Windows("C:").Paths()
	for dir, file := range map[string]memory.File{
		"C:/etc": {Mode: fs.ModeDir | 0o755, UID: 1001}, "C:/etc/kubernetes": {Mode: fs.ModeDir | 0o755},
		"C:/var": {Mode: fs.ModeDir | 0o777}, "C:/var/lib": {Mode: fs.ModeDir | 0o700},
	} {
		w.Files[dir] = file
	}
	got := Run(t.Context(), w, []Check{newDirAccessCheck(l)}, nil).Findings
	if len(got) != 2 {
		t.Fatalf("got %+v", got)
	}
	for i, want := range []Finding{
		{Severity: Error, Text: "C:/etc belongs to another user", Remedy: "takeown /A /F C:/etc"},
		{Severity: Warning, Text: "other users can change C:/var", Remedy: "icacls C:/var"},
	} {
		if got[i].Severity != want.Severity || !strings.Contains(got[i].Text, want.Text) ||
			!strings.Contains(got[i].Remedy, want.Remedy) {
			t.Errorf("got %+v, want %+v", got[i], want)
		}
	}
}

func TestOrderOfControlPlaneJoinChecks(t *testing.T) {
	external := &node.ExternalEtcd{Endpoints: []string{"https://a:2379"}, CAFile: "/ca",
		CertFile: "/c", KeyFile: "/k"}
	for _, c := range []struct {
		key  string
		etcd *node.ExternalEtcd
		want string
	}{
		{"", nil, beforeCommon + " HTTPProxyCIDR" + localData + running},
		{"k", nil, beforeCommon + " HTTPProxyCIDR" + localData + running},
		{"", external, beforeCommon + " HTTPProxyCIDR" +
			running + strings.Repeat(" ExternalEtcdClientCertificates", 3)},
		{"k", external, beforeCommon + " HTTPProxyCIDR" + running},
	} {
		n := controlPlane()
		n.CertificateKey, n.Cluster.Etcd.External = c.key, c.etcd
		if got := names(JoinControlPlane(n, tool(t), nil)); got != c.want {
			t.Errorf("key %q, external %v:\n got %s\nwant %s", c.key, c.etcd, got, c.want)
		}
	}
}

// The names are public.
func TestNames(t *testing.T) {
	want := "IsPrivilegedUser " + beforeCommon + " HTTPProxyCIDR" +
		commonNames + ipv4 + ipv6 + localData +
		" ComponentVolumes IPFamilies ExternalEtcdVersion ExternalEtcdClientCertificates " +
		joinFiles + caFile + " ComponentFile ImagePull"
	if got := strings.Join(Names(), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReadyMachineHasNoFindings(t *testing.T) {
	m := fit()
	for name, checks := range map[string][]Check{
		"init": slices.Concat(Root(), Init(controlPlane(), tool(t))),
		"join": Join(worker(), tool(t), KubeletVersion()),
	} {
		*m.runtimeQuestions = 0
		result := Run(t.Context(), m, checks, nil)
		if len(result.Findings) > 0 || result.Err() != nil {
			t.Errorf("%s found:\n%s", name, lines(result.Findings))
		}
		if *m.runtimeQuestions != 1 {
			t.Errorf("%s asked the container runtime %d times", name, *m.runtimeQuestions)
		}
	}
}
