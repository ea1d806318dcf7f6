package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubeadm/internal/config/strict"
	v1 "kubeadm/internal/config/v1"
	"kubeadm/internal/config/v1beta3"
	"kubeadm/internal/config/v1beta4"
)

// The component configurations that may stand in the same file.
const (
	kindKubelet = "KubeletConfiguration"
	kindProxy   = "KubeProxyConfiguration"
)

// apiVersions gives, for every kind there is, the API version in which it is used and written.
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

// newKinds are those that v1beta3 did not have.
func newKinds() []string { return []string{v1beta4.KindReset, v1beta4.KindUpgrade} }

// lastReleases gives, for each version that was removed, the last release of kubeadm that could read it.
func lastReleases() map[string]string {
	return map[string]string{
		"v1beta2":  "v1.22",
		"v1beta1":  "v1.15",
		"v1alpha3": "v1.14",
		"v1alpha2": "v1.12",
		"v1alpha1": "v1.11",
	}
}

// checkVersion refuses a document that says it is ours, or of a component, in a
// version that is not read. Documents of others are none of its business.
func checkVersion(d strict.Document, experimental bool) error {
	want, known := apiVersions()[d.Kind]
	switch {
	case d.Group() == v1beta4.Group && d.Version() == v1.Version && !experimental:
		return fmt.Errorf("%s has apiVersion %s, which is experimental: only \"kubeadm config validate\" and \"kubeadm config migrate\" with --allow-experimental-api read it; use %s",
			d, d.APIVersion, v1beta4.APIVersion)
	case d.Group() == v1beta4.Group && d.Version() == v1beta3.Version && slices.Contains(newKinds(), d.Kind):
		return fmt.Errorf("%s has apiVersion %s, which has no such kind: it came with %s", d, d.APIVersion, v1beta4.APIVersion)
	case d.Group() == v1beta4.Group && !slices.Contains(versions(), d.Version()):
		return unsupportedVersionError(d)
	case d.Group() != v1beta4.Group && known && d.Group() == groupOf(want) && d.APIVersion != want:
		return fmt.Errorf("%s has apiVersion %s, but only %s is read: convert it by hand", d, d.APIVersion, want)
	}
	return nil
}

// versions are those of our own group that can be read.
func versions() []string { return []string{v1beta4.Version, v1beta3.Version, v1.Version} }

func unsupportedVersionError(d strict.Document) error {
	if last, removed := lastReleases()[d.Version()]; removed {
		return fmt.Errorf("%s has apiVersion %s, which is no longer read: convert the file with \"kubeadm config migrate --old-config FILE --new-config FILE\" of kubeadm %s, and of later ones until it is %s",
			d, d.APIVersion, last, v1beta4.Version)
	}
	return fmt.Errorf("%s has the unknown apiVersion %s: this kubeadm reads %s", d, d.APIVersion, v1beta4.APIVersion)
}

// deprecationWarnings says that a document should be converted, if so.
func deprecationWarnings(d strict.Document) []string {
	if d.Group() != v1beta4.Group || d.Version() != v1beta3.Version {
		return nil
	}
	return []string{fmt.Sprintf("%s has apiVersion %s, which upstream's kubeadm reads no longer: convert the file with \"kubeadm config migrate --old-config FILE --new-config FILE\"",
		d, d.APIVersion)}
}

// isSupportedKind tells whether the document is of that kind and not of a stranger's by the same name.
func isSupportedKind(d strict.Document) bool {
	want, known := apiVersions()[d.Kind]
	return known && d.Group() == groupOf(want)
}

func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// notUsed says that a document counts for nothing.
func notUsed(d strict.Document) string {
	return fmt.Sprintf("%s of %s is not used here", d, d.APIVersion) + suggestKind(d)
}

// describeKind is the document's kind, with what may have been meant where it is none of ours.
func describeKind(d strict.Document) string {
	if _, known := apiVersions()[d.Kind]; known && !isSupportedKind(d) {
		return d.Kind + " of " + d.APIVersion
	}
	return d.Kind + suggestKind(d)
}

// suggestKind asks whether another kind was meant, if one is near.
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
