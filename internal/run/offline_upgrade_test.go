package run

import (
	"testing"

	"kubeadm/internal/release"
)

// The simulated cluster is older than the version to upgrade to, so that there is something to show,
// and has a version that this program can deploy.
func TestSimulatedVersionIsOlderThanTarget(t *testing.T) {
	for _, c := range []struct{ tool, target, want string }{
		{"v1.37.1", "v1.37.1", "v1.37.0"},
		{"v1.37.1", "1.37.1", "v1.37.0"},
		{"v1.37.1", "v1.37.0", "v1.36.0"},
		{"v1.37.1", "v1.37.0-rc.1", "v1.36.0"},
		{"v1.37.1", "v1.36.3", "v1.36.0"},
		{"v1.37.1", "v1.34.2", "v1.34.0"},
		{"v1.37.1", "v1.34.0", "v1.34.0"}, // none older is supported
		{"v1.36.3", "v1.37.1", "v1.36.0"},
		{"v1.37.1", "v1.99.0", "v1.37.0"}, // refused later
		{"v1.37.1", "v1.9.0", "v1.37.0"},
	} {
		tool, err := release.ParseTool(c.tool)
		if err != nil {
			t.Fatal(err)
		}
		target, err := release.ParseTarget(c.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := simulatedVersion(tool, target); got != c.want {
			t.Errorf("kubeadm %s, upgrade to %q: got %s, want %s", c.tool, c.target, got, c.want)
		}
	}
}
