package cli

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/doctor"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
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

// checkCommands checks that no finding suggests a phase of init that would write the defaults over
// what the cluster is configured for. Only cluster-info needs no configuration.
func checkCommands(t *testing.T, d doctor.Diagnosis) {
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

// A renewal keeps the names of a certificate: one that lacks a name is generated again. The address in
// a kubeconfig that the user names need not be of this API server.
func TestDoctorFindsNameThatCertificateLacks(t *testing.T) {
	s := newHealthyNode(t)
	other := s.world.Files["/etc/kubernetes/admin.conf"]
	other.Data = []byte(strings.Replace(string(other.Data), "192.0.2.10:6443", "other.example:6443", 1))
	s.world.Files["/root/other.conf"] = other
	lacks := func(args ...string) (found []doctor.Finding) {
		t.Helper()
		d, _ := s.diagnose(t, args...)
		return slices.DeleteFunc(d.Findings, func(f doctor.Finding) bool { return f.Check != "Certificates" })
	}
	if found := lacks("--kubeconfig=/root/other.conf"); len(found) > 0 {
		t.Errorf("got %+v", found)
	}
	s.world.Files["/etc/kubernetes/admin.conf"] = other
	found := lacks()
	if len(found) != 1 || !strings.Contains(found[0].Text, "apiserver.crt is not valid for other.example") ||
		!strings.Contains(found[0].Remedy, "apiServer.certSANs") || strings.Contains(found[0].Remedy, "certs renew") ||
		!strings.Contains(found[0].Remedy, "mv /etc/kubernetes/pki/apiserver.crt") {
		t.Errorf("got %+v", found)
	}
}

// expiredUser is a world in which the client certificate of the kubeconfig has expired, so that no
// request is sent.
type expiredUser struct{ *fake.World }

func (expiredUser) Livez(_ context.Context, as state.Identity) error {
	return state.KubeconfigError{Err: problem.New("", fmt.Errorf("using %s: its client certificate has expired", as.Kubeconfig),
		"renew the certificate")}
}

// A credential that has expired is no defect of the API server.
func TestDoctorBlamesCredentialNotAPIServer(t *testing.T) {
	s := newHealthyNode(t)
	s.Host.World = func() world.World { return expiredUser{s.world} }
	d, _ := s.diagnose(t)
	if len(d.Findings) != 1 || d.Findings[0].Check != "APIServer" || d.Findings[0].Remedy != "renew the certificate" ||
		d.Findings[0].Text != "the kubeconfig /etc/kubernetes/admin.conf cannot be used" {
		t.Errorf("got:\n%s", describeFindings(d))
	}
	if !slices.Contains(d.Passed[doctor.Node], "StaticPods") {
		t.Errorf("the API server is not healthy: %+v", d)
	}
}

// Which of several runtimes init is to use is for the user to say, and nothing is wrong before.
func TestDoctorLeavesChoiceOfRuntime(t *testing.T) {
	s := newTestMachine(t)
	s.world.Sockets = []string{"unix:///run/containerd/containerd.sock", "unix:///run/cri-dockerd.sock"}
	d, code := s.diagnose(t)
	if len(d.Findings) > 0 || code != 0 {
		t.Errorf("exit code %d:\n%s", code, describeFindings(d))
	}
	isCRI := func(n doctor.NotChecked) bool { return n.Check == "CRI" }
	i := slices.IndexFunc(d.NotChecked, isCRI)
	if i < 0 || !strings.Contains(d.NotChecked[i].Reason, "/run/cri-dockerd.sock") ||
		!strings.Contains(d.NotChecked[i].Reason, "kubeadm init") {
		t.Errorf("not checked: %+v", d.NotChecked)
	}
}
