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
