package cli

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/doctor"
	"kubeadm/internal/world/memory"
)

// storedText is a value of a ConfigMap.
func (s *testMachine) storedText(t *testing.T, configMap, key string) (text string) {
	t.Helper()
	s.editObject(t, "ConfigMap", configMap, func(o map[string]any) {
		text = o["data"].(map[string]any)[key].(string)
	})
	return text
}

// follow runs a command of a finding as a shell would: what exports the configuration to a file
// first, and then kubeadm.
func (s *testMachine) follow(t *testing.T, command string) {
	t.Helper()
	for part := range strings.SplitSeq(command, " && ") {
		words := strings.Fields(part)
		file := "cluster.yaml"
		switch words[0] {
		case "kubectl":
			want := "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get configmap kubeadm-config " +
				"-o 'jsonpath={.data.ClusterConfiguration}' >" + file
			if part != want {
				t.Fatalf("cannot run %q", part)
			}
			s.world.Files[file] = memory.File{Mode: 0o644,
				Data: []byte(s.storedText(t, "kubeadm-config", "ClusterConfiguration"))}
		case "printf":
			text, err := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimSuffix(part, " >>"+file)).Output()
			if err != nil {
				t.Fatalf("%s: %v", part, err)
			}
			f := s.world.Files[file]
			f.Data = append(f.Data, text...)
			s.world.Files[file] = f
		case "mv":
			s.world.Files[words[2]] = s.world.Files[words[1]]
			delete(s.world.Files, words[1])
		case "kubeadm":
			if err := s.run(t.Context(), words[1:]...); err != nil {
				t.Fatalf("%s: %v\n%s", part, err, &s.err)
			}
		default:
			t.Fatalf("cannot run %q", part)
		}
	}
}

func deleted(kind, name string) func(*testing.T, *testMachine) {
	return func(_ *testing.T, s *testMachine) {
		maps.DeleteFunc(s.world.Objects, func(k memory.Key, _ *unstructured.Unstructured) bool {
			return k.Kind.Kind == kind && k.Name == name
		})
	}
}

// What a finding's command creates again is as it was, in a cluster whose configuration is not the
// default, and what the cluster stores stays as it is.
func TestDoctorCommandsKeepConfiguration(t *testing.T) {
	custom := slices.Concat(quick, []byte(`controlPlaneEndpoint: api.example:6443
networking: {dnsDomain: corp.example, podSubnet: 10.99.0.0/16, serviceSubnet: 10.98.0.0/16}
apiServer: {certSANs: [extra.example], extraArgs: [{name: v, value: "4"}]}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {name: cp1}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
`))
	for name, c := range map[string]struct {
		check string
		plant func(*testing.T, *testMachine)
	}{
		"CoreDNS":             {"CoreDNS", deleted("Deployment", "coredns")},
		"Service of CoreDNS":  {"CoreDNS", deleted("Service", "kube-dns")},
		"kube-proxy":          {"KubeProxy", deleted("DaemonSet", "kube-proxy")},
		"certificate":         {"Certificates", remove("/etc/kubernetes/pki/apiserver-kubelet-client.crt")},
		"damaged certificate": {"Certificates", writeFile("/etc/kubernetes/pki/apiserver.crt", "damaged")},
		"server certificate": {"Certificates", func(t *testing.T, s *testMachine) {
			remove("/etc/kubernetes/pki/apiserver.crt")(t, s)
			remove("/etc/kubernetes/pki/apiserver.key")(t, s)
		}},
		"kubeconfig": {"Kubeconfigs", remove("/etc/kubernetes/controller-manager.conf")},
		"manifest":   {"StaticPodManifest", remove("/etc/kubernetes/manifests/kube-scheduler.yaml")},
		"API server": {"StaticPodManifest", remove("/etc/kubernetes/manifests/kube-apiserver.yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHealthyNodeOf(t, custom)
			objects := maps.Clone(s.world.Objects)
			texts := map[string]string{}
			for file, f := range s.world.Files {
				texts[file] = string(f.Data)
			}
			c.plant(t, s)
			d, _ := s.diagnose(t)
			i := slices.IndexFunc(d.Findings, func(f doctor.Finding) bool { return f.Check == c.check })
			if i < 0 {
				t.Fatalf("not found:\n%s", describeFindings(d))
			}
			found := d.Findings[i]
			s.follow(t, found.Command)
			for key, o := range objects {
				now := s.world.Objects[key]
				if now == nil || key.Kind.Kind == "ConfigMap" && !equalData(now.Object, o.Object) {
					t.Errorf("%v is now\n%v", key, now)
				}
			}
			for file, text := range texts {
				now, ok := s.world.Files[file]
				isText := strings.HasSuffix(file, ".yaml")
				if !ok || isText && string(now.Data) != text {
					t.Errorf("%s is now\n%s", file, now.Data)
				}
			}
			if d, _ := s.diagnose(t); slices.ContainsFunc(d.Findings,
				func(f doctor.Finding) bool { return f.Check == c.check && f.Text == found.Text }) {
				t.Errorf("it is not repaired:\n%s", describeFindings(d))
			}
		})
	}
}

func equalData(a, b map[string]any) bool {
	x, _ := a["data"].(map[string]any)
	y, _ := b["data"].(map[string]any)
	return maps.Equal(x, y)
}
