package doctor

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// configFile is the file to which a remedy exports the configuration of the cluster.
const configFile = "cluster.yaml"

// runWithStored is the command of a phase of init that creates a file of this node by the
// configuration that the cluster stores. Without a file a phase of init uses the defaults. The files
// that it would keep or refuse are moved away, once the configuration has been read.
func (m *machine) runWithStored(phase string, inTheWay []string) string {
	kubectl := untrusted.Command("kubectl --kubeconfig", m.identity.Kubeconfig)
	if kubectl == "" || untrusted.Command("", m.local.Name) == "" {
		return ""
	}
	command := fmt.Sprintf("%s -n kube-system get configmap %s -o 'jsonpath={.data.%s}' >%s", kubectl,
		manifest.KubeadmConfigMap, manifest.KubeadmConfigKey, configFile)
	own := fmt.Sprintf(`\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n`+
		`nodeRegistration: {name: %s}\n`, m.local.Name)
	if m.local.Address != "" {
		own += fmt.Sprintf(`localAPIEndpoint: {advertiseAddress: "%s", bindPort: %d}\n`,
			m.local.Address, m.local.BindPort)
	}
	command = fmt.Sprintf("%s && printf '%s' >>%s", command, own, configFile)
	for _, file := range inTheWay {
		command += " && " + untrusted.Command("mv", file, file+".old")
	}
	return fmt.Sprintf("%s && kubeadm init phase %s --config %s", command, phase, configFile)
}

// generateFile says how to generate a file of this node, and the command for it if the stored
// configuration can be read.
func (m *machine) generateFile(phase string, inTheWay ...string) (remedy, command string) {
	remedy = "generate it from the cluster's configuration"
	if len(inTheWay) > 0 {
		remedy = fmt.Sprintf("move %s out of the way, and %s", strings.Join(inTheWay, " and "), remedy)
	}
	if m.identity.Kubeconfig == "" {
		return remedy + ", with the file that was given to kubeadm init: kubeadm init phase " + phase +
			" --config FILE", ""
	}
	return remedy + "; if the API server does not answer, use the file that was given to kubeadm init instead",
		m.runWithStored(phase, inTheWay)
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
