package manifest_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
)

func TestUserCorefileIsKept(t *testing.T) {
	n := ordinary()
	fresh := must(manifest.NewCoreDNS(n, 2,
		manifest.Patches{}))(t).Config.Data[manifest.CorefileKey]
	older := strings.Replace(fresh,
		"cache 30 {\n       disable success cluster.local\n       disable denial cluster.local\n    }", "cache 30", 1)
	custom := strings.Replace(fresh, "    loop\n", "    log\n", 1)
	proxying := strings.Replace(custom,
		"forward . /etc/resolv.conf {\n       max_concurrent 1000\n    }",
		"proxy . /etc/resolv.conf", 1)
	for _, tc := range []struct {
		name     string
		existing map[string]string
		deployed string
		want     string
	}{
		{"none there", nil, "", "write"},
		{"our default", map[string]string{manifest.CorefileKey: fresh}, "v9.9.9-own", "write"},
		{"an older default", map[string]string{manifest.CorefileKey: older}, "v1.12.0", "write"},
		{"an empty one", map[string]string{manifest.CorefileKey: ""}, "", "write"},
		{"the user's, version unknown", map[string]string{manifest.CorefileKey: custom}, "",
			"keep"},
		{"the user's, same version", map[string]string{manifest.CorefileKey: custom}, "v1.14.6",
			"keep"},
		{"the user's, nothing breaks", map[string]string{manifest.CorefileKey: custom}, "v1.12.0",
			"keep"},
		{"the user's, a plugin is gone", map[string]string{manifest.CorefileKey: proxying}, "1.3.1",
			"migrate"},
		{"the user's, a version of their own", map[string]string{manifest.CorefileKey: custom},
			"v9.9.9-own", "keep all"},
	} {
		plan, err := manifest.PlanCorefile(n, tc.existing, tc.deployed)
		if err != nil {
			t.Fatal(err)
		}
		got := "write"
		switch {
		case plan.KeepConfig && plan.KeepDeployment && plan.Warning != "":
			got = "keep all"
		case plan.KeepConfig:
			got = "keep"
		case plan.Migrates:
			got = "migrate"
			if text := plan.Config.Data; text[manifest.CorefileBackupKey] != proxying ||
				!strings.Contains(text[manifest.CorefileKey], "forward . /etc/resolv.conf") {
				t.Errorf("migrated to %q", text)
			}
		}
		if (tc.want == "keep all") != (plan.Warning != "") {
			t.Errorf("%s: warning %q", tc.name, plan.Warning)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s (%+v)", tc.name, got, tc.want, plan)
		}
	}
	n.Cluster.DNS.ImageTag = "v1.14.6-own"
	plan := must(manifest.PlanCorefile(n, map[string]string{manifest.CorefileKey: custom},
		"v1.14.6"))(t)
	if !plan.KeepConfig || plan.KeepDeployment || plan.Warning == "" {
		t.Errorf("a tag of the user's: %+v", plan)
	}
	if _, err := manifest.PlanCorefile(n, map[string]string{"other": ""}, ""); err == nil ||
		!strings.Contains(err.Error(), "Corefile") {
		t.Errorf("no key: %v", err)
	}
}

func TestReadBackup(t *testing.T) {
	d := must(manifest.NewCoreDNS(ordinary(), 2, manifest.Patches{}))(t).Deployment
	u := must(change.ToUnstructured(d))(t)
	for range 2 { // the second time changes nothing
		if err := manifest.UseBackupCorefile(u); err != nil {
			t.Fatal(err)
		}
		text := string(must(yaml.Marshal(u))(t))
		if !strings.Contains(text,
			"          - key: Corefile-backup\n            path: Corefile\n          name: coredns\n") {
			t.Error(text)
		}
	}
	if err := manifest.UseBackupCorefile(&unstructured.Unstructured{}); err == nil {
		t.Error("a Deployment without a Corefile passes")
	}
}

func TestDeployedDNS(t *testing.T) {
	for image, want := range map[string]string{
		"registry.k8s.io/coredns/coredns:v1.14.6":               "v1.14.6",
		"localhost:5000/coredns:v1.9.3@sha256:0123456789abcdef": "v1.9.3",
		"localhost:5000/coredns":                                "",
	} {
		d := must(manifest.NewCoreDNS(ordinary(), 5, manifest.Patches{}))(t).Deployment
		d.Spec.Template.Spec.Containers[0].Image = image
		replicas, version, err := manifest.ReadDNSDeployment([]appsv1.Deployment{*d})
		if err != nil || replicas != 5 || version != want {
			t.Errorf("%s: %d %q %v", image, replicas, version, err)
		}
	}
	if replicas, version, err := manifest.ReadDNSDeployment(nil); err != nil ||
		replicas != manifest.DNSReplicas || version != "" {
		t.Errorf("none: %d %q %v", replicas, version, err)
	}
	if _, _, err := manifest.ReadDNSDeployment(make([]appsv1.Deployment, 2)); err == nil {
		t.Error("two DNS servers pass")
	}
}

func TestServiceSubnetTooSmallForDNS(t *testing.T) {
	for _, subnet := range []string{"10.96.0.0/29", "", "10.96.0.1"} {
		n := ordinary()
		n.Cluster.ServiceSubnet = subnet
		if _, err := manifest.NewCoreDNS(n, 2, manifest.Patches{}); err == nil ||
			!strings.Contains(err.Error(), subnet) {
			t.Errorf("%q: %v", subnet, err)
		}
	}
}
