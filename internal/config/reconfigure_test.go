package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/release"
)

const storedForReconfigure = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
controlPlaneEndpoint: lb.example.com:6443
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}
etcd: {local: {dataDir: /srv/etcd}}
apiServer:
  certSANs: [old.example.com]
  extraArgs: [{name: v, value: "2"}, {name: event-ttl, value: 1h}]
`

// reconfigured returns the fields that a file and flags change of the stored configuration.
func reconfigured(t *testing.T, document string, flags ReconfigureFlags) ([]FieldChange, StoredConfig) {
	t.Helper()
	file := File{}
	if document != "" {
		file = File{Name: "cluster.yaml", Data: []byte(document)}
	}
	stored := StoredConfig{Cluster: storedForReconfigure,
		Kubelet: StoredComponent{Text: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
			Generated: true}}
	wanted, _, err := Reconfigure(file, flags, stored, 6443)
	if err != nil {
		t.Fatal(err)
	}
	local := NewLocal()
	local.BindPort, local.Address = 6443, "192.0.2.10"
	before, _, err := CompleteUpgrade(local, stored, release.Target{})
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := CompleteUpgrade(local, wanted, release.Target{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := ListChanges(&before.Cluster, &after.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	return changes, wanted
}

// What a running cluster cannot change may be left out; everything else that is left out is removed.
func TestReconfigureByFile(t *testing.T) {
	got, wanted := reconfigured(t, `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controlPlaneEndpoint: lb.example.com
apiServer:
  extraArgs: [{name: v, value: "4"}]
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 99
`, ReconfigureFlags{})
	want := []FieldChange{
		{Kind: "ClusterConfiguration", Field: "apiServer.certSANs[old.example.com]", Before: "old.example.com"},
		{Kind: "ClusterConfiguration", Field: "apiServer.extraArgs[event-ttl]", Before: "1h"},
		{Kind: "ClusterConfiguration", Field: "apiServer.extraArgs[v]", Before: "2", After: "4"},
		{Kind: "KubeletConfiguration", Field: "maxPods", After: "99"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if wanted.Kubelet.Generated {
		t.Error("the configuration of the kubelets counts as generated")
	}
}

func TestReconfigureByFlags(t *testing.T) {
	got, wanted := reconfigured(t, "", ReconfigureFlags{AddCertSANs: []string{"new.example.com", "old.example.com"},
		SetArgs: []string{"kube-apiserver:event-ttl-", "kube-apiserver:v=4", "etcd:--quota-backend-bytes=1,2"}})
	want := []FieldChange{
		{Kind: "ClusterConfiguration", Field: "apiServer.certSANs[new.example.com]", After: "new.example.com"},
		{Kind: "ClusterConfiguration", Field: "apiServer.extraArgs[event-ttl]", Before: "1h"},
		{Kind: "ClusterConfiguration", Field: "apiServer.extraArgs[v]", Before: "2", After: "4"},
		{Kind: "ClusterConfiguration", Field: "etcd.local.extraArgs[quota-backend-bytes]", After: "1,2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !wanted.Kubelet.Generated {
		t.Error("the configuration of the kubelets does not count as generated any more")
	}
}

// A gate is set on the components that have it, or on the one that the flag names, and other gates stay.
func TestReconfigureFeatureGates(t *testing.T) {
	fields := func(flags ...string) (all []string, wanted StoredConfig) {
		got, wanted := reconfigured(t, strings.Replace(storedForReconfigure, "{name: v,",
			"{name: feature-gates, value: ContextualLogging=true}, {name: v,", 1), ReconfigureFlags{FeatureGates: flags})
		for _, c := range got {
			all = append(all, c.Kind+" "+c.Field+" "+c.Before+" -> "+c.After)
		}
		return all, wanted
	}
	const server = "ClusterConfiguration apiServer.extraArgs[feature-gates]  -> ContextualLogging=true"
	for _, c := range []struct {
		flag, want string
	}{
		{"kube-apiserver:ContextualLogging=false", "ClusterConfiguration apiServer.extraArgs[feature-gates]  -> ContextualLogging=false"},
		{"ContextualLogging-", ""},
		{"kubelet:AllAlpha=false", server + "\nKubeletConfiguration featureGates.AllAlpha  -> false"},
		{"kube-apiserver:AllBeta=1", server + ",AllBeta=true"},
		{"ContextualLogging=true", `ClusterConfiguration apiServer.extraArgs[feature-gates]  -> ContextualLogging=true
ClusterConfiguration controllerManager.extraArgs[feature-gates]  -> ContextualLogging=true
ClusterConfiguration scheduler.extraArgs[feature-gates]  -> ContextualLogging=true
KubeletConfiguration featureGates.ContextualLogging  -> true`},
	} {
		got, wanted := fields(c.flag)
		if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s: %s", c.flag, diff)
		}
		if isUsers := strings.Contains(c.want, "Kubelet"); wanted.Kubelet.Generated == isUsers {
			t.Errorf("%s: the configuration of the kubelets counts as generated: %t", c.flag, wanted.Kubelet.Generated)
		}
	}
}

// A document that is the stored one leaves that as it is.
func TestReconfigureBySameDocument(t *testing.T) {
	got, wanted := reconfigured(t, "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n", ReconfigureFlags{})
	if len(got) > 0 || !wanted.Kubelet.Generated {
		t.Errorf("changes %v, generated: %t", got, wanted.Kubelet.Generated)
	}
}

// Without a file and flags nothing changes.
func TestReconfigureByNothing(t *testing.T) {
	if got, _ := reconfigured(t, "", ReconfigureFlags{}); len(got) > 0 {
		t.Errorf("changes %v", got)
	}
}

// Values of one argument that is given twice are shown together.
func TestFlattenRepeatedArguments(t *testing.T) {
	got, err := flatten("extraArgs: [{name: issuer, value: a}, {name: issuer, value: b}]")
	if err != nil || !strings.Contains(got["extraArgs[issuer]"], "a, b") {
		t.Errorf("%v, %v", got, err)
	}
}

// An endpoint without a port has the default one on machines that do not know that of their API server.
func TestStoredEndpointWithoutPort(t *testing.T) {
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	stored := strings.Replace(storedForReconfigure, "lb.example.com:6443", "lb.example.com", 1)
	n, _, err := CompleteMember(NewLocal(), stored, tool)
	if err != nil || n.Cluster.Endpoint != "lb.example.com:6443" {
		t.Errorf("the endpoint is %q: %v", n.Cluster.Endpoint, err)
	}
}
