package doctor

import (
	"testing"

	"kubeadm/internal/manifest"
	"kubeadm/internal/state"
)

func TestReconcileCommand(t *testing.T) {
	const kubectl, yaml = "kubectl --kubeconfig a.conf ", " --dry-run=client -o yaml | kubectl --kubeconfig a.conf auth reconcile "
	want := map[string]string{
		"kubeadm:get-nodes Role": "create clusterrole kubeadm:get-nodes --verb=get --resource=nodes" + yaml +
			"--remove-extra-permissions -f -",
		"kubeadm:get-nodes Binding": "create clusterrolebinding kubeadm:get-nodes --clusterrole=kubeadm:get-nodes " +
			"--group=" + manifest.TokenGroup + yaml + "--remove-extra-subjects -f -",
		"kubeadm:apiserver-kubelet-client": "create clusterrolebinding kubeadm:apiserver-kubelet-client " +
			"--clusterrole=system:kubelet-api-admin --user=kube-apiserver-kubelet-client" + yaml + "--remove-extra-subjects -f -",
		"kubeadm:kubelet-config Role": "create role kubeadm:kubelet-config --namespace=kube-system --verb=get " +
			"--resource=configmaps --resource-name=kubelet-config" + yaml + "--remove-extra-permissions -f -",
		"kubeadm:kubelet-config Binding": "create rolebinding kubeadm:kubelet-config --namespace=kube-system " +
			"--role=kubeadm:kubelet-config --group=system:nodes --group=" + manifest.TokenGroup + yaml +
			"--remove-extra-subjects -f -",
		"kubeadm:cluster-admins": "create clusterrolebinding kubeadm:cluster-admins --clusterrole=cluster-admin " +
			"--group=" + manifest.AdminGroup + yaml + "--remove-extra-subjects -f -",
	}
	rbac, kubelet := manifest.BootstrapRBAC(), manifest.KubeletConfigAccess.Objects()
	for name, o := range map[string]state.Object{"kubeadm:get-nodes Role": rbac[0], "kubeadm:get-nodes Binding": rbac[1],
		"kubeadm:apiserver-kubelet-client": rbac[5], "kubeadm:kubelet-config Role": kubelet[0],
		"kubeadm:kubelet-config Binding": kubelet[1], "kubeadm:cluster-admins": manifest.ClusterAdmins()} {
		if got := reconcileCommand(o, "a.conf"); got != kubectl+want[name] {
			t.Errorf("%s:\n got %s\nwant %s%s", name, got, kubectl, want[name])
		}
	}
}
