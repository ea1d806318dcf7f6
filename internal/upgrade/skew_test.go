package upgrade

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/release"
)

func TestVersionSkewPolicy(t *testing.T) {
	const mandatory, skippable = true, false
	for name, c := range map[string]struct {
		target, cluster string
		kubelet         string
		apiServer       string // of another control plane node
		choice          Choice
		want            map[string]bool // part of each violation, and whether it is mandatory
	}{
		"next minor":            {target: "v1.37.1", cluster: "v1.36.3"},
		"the same":              {target: "v1.36.3", cluster: "v1.36.3"},
		"patch by a newer tool": {target: "v1.35.4", cluster: "v1.35.1"},
		"one minor back":        {target: "v1.36.3", cluster: "v1.37.1"},
		"two minors ahead": {target: "v1.36.3", cluster: "v1.34.4",
			want: map[string]bool{"2 minor versions ahead": mandatory}},
		"two minors back": {target: "v1.35.4", cluster: "v1.37.1",
			want: map[string]bool{"2 minor versions older": mandatory}},
		"too old for the tool": {target: "v1.33.9", cluster: "v1.33.1",
			want: map[string]bool{"only 1.34 to 1.37": mandatory}},
		"newer minor than tool": {target: "v1.38.0", cluster: "v1.37.1",
			want: map[string]bool{"newer minor version than this kubeadm": mandatory}},
		"newer patch than tool": {target: "v1.37.2", cluster: "v1.37.1",
			want: map[string]bool{"newer than this kubeadm": skippable}},
		"release candidate": {target: "v1.37.0-rc.1", cluster: "v1.36.3",
			want: map[string]bool{"--allow-release-candidate-upgrades": skippable}},
		"beta, RC allowed": {target: "v1.37.0-beta.1", cluster: "v1.36.3",
			choice: Choice{AllowRC: true},
			want:   map[string]bool{"--allow-experimental-upgrades": skippable}},
		"RC allowed": {target: "v1.37.0-rc.1", cluster: "v1.36.3",
			choice: Choice{AllowRC: true}},
		"RC allowed as any": {target: "v1.37.0-rc.1", cluster: "v1.36.3",
			choice: Choice{AllowExperimental: true}},
		"pre-release far ahead": {target: "v1.37.0-rc.1", cluster: "v1.35.3",
			choice: Choice{AllowRC: true},
			want:   map[string]bool{"2 minor versions ahead": skippable}},
		"pre-release newer minor": {target: "v1.38.0-alpha.1", cluster: "v1.37.1",
			choice: Choice{AllowExperimental: true},
			want:   map[string]bool{"newer minor version": skippable}},
		"API servers of two minors": {target: "v1.36.3", cluster: "v1.36.3",
			apiServer: "v1.35.4"},
		"API server that would be left behind": {target: "v1.37.1", cluster: "v1.36.3",
			apiServer: "v1.35.4", want: map[string]bool{"v1.35.4 (other)": mandatory}},
		"oldest kubelet": {target: "v1.37.1", cluster: "v1.36.3", kubelet: "v1.34.0"},
		"kubelet too old": {target: "v1.37.1", cluster: "v1.36.3", kubelet: "v1.33.9",
			want: map[string]bool{"v1.33.9 (worker)": skippable}},
		"kubelet of no version": {target: "v1.37.1", cluster: "v1.36.3", kubelet: "edge",
			want: map[string]bool{`unusable version "edge"`: skippable}},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := release.ParseTarget(c.target)
			if err != nil {
				t.Fatal(err)
			}
			var apiServers []Instance
			if c.apiServer != "" {
				apiServers = []Instance{{"other", c.apiServer}}
			}
			if c.kubelet == "" {
				c.kubelet = "v1.36.3"
			}
			found := Skew{
				Target: target, Cluster: version.MustParseSemantic(c.cluster),
				Tool:     testReleases(t, "v1.37.1", nil).Tool,
				Kubelets: []Instance{{"worker", c.kubelet}}, APIServers: apiServers, Choice: c.choice,
			}.Violations()
			if len(found) != len(c.want) {
				t.Errorf("%d violations, want %d: %v", len(found), len(c.want), found)
			}
			for part, isMandatory := range c.want {
				said := false
				for _, v := range found {
					said = said || strings.Contains(v.Text, part) && v.Mandatory == isMandatory
				}
				if !said {
					t.Errorf("no violation says %q (mandatory: %v): %v", part, isMandatory, found)
				}
			}
		})
	}
}
