package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubeadm/internal/config/strict"
	"kubeadm/internal/config/v1beta4"
)

// The component configurations that may stand in the same file.
const (
	kindKubelet = "KubeletConfiguration"
	kindProxy   = "KubeProxyConfiguration"
)

// apiVersions gives, for every kind there is, the API version in which it is read.
func apiVersions() map[string]string {
	return map[string]string{
		v1beta4.KindInit:    v1beta4.APIVersion,
		v1beta4.KindCluster: v1beta4.APIVersion,
		v1beta4.KindJoin:    v1beta4.APIVersion,
		v1beta4.KindReset:   v1beta4.APIVersion,
		v1beta4.KindUpgrade: v1beta4.APIVersion,
		kindKubelet:         "kubelet.config.k8s.io/v1beta1",
		kindProxy:           "kubeproxy.config.k8s.io/v1alpha1",
	}
}

// lastReader gives, for each version that was removed, the last release of kubeadm that could read it.
func lastReader() map[string]string {
	return map[string]string{
		"v1beta3":  "v1.36",
		"v1beta2":  "v1.22",
		"v1beta1":  "v1.15",
		"v1alpha3": "v1.14",
		"v1alpha2": "v1.12",
		"v1alpha1": "v1.11",
	}
}

// checkVersion refuses a document that says it is ours, or of a component, in a
// version that is not read. Documents of others are none of its business.
func checkVersion(d strict.Document) error {
	want, known := apiVersions()[d.Kind]
	group, _, _ := strings.Cut(want, "/")
	switch {
	case d.Group() == v1beta4.Group && d.Version() != v1beta4.Version:
		return wrongVersion(d)
	case known && d.Group() == group && d.APIVersion != want:
		return fmt.Errorf("%s has apiVersion %s, but only %s is read: convert it by hand", d, d.APIVersion, want)
	}
	return nil
}

func wrongVersion(d strict.Document) error {
	if last, removed := lastReader()[d.Version()]; removed {
		return fmt.Errorf("%s has apiVersion %s, which is no longer read: convert the file to %s with \"kubeadm config migrate --old-config FILE --new-config FILE\" of kubeadm %s",
			d, d.APIVersion, v1beta4.Version, last)
	}
	return fmt.Errorf("%s has the unknown apiVersion %s: this kubeadm reads %s", d, d.APIVersion, v1beta4.APIVersion)
}

// ours tells whether the document is of that kind and not of a stranger's by the same name.
func ours(d strict.Document) bool {
	return apiVersions()[d.Kind] == d.APIVersion
}

// notUsed says that a document counts for nothing.
func notUsed(d strict.Document) string {
	text := fmt.Sprintf("%s of %s is not used here", d, d.APIVersion)
	kinds := slices.Sorted(maps.Keys(apiVersions()))
	if _, known := apiVersions()[d.Kind]; known {
		return text
	}
	if near := strict.Nearest(d.Kind, kinds); near != "" {
		return text + ": did you mean " + near + "?"
	}
	return text
}
