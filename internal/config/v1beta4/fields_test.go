package v1beta4

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The golden file lists every field of the API as kubeadm v1.37.1 of the Kubernetes
// project has it: its path, its type and whether it is left out when empty.
func TestFieldsMatchUpstream(t *testing.T) {
	want, err := os.ReadFile("testdata/fields.golden")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kind := range []any{InitConfiguration{}, ClusterConfiguration{}, JoinConfiguration{},
		ResetConfiguration{}, UpgradeConfiguration{}} {
		got = append(got, fields(reflect.TypeOf(kind).Name(), reflect.TypeOf(kind))...)
	}
	slices.Sort(got)
	if diff := cmp.Diff(string(want), strings.Join(got, "\n")+"\n"); diff != "" {
		t.Errorf("(-API +ours):\n%s", diff)
	}
}

func fields(path string, t reflect.Type) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		own := strings.HasPrefix(f.Type.PkgPath(), "kubeadm/")
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta]():
		case name == "" && own:
			all = append(all, fields(path, f.Type)...)
		case name == "":
			all = append(all, path+" + "+f.Type.Name())
		default:
			all = append(all, field(path+"."+name, strings.TrimSuffix(" "+rest, " "), f.Type)...)
		}
	}
	return all
}

func field(path, suffix string, t reflect.Type) []string {
	star := ""
	if t.Kind() == reflect.Pointer {
		star, t = "*", t.Elem()
	}
	if t.Kind() == reflect.Slice {
		path, t = path+"[]", t.Elem()
	}
	if t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "kubeadm/") {
		return append([]string{path + suffix}, fields(path, t)...)
	}
	name := t.Name()
	if t.Kind() == reflect.Map {
		name = t.String()
	}
	return []string{path + " " + star + name + suffix}
}

func TestDefaultKeepsSetValues(t *testing.T) {
	for _, c := range []struct {
		name string
		into interface{ Default() }
		text string
	}{
		{"init", &InitConfiguration{},
			`{"apiVersion":"kubeadm.k8s.io/v1beta4","kind":"InitConfiguration","bootstrapTokens":[{"token":"a","ttl":"1h0m0s","usages":["signing"],"groups":["g"]}],"localAPIEndpoint":{"bindPort":1},"nodeRegistration":{"imagePullPolicy":"Never","imagePullSerial":false,"taints":[]},"timeouts":{"controlPlaneComponentHealthCheck":"1s","kubeletHealthCheck":"2s","kubernetesAPICall":"3s","etcdAPICall":"4s","tlsBootstrap":"5s","discovery":"6s","upgradeManifests":"7s"}}`},
		{"cluster", &ClusterConfiguration{},
			`{"apiVersion":"kubeadm.k8s.io/v1beta4","kind":"ClusterConfiguration","networking":{"serviceSubnet":"s","dnsDomain":"d"},"kubernetesVersion":"v","certificatesDir":"c","imageRepository":"i","clusterName":"n","encryptionAlgorithm":"e","certificateValidityPeriod":"1h0m0s","caCertificateValidityPeriod":"2h0m0s","etcd":{"external":{"endpoints":["a"],"httpEndpoints":["b"],"caFile":"","certFile":"","keyFile":""}},"apiServer":{"extraEnvs":[{"name":"a","valueFrom":{"fieldRef":{"apiVersion":"v2","fieldPath":"x"}}}]},"controllerManager":{},"scheduler":{},"dns":{},"proxy":{}}`},
		{"join", &JoinConfiguration{},
			`{"apiVersion":"kubeadm.k8s.io/v1beta4","kind":"JoinConfiguration","caCertPath":"/c","controlPlane":{"localAPIEndpoint":{"bindPort":1}},"discovery":{"bootstrapToken":{"token":"a"},"file":{"kubeConfigPath":"p"},"tlsBootstrapToken":"t"},"nodeRegistration":{"imagePullPolicy":"Never","imagePullSerial":true,"taints":null},"timeouts":{"controlPlaneComponentHealthCheck":"1s","kubeletHealthCheck":"2s","kubernetesAPICall":"3s","etcdAPICall":"4s","tlsBootstrap":"5s","discovery":"6s","upgradeManifests":"7s"}}`},
		{"reset", &ResetConfiguration{},
			`{"apiVersion":"kubeadm.k8s.io/v1beta4","kind":"ResetConfiguration","certificatesDir":"/c","timeouts":{"controlPlaneComponentHealthCheck":"1s","kubeletHealthCheck":"2s","kubernetesAPICall":"3s","etcdAPICall":"4s","tlsBootstrap":"5s","discovery":"6s","upgradeManifests":"7s"}}`},
	} {
		var want, got any
		if err := json.Unmarshal([]byte(c.text), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
			t.Fatal(err)
		}
		c.into.Default()
		data, err := json.Marshal(c.into)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-given +defaulted):\n%s", c.name, diff)
		}
	}
}
