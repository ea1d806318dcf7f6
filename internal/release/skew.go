package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// maxKubeletSkew is how many minors a kubelet may lag behind the tool.
const maxKubeletSkew = 3

// OldestKubelet is the oldest kubelet the tool accepts on a node.
func (t Tool) OldestKubelet() *version.Version {
	minor := t.number.Minor()
	// Parsed as semantic, for only then does a pre-release count as older.
	return version.MustParseSemantic(fmt.Sprintf("%d.%d.0", t.number.Major(),
		minor-min(maxKubeletSkew, minor)))
}

// CheckTarget returns an error if the tool does not support the release.
func (t Tool) CheckTarget(target Target) error {
	v, all := target.Version(), minorReleases()
	// a pre-release of it is not supported
	oldest := version.MustParseSemantic(oldestMinor() + ".0")
	if !v.LessThan(oldest) && v.Major() == major && v.Minor() <= all[len(all)-1].minor {
		return nil
	}
	return fmt.Errorf("kubeadm %s does not support Kubernetes %s: supported are %s to %s; choose one of those, or use the kubeadm of that release",
		t, target, oldestMinor(), newestMinor())
}

// IsOlderThan reports whether the release has a newer minor version than the tool. A development
// build (v0.0.0) counts as newer than every release.
func (t Tool) IsOlderThan(target Target) bool {
	if t.number.Major() == 0 && t.number.Minor() == 0 && t.number.Patch() == 0 {
		return false
	}
	return t.behind(target.Version())
}

// CheckKubelet returns an error if the kubelet is older than the tool supports, or of a newer
// minor version than the control plane. If controlPlane is nil, the second check is skipped.
func (t Tool) CheckKubelet(kubelet, controlPlane *version.Version) error {
	if oldest := t.OldestKubelet(); kubelet.LessThan(oldest) {
		return fmt.Errorf("kubelet v%s is too old for kubeadm %s: install v%s or newer", kubelet, t,
			oldest)
	}
	if controlPlane != nil && IsKubeletNewer(kubelet, controlPlane) {
		return fmt.Errorf("kubelet v%s is newer than the control plane, v%s: install a kubelet of that minor or an older one",
			kubelet, controlPlane)
	}
	return nil
}

// IsKubeletNewer reports whether the kubelet has a newer minor version than the control plane. See
// https://kubernetes.io/releases/version-skew-policy/#kubelet.
func IsKubeletNewer(kubelet, controlPlane *version.Version) bool {
	return kubelet.Major() > controlPlane.Major() || kubelet.Minor() > controlPlane.Minor()
}

// CheckEtcd returns an error if the version of an external etcd, as its /version endpoint reports
// it, is too old.
func CheckEtcd(text string) error {
	number, err := version.ParseSemantic(text)
	if err != nil {
		return fmt.Errorf("etcd reports the invalid version %q: %w", text, err)
	}
	if number.LessThan(version.MustParseSemantic(oldestEtcd)) {
		return fmt.Errorf("etcd %s is too old: upgrade it to %s or newer", text, oldestEtcd)
	}
	return nil
}
