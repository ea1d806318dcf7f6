package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// DefaultTool is the version of this program unless its build sets another.
const DefaultTool = "v1.37.1"

// Tool is the version of this program. It decides which versions can be deployed.
type Tool struct {
	number *version.Version
}

// ParseTool parses a semantic version such as "v1.37.1".
func ParseTool(text string) (Tool, error) {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return Tool{}, fmt.Errorf("this kubeadm was built with the invalid version %q: %w", text,
			err)
	}
	return Tool{number: v}, nil
}

// String returns the version with a leading "v".
func (t Tool) String() string { return "v" + t.number.String() }

// Version returns the version for comparison.
func (t Tool) Version() *version.Version { return t.number }

// MinorVersion is the minor version, such as "1.37".
func (t Tool) MinorVersion() string {
	return fmt.Sprintf("%d.%d", t.number.Major(), t.number.Minor())
}

// CheckTarget returns an error if the tool does not support the release.
func (t Tool) CheckTarget(target Target) error {
	oldest, newest := minorReleases[0], minorReleases[len(minorReleases)-1]
	v := target.Version()
	// a pre-release of the oldest is not supported
	if !v.LessThan(version.MustParseSemantic(oldest.String()+".0")) && v.Major() == major &&
		v.Minor() <= newest.minor {
		return nil
	}
	return fmt.Errorf("kubeadm %s does not support Kubernetes %s, only %s to %s; choose one of those, or use the kubeadm of that release",
		t, target, oldest, newest)
}

// IsOlderThan reports whether the release has a newer minor version than the tool. A development
// build (v0.0.0) counts as newer than every release.
func (t Tool) IsOlderThan(target Target) bool {
	if t.number.Major() == 0 && t.number.Minor() == 0 && t.number.Patch() == 0 {
		return false
	}
	return t.behind(target.Version())
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
