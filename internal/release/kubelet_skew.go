package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// KubeletSkew is how many minors a kubelet may be older than the API servers, and than the program. See
// https://kubernetes.io/releases/version-skew-policy/#kubelet.
const KubeletSkew = 3

// CheckKubelet returns an error if the kubelet is older than the tool supports, or of a newer
// minor version than the control plane. If controlPlane is nil, the second check is skipped.
func (t Tool) CheckKubelet(kubelet, controlPlane *version.Version) error {
	minor := t.number.Minor()
	// Parsed as semantic, for only then does a pre-release count as older.
	oldest := version.MustParseSemantic(fmt.Sprintf("%d.%d.0", t.number.Major(),
		minor-min(KubeletSkew, minor)))
	if kubelet.LessThan(oldest) {
		return fmt.Errorf("kubelet v%s is too old for kubeadm %s: install v%s or newer", kubelet, t,
			oldest)
	}
	if controlPlane != nil && IsKubeletNewer(kubelet, controlPlane) {
		return fmt.Errorf("kubelet v%s is newer than the control plane, v%s: install a kubelet of the same or an older minor version",
			kubelet, controlPlane)
	}
	return nil
}

// IsKubeletNewer reports whether the kubelet has a newer minor version than the control plane. See
// https://kubernetes.io/releases/version-skew-policy/#kubelet.
func IsKubeletNewer(kubelet, controlPlane *version.Version) bool {
	return kubelet.Major() > controlPlane.Major() || kubelet.Minor() > controlPlane.Minor()
}
