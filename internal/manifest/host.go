package manifest

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Host holds the facts about this machine, and about the cluster that is joined, that manifests
// depend on.
type Host struct {
	CADirs     []string // those of CADirs that exist
	Env        []string // environment of this process, "NAME=value"
	ExternalCA bool     // ca.crt is there and ca.key is not
	// of the etcd cluster that is joined, this one included; nil for a new cluster
	Members         []state.Member
	Accounts        change.Accounts // of this machine; empty unless the control plane is rootless
	SystemdResolved bool            // the service systemd-resolved is active
	// KubeletInstance is the kubelet's instance configuration of this machine, which users may have
	// changed; nil for the one that is generated.
	KubeletInstance []byte
}

// CADirs are the directories in which distributions keep CA certificates. They are mounted into
// kube-apiserver and kube-controller-manager if they exist.
func CADirs() []string {
	return []string{"/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/ca-certificates",
		"/usr/share/ca-certificates", "/usr/local/share/ca-certificates"}
}

// proxyEnv are the environment variables that configure a proxy.
func (h Host) proxyEnv() []corev1.EnvVar {
	var vars []corev1.EnvVar
	for _, pair := range h.Env {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && strings.HasSuffix(strings.ToLower(name), "_proxy") {
			vars = append(vars, corev1.EnvVar{Name: name, Value: value})
		}
	}
	return vars
}

// mergeEnv sorts variables by name; of equal names the last one wins.
func mergeEnv(lists ...[]corev1.EnvVar) []corev1.EnvVar {
	var merged []corev1.EnvVar
	for _, v := range slices.Backward(slices.Concat(lists...)) {
		if !slices.ContainsFunc(merged, func(m corev1.EnvVar) bool { return m.Name == v.Name }) {
			merged = append(merged, v)
		}
	}
	slices.SortFunc(merged, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return merged
}
