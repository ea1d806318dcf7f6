package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// removable are bindings that users delete so that only machines with an approved request, or with a
// discovery file, join the cluster
// (https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-join/#securing-more).
var removable = []string{"ClusterRoleBinding kubeadm:node-autoapprove-bootstrap",
	"RoleBinding kube-public/kubeadm:bootstrap-signer-clusterinfo"}

// checkAccess compares the roles and bindings that kubeadm creates with those in the cluster.
func checkAccess(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	for _, group := range []struct {
		objects    []state.Object
		kubeconfig string // of a user who may create them
	}{
		{manifest.BootstrapRBAC(), m.cluster.as.Kubeconfig},
		{manifest.KubeadmConfigAccess.Objects(), m.cluster.as.Kubeconfig},
		{manifest.KubeletConfigAccess.Objects(), m.cluster.as.Kubeconfig},
		{[]state.Object{manifest.ClusterAdmins()}, m.Paths.Kubeconfig("super-admin.conf")},
	} {
		for _, o := range group.objects {
			done, err := change.ApplyObject{Object: o, As: m.cluster.as}.Done(ctx, r)
			if m.cluster.skipOnError(rep, err) {
				return
			}
			if done {
				continue
			}
			ref := state.RefOf(o, m.cluster.as)
			f := preflight.Finding{Severity: preflight.Error,
				Text:   fmt.Sprintf("%s is missing, or differs from the one that kubeadm creates", ref),
				Remedy: "create it again", Command: reconcileCommand(o, group.kubeconfig)}
			if slices.Contains(removable, ref.String()) {
				f.Severity = preflight.Warning
				f.Remedy = "unless that is intended, create it again"
			}
			rep.Add(f)
		}
	}
}

// reconcileCommand creates a role or binding, or corrects the one that exists.
func reconcileCommand(o state.Object, kubeconfig string) string {
	ref := state.RefOf(o, state.Identity{})
	args := []string{"create", strings.ToLower(ref.GVK.Kind), ref.Name}
	if ref.Namespace != "" {
		args = append(args, "--namespace="+ref.Namespace)
	}
	var rules []rbacv1.PolicyRule
	var subjects []rbacv1.Subject
	var role rbacv1.RoleRef
	extra := "--remove-extra-subjects"
	switch o := o.(type) {
	case *rbacv1.Role:
		rules, extra = o.Rules, "--remove-extra-permissions"
	case *rbacv1.ClusterRole:
		rules, extra = o.Rules, "--remove-extra-permissions"
	case *rbacv1.RoleBinding:
		role, subjects = o.RoleRef, o.Subjects
	case *rbacv1.ClusterRoleBinding:
		role, subjects = o.RoleRef, o.Subjects
	}
	for _, rule := range rules { // kubeadm's roles have one, of the core group
		args = append(args, "--verb="+strings.Join(rule.Verbs, ","),
			"--resource="+strings.Join(rule.Resources, ","))
		for _, name := range rule.ResourceNames {
			args = append(args, "--resource-name="+name)
		}
	}
	if role.Name != "" {
		args = append(args, "--"+strings.ToLower(role.Kind)+"="+role.Name)
	}
	for _, s := range subjects { // kubeadm's are users and groups
		args = append(args, "--"+strings.ToLower(s.Kind)+"="+s.Name)
	}
	kubectl := untrusted.Command("kubectl --kubeconfig", kubeconfig)
	if kubectl == "" {
		return ""
	}
	return fmt.Sprintf("%s %s --dry-run=client -o yaml | %s auth reconcile %s -f -", kubectl,
		strings.Join(args, " "), kubectl, extra)
}
