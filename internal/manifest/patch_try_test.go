package manifest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// tryPatch checks one JSON patch against what a machine will have.
func tryPatch(t *testing.T, n *node.Node, target, operations string) error {
	t.Helper()
	patches, _, err := manifest.ParsePatches(
		[]manifest.PatchFile{{Name: "/patches/" + target + "+json.yaml", Data: []byte(operations)}})
	if err != nil {
		t.Fatal(err)
	}
	return patches.Check(n, manifest.Host{})
}

func TestTryPatches(t *testing.T) {
	kinds := map[string]func(*node.Node){
		"init":          func(*node.Node) {},
		"external etcd": func(n *node.Node) { n.Cluster.Etcd.External = &node.ExternalEtcd{} },
		"without addons": func(n *node.Node) {
			n.Cluster.DNS.Disabled, n.Cluster.Proxy.Disabled = true, true
		},
		"control plane": func(n *node.Node) { n.BootstrapKubeconfig = []byte("x") },
		"worker": func(n *node.Node) {
			n.BootstrapKubeconfig, n.Role = []byte("x"), node.Worker
		},
	}
	notUsed := map[string]string{
		"external etcd":  "etcd",
		"without addons": "corednsdeployment kubeproxydaemonset",
		"control plane":  "corednsdeployment kubeproxydaemonset",
		"worker":         "etcd kube-apiserver kube-controller-manager kube-scheduler corednsdeployment kubeproxydaemonset",
	}
	for kind, alter := range kinds {
		for _, target := range manifest.PatchTargets() {
			n := ordinary()
			alter(n)
			err := tryPatch(t, n, target, "- {op: remove, path: /none}\n")
			switch without := strings.Contains(notUsed[kind], target); {
			case without && err != nil:
				t.Errorf("%s: a patch of a target that is not used is checked: %v", kind, err)
			case !without && (err == nil ||
				!strings.Contains(err.Error(), "/patches/"+target+"+json.yaml") ||
				!strings.Contains(err.Error(), "cannot be applied to "+target)):
				t.Errorf("%s: the patch of %s gets the error %v", kind, target, err)
			}
		}
	}
}

// What does not exist yet when patches are checked must be at its later path.
func TestTryPatchesBeforeJoin(t *testing.T) {
	n := ordinary()
	n.BootstrapKubeconfig = []byte("x")
	member := state.Member{ID: 2, PeerURLs: []string{n.PeerURL()}}
	pod, err := manifest.StaticPod(manifest.Etcd, n,
		manifest.Host{Members: []state.Member{{ID: 1, Name: "a",
			PeerURLs: []string{"https://192.0.2.9:2380"}}, member}})
	if err != nil {
		t.Fatal(err)
	}
	last := len(pod.Spec.Containers[0].Command) - 1
	if err := tryPatch(t, n, manifest.Etcd,
		fmt.Sprintf("- {op: replace, path: /spec/containers/0/command/%d, value: x}\n",
			last)); err != nil {
		t.Errorf("the last argument of an etcd that joins: %v", err)
	}
	n = ordinary()
	n.Cluster.FeatureGates = map[string]bool{"RootlessControlPlane": true}
	for _, target := range append(manifest.Components(), manifest.Etcd) {
		if err := tryPatch(t, n, target,
			"- {op: replace, path: /spec/securityContext/runAsUser, value: 7}\n"); err != nil {
			t.Errorf("the user of a component that is not root: %v", err)
		}
	}
}

// The other members are not known when patches are checked. Everything else is.
func TestTryPatchesIgnoresTestOfUnknownMembers(t *testing.T) {
	n := ordinary()
	n.BootstrapKubeconfig = []byte("x")
	h := manifest.Host{Members: []state.Member{{ID: 1, Name: "a",
		PeerURLs: []string{"https://192.0.2.9:2380"}}, {ID: 2, PeerURLs: []string{n.PeerURL()}}}}
	pod, err := manifest.StaticPod(manifest.Etcd, n, h)
	if err != nil {
		t.Fatal(err)
	}
	command := pod.Spec.Containers[0].Command
	of := func(name string) int {
		return slices.IndexFunc(command,
			func(arg string) bool { return strings.HasPrefix(arg, "--"+name+"=") })
	}
	test := func(argument, value string) string {
		return fmt.Sprintf("- {op: test, path: /spec/containers/0/command/%d, value: %q}\n",
			of(argument), value)
	}
	members, text := of("initial-cluster"), command[of("initial-cluster")]
	for operations, refused := range map[string]bool{
		test("initial-cluster", text): false,
		fmt.Sprintf("- {op: test, path: /spec/containers/0/command, value: [%q]}\n",
			text): false,
		test("initial-cluster", text) +
			"- {op: remove, path: /none}\n": true,
		fmt.Sprintf("- {op: replace, path: /spec/containers/0/command/%d, value: x}\n",
			members) + test("initial-cluster", text): true,
		test("name", text):                            true,
		test("name", command[of("name")]):             false,
		"- {op: test, path: /none, value: x}\n":       true,
		"- {op: test, path: /kind, value: Service}\n": true,
	} {
		if err := tryPatch(t, n, manifest.Etcd, operations); (err != nil) != refused {
			t.Errorf("want refused %v, got error %v, of\n%s", refused, err, operations)
		}
	}
	if err := tryPatch(t, ordinary(), manifest.Etcd, test("initial-cluster", text)); err == nil {
		t.Error("a failing test is not refused although no etcd is joined and everything is known")
	}
}

// A patch may change how a component is started, but not take away what the component, its data, or the
// rest of the control plane needs.
func TestPatchesKeepWhatComponentsNeed(t *testing.T) {
	for _, c := range []struct{ target, operations, missing string }{
		{"etcd", "- {op: replace, path: /spec/containers/0/command, value: [etcd, --max-txn-ops=9]}\n",
			"the argument --advertise-client-urls, the argument --cert-file"},
		{"etcd", "- {op: replace, path: /spec/containers/0/command, value: [sh, -c, exec etcd]}\n",
			"the argument --data-dir"},
		{"etcd", "- {op: add, path: /spec/containers/0/command/-, value: --data-dir=/data}\n",
			"a volume of the host for --data-dir=/data"},
		{"etcd", "- {op: replace, path: /spec/volumes, value: [{name: etcd-data, emptyDir: {}}, {name: etcd-certs, hostPath: {path: /etc/kubernetes/pki/etcd}}]}\n",
			"a volume of the host for --data-dir=/var/lib/etcd"},
		{"etcd", "- {op: replace, path: /spec/containers/0/volumeMounts, value: []}\n",
			"a volume of the host for --cert-file=/etc/kubernetes/pki/etcd/server.crt"},
		{"etcd", "- {op: remove, path: /spec/containers/0/livenessProbe}\n", "the livenessProbe"},
		{"etcd", "- {op: remove, path: /spec/containers/0/ports}\n",
			`the port "probe-port" of its livenessProbe`},
		{"kube-apiserver", "- {op: replace, path: /spec/containers/0/command, value: [kube-apiserver]}\n",
			"the argument --authorization-mode or --authorization-config"},
		{"kube-apiserver", "- {op: replace, path: /spec/containers/0/command, value: [kube-apiserver]}\n",
			"the argument --tls-private-key-file"},
		{"kube-controller-manager", "- {op: remove, path: /spec/containers/0/command}\n",
			"the argument --kubeconfig, the argument --root-ca-file"},
		{"kube-controller-manager", "- {op: remove, path: /spec/containers/0/startupProbe}\n",
			"the startupProbe"},
		{"kube-scheduler", "- {op: replace, path: /spec/containers/0/command, value: [kube-scheduler]}\n",
			"the argument --kubeconfig or --config"},
		{"kube-scheduler", "- {op: remove, path: /spec/hostNetwork}\n", "spec.hostNetwork: true"},
		// What still works is accepted.
		{"etcd", "- {op: add, path: /spec/containers/0/command/-, value: --max-txn-ops=9}\n", ""},
		{"kube-scheduler", "- {op: replace, path: /spec/containers/0/command, value: [sh, -c, exec kube-scheduler '--config=/c']}\n", ""},
		{"kube-scheduler", "- {op: move, from: /spec/containers/0/command, path: /spec/containers/0/args}\n", ""},
		{"kube-controller-manager", "- {op: replace, path: /spec/containers/0/livenessProbe/httpGet/port, value: 10257}\n", ""},
	} {
		err := tryPatch(t, ordinary(), c.target, c.operations)
		switch {
		case c.missing == "" && err != nil:
			t.Errorf("%s is refused: %v", c.operations, err)
		case c.missing != "" && (err == nil || !strings.Contains(err.Error(), c.missing) ||
			!strings.Contains(err.Error(), "/patches/"+c.target+"+json.yaml") ||
			!strings.Contains(err.Error(), "it removes something that "+c.target+" needs: ")):
			t.Errorf("%s gets the error %v, want %q", c.operations, err, c.missing)
		}
	}
}
