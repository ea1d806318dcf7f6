package manifest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// rootless is an ordinary control plane, without root.
func rootless(t *testing.T) (*node.Node, manifest.Host) {
	t.Helper()
	n := ordinary()
	n.Cluster.FeatureGates = map[string]bool{release.RootlessControlPlane: true}
	accounts, err := manifest.SystemAccounts().Edit(
		change.Accounts{LoginDefs: []byte("SYS_UID_MIN 200\n# SYS_GID_MIN 7\n")})
	if err != nil {
		t.Fatal(err)
	}
	return n, manifest.Host{Accounts: accounts}
}

func TestRootlessPodRunsAsItsUser(t *testing.T) {
	n, h := rootless(t)
	for component, want := range map[string]string{
		manifest.Etcd:             "200:100 [] drop [ALL] add []",
		release.APIServer:         "201:101 [104] drop [ALL] add [NET_BIND_SERVICE]",
		release.ControllerManager: "202:102 [104] drop [ALL] add []",
		release.Scheduler:         "203:103 [] drop [ALL] add []",
	} {
		var pod corev1.Pod
		data := must(manifest.StaticPodFile(component, n, h, manifest.Patches{}))(t)
		if err := yaml.Unmarshal(data, &pod); err != nil {
			t.Fatal(err)
		}
		c, own := pod.Spec.SecurityContext, pod.Spec.Containers[0].SecurityContext
		got := fmt.Sprintf("%d:%d %v drop %v add %v", *c.RunAsUser, *c.RunAsGroup,
			c.SupplementalGroups, own.Capabilities.Drop, own.Capabilities.Add)
		if got != want {
			t.Errorf("%s: got %s, want %s", component, got, want)
		}
		// The API server keeps it, as NET_BIND_SERVICE is of no use to a user without it.
		if escalates := own.AllowPrivilegeEscalation == nil; escalates != (component == release.APIServer) {
			t.Errorf("%s: allowPrivilegeEscalation is %v", component, own.AllowPrivilegeEscalation)
		}
		if c.SeccompProfile == nil {
			t.Errorf("%s has lost its seccomp profile", component)
		}
	}
}

func TestOwners(t *testing.T) {
	n, h := rootless(t)
	owned := func(component string) string {
		var names []string
		for _, c := range must(manifest.OwnerChanges(component, n, h))(t) {
			names = append(names, strings.TrimPrefix(c.Target(), "owner:/etc/kubernetes/"))
		}
		return strings.Join(names, " ")
	}
	if got := owned(release.ControllerManager); got != "controller-manager.conf pki/ca.key pki/sa.key" {
		t.Errorf("the controller manager is given %q", got)
	}
	h.ExternalCA = true
	if got := owned(release.ControllerManager); strings.Contains(got, "ca.key") {
		t.Errorf("of an external CA it is given %q", got)
	}
	n.Cluster.Etcd.External = externalEtcd().Cluster.Etcd.External
	if got := owned(release.APIServer); strings.Contains(got, "etcd") {
		t.Errorf("of an external etcd the API server is given %q", got)
	}
	n.Cluster.FeatureGates = nil
	if got := owned(release.APIServer); got != "" || manifest.AccountChanges(n) != nil {
		t.Errorf("run by root the API server is given %q", got)
	}
}

func TestMissingAccount(t *testing.T) {
	n, _ := rootless(t)
	for component, account := range map[string]string{manifest.Etcd: "kubeadm-etcd", release.Scheduler: "kubeadm-ks"} {
		_, err := manifest.StaticPodFile(component, n, manifest.Host{}, manifest.Patches{})
		_, other := manifest.OwnerChanges(component, n, manifest.Host{})
		for _, err := range []error{err, other} {
			if err == nil || !strings.Contains(err.Error(), account) {
				t.Errorf("%s: %v", component, err)
			}
		}
	}
	users := manifest.SystemAccounts().Users
	if !slices.IsSorted(users) {
		t.Errorf("numbers are given in the order %q", users)
	}
}
