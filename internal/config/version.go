package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "kubeadm/internal/config/v1"
	"kubeadm/internal/config/v1beta3"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/strict"
)

// The component configurations that may be in the same file.
const (
	kindKubelet = "KubeletConfiguration"
	kindProxy   = "KubeProxyConfiguration"
)

// apiVersions maps every supported kind to the API version in which it is used and written.
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

// checkVersion returns an error if a document is of an unsupported version of kubeadm's API
// group, or of a component's. It does not check documents of other API groups.
func checkVersion(d strict.Document, experimental bool) error {
	newKinds := []string{v1beta4.KindReset, v1beta4.KindUpgrade} // not in v1beta3
	versions := []string{v1beta4.Version, v1beta3.Version, v1.Version}
	lastReleases := map[string]string{ // of kubeadm that support an API version
		"v1beta2":  "v1.22",
		"v1beta1":  "v1.15",
		"v1alpha3": "v1.14",
		"v1alpha2": "v1.12",
		"v1alpha1": "v1.11",
	}
	want := apiVersions()[d.Kind]
	switch {
	case d.Group() == v1beta4.Group && d.Version() == v1.Version && !experimental:
		return fmt.Errorf("%s has apiVersion %s, which is experimental: only \"kubeadm config validate\" and \"kubeadm config migrate\" with --allow-experimental-api support it; use %s",
			d, d.APIVersion, v1beta4.APIVersion)
	case d.Group() == v1beta4.Group && d.Version() == v1beta3.Version &&
		slices.Contains(newKinds, d.Kind):
		return fmt.Errorf("%s has apiVersion %s, which does not have this kind: use %s", d,
			d.APIVersion, v1beta4.APIVersion)
	case d.Group() == v1beta4.Group && !slices.Contains(versions, d.Version()):
		if last, removed := lastReleases[d.Version()]; removed {
			return fmt.Errorf("%s has apiVersion %s, which is no longer supported: convert the file with \"kubeadm config migrate --old-config FILE --new-config FILE\" of kubeadm %s, then of later releases until it is %s",
				d, d.APIVersion, last, v1beta4.Version)
		}
		return fmt.Errorf("%s has the unknown apiVersion %s: this kubeadm supports %s", d,
			d.APIVersion, v1beta4.APIVersion)
	case d.Group() != v1beta4.Group && isSupportedKind(d) && d.APIVersion != want:
		return fmt.Errorf("%s has apiVersion %s, but only %s is supported: convert it manually", d,
			d.APIVersion, want)
	}
	return nil
}

// isSupportedKind reports whether kubeadm supports the kind, rather than one of another API group
// with the same name.
func isSupportedKind(d strict.Document) bool {
	group, _, _ := strings.Cut(apiVersions()[d.Kind], "/")
	return group != "" && d.Group() == group
}

// suggestKind suggests a supported kind with a similar name, if there is one.
func suggestKind(d strict.Document) string {
	kinds := slices.Sorted(maps.Keys(apiVersions()))
	if slices.Contains(kinds, d.Kind) {
		return ""
	}
	if near := strict.Nearest(d.Kind, kinds); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}
