package release

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestTargetVersionSkew(t *testing.T) {
	for _, c := range []struct {
		tool, target string
		ahead        bool
		errs         []string
	}{
		{tool: "v1.37.1", target: "v1.37.1"},
		{tool: "v1.37.1", target: "v1.37.9"},
		{tool: "v1.37.1", target: "v1.34.0"},
		{tool: "v1.37.1", target: "v1.35.0-rc.1"},
		{tool: "v1.37.1", target: "ci/v1.37.2-rc.0.4+abc"},
		{tool: "v1.37.1", target: "v1.34.0-rc.1",
			errs: []string{"v1.34.0-rc.1",
				"kubeadm v1.37.1 does not support Kubernetes v1.34.0-rc.1, only 1.34 to 1.37"}},
		{tool: "v1.37.1", target: "v1.33.13", errs: []string{"v1.33.13", "1.34 to 1.37"}},
		{tool: "v1.37.1", target: "v0.37.0", errs: []string{"v0.37.0"}},
		{tool: "v1.37.1", target: "v1.38.0-alpha.1", ahead: true,
			errs: []string{"v1.38.0-alpha.1", "1.34 to 1.37"}},
		{tool: "v1.37.1", target: "v2.35.0", ahead: true, errs: []string{"v2.35.0"}},
		{tool: "v1.36.0", target: "v1.37.0", ahead: true},
		{tool: "v0.0.0-master", target: "v1.37.0"},
	} {
		t.Run(c.tool+" "+c.target, func(t *testing.T) {
			tool, target := parseTool(t, c.tool), parseTarget(t, c.target)
			wantError(t, tool.CheckTarget(target), c.errs...)
			if got := tool.IsOlderThan(target); got != c.ahead {
				t.Errorf("Ahead = %v, want %v", got, c.ahead)
			}
		})
	}
}

func TestKubeletVersionSkew(t *testing.T) {
	for _, c := range []struct {
		kubelet, controlPlane string
		errs                  []string
	}{
		{kubelet: "v1.37.1", controlPlane: "v1.37.0"},
		{kubelet: "v1.37.9", controlPlane: "v1.37.0"},
		{kubelet: "v1.34.0", controlPlane: "v1.37.0"},
		{kubelet: "v1.33.12", errs: []string{"1.33.12", "v1.34.0"}},
		{kubelet: "v1.37.0", controlPlane: "v1.36.3", errs: []string{"1.37.0", "1.36.3"}},
		{kubelet: "v1.38.0"},
	} {
		t.Run(c.kubelet+" "+c.controlPlane, func(t *testing.T) {
			kubelet := version.MustParseSemantic(c.kubelet)
			var controlPlane *version.Version
			if c.controlPlane != "" {
				controlPlane = parseTarget(t, c.controlPlane).Version()
			}
			wantError(t, parseTool(t, "v1.37.1").CheckKubelet(kubelet, controlPlane), c.errs...)
		})
	}
}

func TestOldEtcdIsRefused(t *testing.T) {
	wantError(t, CheckEtcd("3.5.24"))
	wantError(t, CheckEtcd("3.7.3"))
	wantError(t, CheckEtcd("3.5.23"), "3.5.23", "3.5.24-0")
	wantError(t, CheckEtcd("three"), "three")
}
