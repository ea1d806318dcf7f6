package manifest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/node"
)

func TestReservedKubeletLabels(t *testing.T) {
	for value, want := range map[string]string{
		"":                                     "",
		"a=b,example.org/c=d":                  "",
		"node.kubernetes.io/instance-type=big": "",
		"topology.kubernetes.io/zone=a,kubernetes.io/arch=amd64,beta.kubernetes.io/os=linux": "",
		"kubelet.kubernetes.io/x=y,sub.node.kubernetes.io/x=y":                               "",
		"node-role.kubernetes.io/worker=":                                                    "node-role.kubernetes.io/worker",
		"a=b,node-role.kubernetes.io/x=y":                                                    "node-role.kubernetes.io/x",
		"node-restriction.kubernetes.io/x=y":                                                 "node-restriction.kubernetes.io/x",
		"kubernetes.io/role=y":                                                               "kubernetes.io/role",
		"k8s.io/x=y":                                                                         "k8s.io/x",
		"mykubernetes.io/x=y":                                                                "",
	} {
		found := FindKubeletProblems([]node.Arg{{Name: "node-labels", Value: value}},
			version.MustParseSemantic("1.37.1"))
		if want == "" && len(found) > 0 || want != "" &&
			(len(found) != 1 || !found[0].Fatal || !strings.Contains(found[0].Text, `"`+want+`"`)) {
			t.Errorf("%q: %v, want %q", value, found, want)
		}
	}
}

func TestObstacles(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*node.Node)
		want  string // check and field; empty for none
	}{
		"nothing": {func(*node.Node) {}, ""},
		"a volume in place of ours": {func(n *node.Node) {
			n.Cluster.APIServer.Volumes = []node.Volume{{Name: "ca-certs", HostPath: "/srv/cas",
				MountPath: "/etc/ssl/certs"}}
		}, ""},
		"a volume below ours": {func(n *node.Node) {
			n.Cluster.APIServer.Volumes = []node.Volume{{Name: "a", HostPath: "/srv/a",
				MountPath: "/etc/ssl/certs/a"}}
		}, ""},
		"the same volume twice": {func(n *node.Node) {
			v := node.Volume{Name: "a", HostPath: "/a", MountPath: "/a"}
			n.Cluster.Scheduler.Volumes = []node.Volume{v, v}
		}, ""},
		"a volume at our path": {func(n *node.Node) {
			n.Cluster.APIServer.Volumes = []node.Volume{{Name: "zz", HostPath: "/a",
				MountPath: "/etc/ssl/certs/"}}
		}, "ComponentVolumes apiServer.extraVolumes[0].mountPath"},
		"a volume at our path that comes first": {func(n *node.Node) {
			n.Cluster.APIServer.Volumes = []node.Volume{{Name: "aa", HostPath: "/a",
				MountPath: "/etc/ssl/certs"}}
		}, "ComponentVolumes apiServer.extraVolumes[0].mountPath"},
		"another family": {func(n *node.Node) { n.Cluster.ServiceSubnet = "fd00::/112,10.96.0.0/16" }, "IPFamilies networking.serviceSubnet"},
		"another family that nothing reconciles": {func(n *node.Node) {
			n.Cluster.ServiceSubnet = "fd00::/112"
			n.Cluster.APIServer.Args = []node.Arg{{Name: "endpoint-reconciler-type", Value: "none"}}
		}, ""},
		"etcd elsewhere": {func(n *node.Node) {
			n.Cluster.Etcd = node.Etcd{Args: []node.Arg{{Name: "nonsense"}},
				External: &node.ExternalEtcd{Endpoints: []string{"https://a:2379"}}}
		}, ""},
		"authorization from a file": {func(n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "authorization-config", Value: "/a"}}
		}, ""},
		"authorization from a file and a mode": {func(n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "authorization-mode", Value: "RBAC"},
				{Name: "authorization-config", Value: "/a"}}
		}, "ComponentArgs apiServer.extraArgs[0]"},
		"another plugin is disabled": {func(n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "disable-admission-plugins", Value: "Priority"}}
		}, ""},
		"a plugin that is enabled by default": {func(n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "disable-admission-plugins", Value: "Priority,NodeRestriction"}}
		}, "ComponentArgs apiServer.extraArgs[0]"},
		"a plugin that is enabled, too": {func(n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "enable-admission-plugins", Value: "Priority"},
				{Name: "disable-admission-plugins", Value: "Priority"}}
		}, "ComponentArgs apiServer.extraArgs[1]"},
		"a default plugin that is enabled no more": {func(n *node.Node) {
			n.Cluster.APIServer.Args = []node.Arg{{Name: "enable-admission-plugins", Value: "Priority"},
				{Name: "disable-admission-plugins", Value: "NodeRestriction"}}
		}, ""},
		"an argument of etcd": {func(n *node.Node) { n.Cluster.Etcd.Args = []node.Arg{{Name: "nonsense"}} }, "ComponentArgs etcd.local.extraArgs[0]"},
	} {
		n := &node.Node{Local: node.Local{Name: "cp1", Address: "10.0.0.10", BindPort: 6443,
			Paths: node.DefaultPaths()},
			Cluster: node.Cluster{Version: "v1.37.1", ServiceSubnet: "10.96.0.0/12",
				Etcd: node.Etcd{DataDir: "/var/lib/etcd"}}}
		c.alter(n)
		found, err := FindComponentProblems(n, Host{CADirs: CADirs()})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range found {
			got = append(got, o.Check+" "+o.Field)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %q", name, found, c.want)
		}
	}
}
