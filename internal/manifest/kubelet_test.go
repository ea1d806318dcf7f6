package manifest_test

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
)

func itoa(i int32) string { return strconv.Itoa(int(i)) }

func TestKubeletFlags(t *testing.T) {
	taints := []corev1.Taint{
		{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule},
		{Key: "c", Effect: corev1.TaintEffectNoExecute},
	}
	for _, tc := range []struct {
		name string
		node node.Local
		want string
	}{
		{"nothing to say", node.Local{Name: "vm", Hostname: "vm", Role: node.Worker}, ""},
		{"another name", node.Local{Name: "w1", Hostname: "vm", Role: node.Worker},
			"--hostname-override=w1"},
		{"taints of a worker",
			node.Local{Name: "vm", Hostname: "vm", Role: node.Worker, Taints: taints},
			"--register-with-taints=a=b:NoSchedule,c:NoExecute"},
		{"taints of a control plane",
			node.Local{Name: "vm", Hostname: "vm", Role: node.ControlPlane, Taints: taints}, ""},
		{"the user's own", node.Local{Name: "w1", Hostname: "vm", Role: node.Worker, Taints: taints,
			KubeletArgs: []node.Arg{{Name: "v", Value: `"4"`},
				{Name: "hostname-override", Value: "x"}}},
			`--register-with-taints=a=b:NoSchedule,c:NoExecute --v=\"4\" --hostname-override=x`},
	} {
		if got := string(manifest.KubeletFlags(
			&node.Node{Local: tc.node})); got != `KUBELET_KUBEADM_ARGS="`+tc.want+"\"\n" {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}

func TestKubeletWithSystemdResolved(t *testing.T) {
	const real = "resolvConf: /run/systemd/resolve/resolv.conf\n"
	for _, tc := range []struct {
		set      *string
		resolved bool
		want     string
		warns    bool
	}{
		{nil, false, "", false},
		{nil, true, real, false},
		{new("/run/systemd/resolve/resolv.conf"), true, real, false},
		{new("/srv/resolv.conf"), true, "resolvConf: /srv/resolv.conf\n", true},
		{new("/srv/resolv.conf"), false, "resolvConf: /srv/resolv.conf\n", false},
	} {
		n := ordinary()
		n.Cluster.Kubelet.Config.ResolverConfig = tc.set
		data, warnings, err := manifest.KubeletConfigFile(n,
			manifest.Host{SystemdResolved: tc.resolved}, manifest.Patches{})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "resolvConf") != (tc.want != "") ||
			!strings.Contains(string(data), tc.want) {
			t.Errorf("%v: %s", tc, data)
		}
		if (len(warnings) > 0) != tc.warns {
			t.Errorf("%v: warnings %q", tc, warnings)
		}
	}
}

// The cluster's configuration has the paths of Linux, since control planes run there.
func TestKubeletConfigOnWindows(t *testing.T) {
	n := ordinary()
	n.Platform, n.Role = node.Windows("C:"), node.Worker
	n.Cluster.Kubelet.Config.ResolverConfig = new("/etc/resolv.conf")
	data, _, err := manifest.KubeletConfigFile(n, manifest.Host{}, manifest.Patches{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"resolvConf: \"\"\n", "staticPodPath: C:/etc/kubernetes/manifests\n",
		"clientCAFile: C:/etc/kubernetes/pki/ca.crt\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is missing in\n%s", want, data)
		}
	}
}

func TestClusterWideKubeletConfig(t *testing.T) {
	n := ordinary()
	if _, _, err := manifest.KubeletConfigFile(n, manifest.Host{SystemdResolved: true},
		manifest.Patches{}); err != nil {
		t.Fatal(err)
	}
	text := must(manifest.KubeletConfig(n))(t).Data[manifest.KubeletConfigKey]
	if strings.Contains(text, "resolvConf") ||
		!strings.Contains(text, `containerRuntimeEndpoint: ""`) {
		t.Error(text)
	}
}

func TestGenerated(t *testing.T) {
	n := ordinary()
	for _, generated := range []bool{true, false} {
		n.Cluster.Kubelet.Generated, n.Cluster.KubeProxy.Generated = generated, generated
		kubelet := must(manifest.KubeletConfig(n))(t)
		proxy := must(manifest.NewKubeProxy(n, manifest.Host{}, manifest.Patches{}))(t).Config
		for _, c := range []*corev1.ConfigMap{kubelet, proxy} {
			if manifest.IsGenerated(c) != generated {
				t.Errorf("%s: generated %v is read back as %v", c.Name, generated, !generated)
			}
			for key := range c.Data {
				c.Data[key] += "# changed\n"
				break
			}
			if manifest.IsGenerated(c) {
				t.Errorf("%s: a change goes unnoticed", c.Name)
			}
		}
	}
}
