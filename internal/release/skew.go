package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// kubeletReach is how many minors a kubelet may lag behind the tool.
const kubeletReach = 3

// OldestKubelet is the oldest kubelet the tool accepts on a node.
func (t Tool) OldestKubelet() *version.Version {
	minor := t.number.Minor()
	// Parsed as semantic, for only then does a pre-release count as older.
	return version.MustParseSemantic(fmt.Sprintf("%d.%d.0", t.number.Major(), minor-min(kubeletReach, minor)))
}

// CheckTarget refuses a release of which nothing is known, since it is too old or too new.
func (t Tool) CheckTarget(target Target) error {
	if known(target.Version()) {
		return nil
	}
	return fmt.Errorf("kubeadm %s does not deploy Kubernetes %s: it knows %s to %s; choose one of those, or use the kubeadm of that release",
		t, target, oldest(), newest())
}

// Ahead reports whether the release is of a minor that came after the tool. A build without a version of its own
// (v0.0.0) is never behind.
func (t Tool) Ahead(target Target) bool {
	if t.number.Major() == 0 && t.number.Minor() == 0 && t.number.Patch() == 0 {
		return false
	}
	return t.behind(target.Version())
}

// CheckKubelet refuses a kubelet older than the tool accepts or newer, by
// minor, than the control plane. Nil for the control plane leaves out the
// second question.
func (t Tool) CheckKubelet(kubelet, controlPlane *version.Version) error {
	if oldest := t.OldestKubelet(); kubelet.LessThan(oldest) {
		return fmt.Errorf("kubelet v%s is too old for kubeadm %s: install v%s or newer", kubelet, t, oldest)
	}
	if controlPlane != nil && KubeletAhead(kubelet, controlPlane) {
		return fmt.Errorf("kubelet v%s is newer than the control plane, v%s: install a kubelet of that minor or an older one",
			kubelet, controlPlane)
	}
	return nil
}

// KubeletAhead reports whether the kubelet is newer, by minor, than the control plane, which Kubernetes does not support.
func KubeletAhead(kubelet, controlPlane *version.Version) bool {
	return kubelet.Major() > controlPlane.Major() || kubelet.Minor() > controlPlane.Minor()
}

// CheckEtcd refuses an external etcd whose version, as its /version endpoint
// tells it, is too old.
func CheckEtcd(text string) error {
	number, err := version.ParseSemantic(text)
	if err != nil {
		return fmt.Errorf("etcd reports the unusable version %q: %w", text, err)
	}
	if number.LessThan(version.MustParseSemantic(oldestEtcd)) {
		return fmt.Errorf("etcd %s is too old: upgrade it to %s or newer", text, oldestEtcd)
	}
	return nil
}
