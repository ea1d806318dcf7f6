package manifest_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/manifest"
)

// Bindings as an API server makes them, and what else may carry their label.
var controllerBindings = []string{
	"{kind: ClusterRoleBinding, metadata: {name: 'system:controller:node-controller'}, subjects: [{kind: ServiceAccount, namespace: kube-system, name: node-controller}]}",
	"{kind: RoleBinding, metadata: {name: 'system:controller:token-cleaner', namespace: kube-system}, subjects: [{kind: ServiceAccount, namespace: kube-system, name: token-cleaner}]}",
	"{kind: RoleBinding, metadata: {name: 'system:controller:bootstrap-signer', namespace: kube-system}, subjects: [{kind: ServiceAccount, namespace: kube-system, name: bootstrap-signer}]}",
	"{kind: ClusterRoleBinding, metadata: {name: 'system:controller:bootstrap-signer'}, subjects: [{kind: ServiceAccount, namespace: kube-system, name: bootstrap-signer}]}",
	"{kind: ClusterRoleBinding, metadata: {name: 'system:controller:route-controller'}, subjects: [{kind: ServiceAccount, namespace: kube-system, name: route-controller}]}",
	"{kind: ClusterRoleBinding, metadata: {name: 'system:controller:of-others'}, subjects: [{kind: ServiceAccount, namespace: default, name: other}, {kind: User, name: someone}]}",
	"{kind: ClusterRoleBinding, metadata: {name: 'system:controller:none'}}",
	"{kind: ClusterRoleBinding, metadata: {name: 'system:kube-dns'}, subjects: [{kind: ServiceAccount, namespace: kube-system, name: kube-dns}]}",
}

func TestControllerAccounts(t *testing.T) {
	var bindings []unstructured.Unstructured
	for _, text := range controllerBindings {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		bindings = append(bindings, u)
	}
	var got []string
	for _, o := range must(manifest.ControllerAccounts(bindings))(t) {
		got = append(got, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetNamespace()+"/"+
			o.GetName())
	}
	want := []string{
		"ServiceAccount kube-system/bootstrap-signer", "ServiceAccount kube-system/node-controller",
		"ServiceAccount kube-system/token-cleaner",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	bindings[0].Object["subjects"] = "none"
	if _, err := manifest.ControllerAccounts(bindings); err == nil {
		t.Error("subjects that are no list are taken")
	}
}
