package release

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
)

func tool(t *testing.T, text string) Tool {
	t.Helper()
	tool, err := ParseTool(text)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func target(t *testing.T, text string) Target {
	t.Helper()
	target, err := ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// wantError fails unless err mentions every part; no parts means no error.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if len(parts) == 0 {
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

func TestToolVersionMustBeSemantic(t *testing.T) {
	if got := tool(t, DefaultTool).String(); got != DefaultTool {
		t.Errorf("got %s, want %s", got, DefaultTool)
	}
	_, err := ParseTool("1.37")
	wantError(t, err, "1.37")
}

func TestTargetIsReadBackAsStored(t *testing.T) {
	for text, want := range map[string]struct {
		stored, tag string
		ci          bool
	}{
		"v1.37.1":                       {"v1.37.1", "v1.37.1", false},
		"1.36.0":                        {"v1.36.0", "v1.36.0", false},
		"release/v1.36.0":               {"v1.36.0", "v1.36.0", false},
		"v1.38.0-alpha.1":               {"v1.38.0-alpha.1", "v1.38.0-alpha.1", false},
		"ci/v1.38.0-alpha.0.12+a1b2c3":  {"ci/v1.38.0-alpha.0.12+a1b2c3", "v1.38.0-alpha.0.12+a1b2c3", true},
		"ci-cross/v1.38.0-beta.0.1+abc": {"ci/v1.38.0-beta.0.1+abc", "v1.38.0-beta.0.1+abc", true},
	} {
		got := target(t, text)
		if got.Stored() != want.stored || got.String() != want.tag || got.CI() != want.ci {
			t.Errorf("%s: got %s, %s, %v, want %v", text, got.Stored(), got, got.CI(), want)
		}
		if again := target(t, got.Stored()); again.Stored() != got.Stored() {
			t.Errorf("%s: stored as %s, read back as %s", text, got.Stored(), again.Stored())
		}
	}
}

func TestWhatIsNoVersionIsRefused(t *testing.T) {
	for _, text := range []string{"", "v1", "v1.37", "1.37.x", "stable", "v1.2.3 4", "foo/v1.37.1", "/v1.37.1", "v01.2.3"} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestLabels(t *testing.T) {
	for text, want := range map[string]bool{
		"stable": true, "latest": true, "stable-1": true, "latest-1.37": true, "stable-1.5": true, "ci/latest": true,
		"v1.37.1": false, "stable-": false, "stable-01": false, "stable-1.037": false, "stable-1.370": false,
		"unstable": false, "stable-1.": false, "": false, "stablelatest": false,
	} {
		if got := IsLabel(text); got != want {
			t.Errorf("IsLabel(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestResolve(t *testing.T) {
	published := map[string]string{
		"https://dl.k8s.io/release/stable-1.txt":                                 "v1.38.2\n",
		"https://dl.k8s.io/release/stable-1.37.txt":                              "v1.37.4\n",
		"https://dl.k8s.io/release/stable-1.36.txt":                              "v1.36.3",
		"https://dl.k8s.io/release/latest.txt":                                   "<html>sign in</html>",
		"https://storage.googleapis.com/k8s-release-dev/ci-fast/latest-1.37.txt": "v1.37.2-rc.0.4+abc",
	}
	fetch := func(url string) (string, error) {
		if body, ok := published[url]; ok {
			return body, nil
		}
		return "", errors.New("no route to " + url)
	}
	for _, c := range []struct {
		tool, text, want string
		notes            int
		errs             []string
	}{
		{tool: "v1.37.1", text: "v1.36.2", want: "v1.36.2"},
		{tool: "v1.37.1", text: "stable-1.36", want: "v1.36.3"},
		{tool: "v1.37.1", text: "release/stable-1.36", want: "v1.36.3"},
		{tool: "v1.37.1", text: "stable-1", want: "v1.37.4", notes: 1},
		{tool: "v1.36.0", text: "stable-1", want: "v1.36.3", notes: 1},
		{tool: "v1.35.7", text: "stable-1", want: "v1.35.7", notes: 3},
		{tool: "v1.37.1", text: "stable", want: "v1.37.1", notes: 2},
		{tool: "v1.37.1", text: "latest", want: "v1.37.1", notes: 2},
		{tool: "v1.37.1", text: "ci-fast/latest-1.37", want: "ci/v1.37.2-rc.0.4+abc"},
		{tool: "v1.37.2-beta.0.7+abc", text: "stable", want: "v1.37.1", notes: 2},
		{tool: "v1.38.0-alpha.1.22+abc", text: "stable", want: "v1.38.0-alpha.1", notes: 2},
		{tool: "v1.38.0-rc+abc", text: "stable", want: "v1.38.0-rc.0", notes: 2},
		{tool: "v1.37.1", text: "nightly", errs: []string{"nightly"}},
		{tool: "v1.37.1", text: "store/stable", errs: []string{"store/stable"}},
	} {
		t.Run(c.tool+" "+c.text, func(t *testing.T) {
			got, notes, err := tool(t, c.tool).Resolve(c.text, fetch)
			wantError(t, err, c.errs...)
			if got.Stored() != c.want || len(notes) != c.notes {
				t.Errorf("got %s with notes %q, want %s with %d notes", got.Stored(), notes, c.want, c.notes)
			}
		})
	}
}

func TestVersionsAreNotFetched(t *testing.T) {
	fetch := func(url string) (string, error) {
		t.Errorf("fetched %s", url)
		return "", errors.New("unexpected")
	}
	if _, _, err := tool(t, DefaultTool).Resolve("ci/v1.37.2-rc.1", fetch); err != nil {
		t.Error(err)
	}
}

func TestSkewOfTarget(t *testing.T) {
	for _, c := range []struct {
		tool, target string
		ahead        bool
		errs         []string
	}{
		{tool: "v1.37.1", target: "v1.37.1"},
		{tool: "v1.37.1", target: "v1.37.9"},
		{tool: "v1.37.1", target: "v1.36.0"},
		{tool: "v1.37.1", target: "v1.36.0-rc.1", errs: []string{"v1.36.0-rc.1", "v1.36.0"}},
		{tool: "v1.37.1", target: "v1.35.9", errs: []string{"v1.35.9", "v1.37.1"}},
		{tool: "v1.37.1", target: "v1.38.0-alpha.1", ahead: true},
		{tool: "v1.37.1", target: "v2.0.0", ahead: true},
		{tool: "v0.0.0-master", target: "v1.38.0"},
	} {
		t.Run(c.tool+" "+c.target, func(t *testing.T) {
			tool, target := tool(t, c.tool), target(t, c.target)
			wantError(t, tool.CheckTarget(target), c.errs...)
			if got := tool.Ahead(target); got != c.ahead {
				t.Errorf("Ahead = %v, want %v", got, c.ahead)
			}
		})
	}
}

func TestSkewOfKubelet(t *testing.T) {
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
			kubelet, err := ParseKubelet("Kubernetes " + c.kubelet + "\n")
			wantError(t, err)
			var controlPlane *version.Version
			if c.controlPlane != "" {
				controlPlane = target(t, c.controlPlane).Version()
			}
			wantError(t, tool(t, "v1.37.1").CheckKubelet(kubelet, controlPlane), c.errs...)
		})
	}
}

func TestKubeletMustTellItsVersion(t *testing.T) {
	for _, output := range []string{"", "v1.37.1", "Kubernetes 1.37.1", "Kubernetes vNext", "kubelet: not found"} {
		if got, err := ParseKubelet(output); err == nil {
			t.Errorf("%q was read as %s", output, got)
		}
	}
}

func TestOldEtcdIsRefused(t *testing.T) {
	wantError(t, CheckEtcd("3.5.24"))
	wantError(t, CheckEtcd("3.7.3"))
	wantError(t, CheckEtcd("3.5.23"), "3.5.23", "3.5.24-0")
	wantError(t, CheckEtcd("three"), "three")
}

func TestImages(t *testing.T) {
	for name, c := range map[string]struct {
		images Images
		want   []string
	}{
		"default": {Images{Target: target(t, "v1.37.1")}, []string{
			"registry.k8s.io/kube-apiserver:v1.37.1",
			"registry.k8s.io/kube-controller-manager:v1.37.1",
			"registry.k8s.io/kube-scheduler:v1.37.1",
			"registry.k8s.io/kube-proxy:v1.37.1",
			"registry.k8s.io/coredns/coredns:v1.14.6",
			"registry.k8s.io/pause:3.10.2",
			"registry.k8s.io/etcd:3.7.0-0",
		}},
		"nothing optional": {Images{Target: target(t, "v1.36.3"), NoProxy: true, NoDNS: true, ExternalEtcd: true}, []string{
			"registry.k8s.io/kube-apiserver:v1.36.3",
			"registry.k8s.io/kube-controller-manager:v1.36.3",
			"registry.k8s.io/kube-scheduler:v1.36.3",
			"registry.k8s.io/pause:3.10.2",
		}},
		"own registry": {Images{
			Target: target(t, "v1.38.0-alpha.1+a.b"), Repository: "reg:5000/k8s",
			DNS:  ImageChoice{Repository: "dns.example", Tag: "v1"},
			Etcd: ImageChoice{Repository: "registry.k8s.io", Tag: "3.6.1-0"},
		}, []string{
			"reg:5000/k8s/kube-apiserver:v1.38.0-alpha.1_a.b",
			"reg:5000/k8s/kube-controller-manager:v1.38.0-alpha.1_a.b",
			"reg:5000/k8s/kube-scheduler:v1.38.0-alpha.1_a.b",
			"reg:5000/k8s/kube-proxy:v1.38.0-alpha.1_a.b",
			"dns.example/coredns:v1",
			"reg:5000/k8s/pause:3.10.2",
			"registry.k8s.io/etcd:3.6.1-0",
		}},
		"continuous integration": {Images{Target: target(t, "ci/v1.37.2-rc.0.4+abc"), NoDNS: true, ExternalEtcd: true}, []string{
			"gcr.io/k8s-staging-ci-images/kube-apiserver:v1.37.2-rc.0.4_abc",
			"gcr.io/k8s-staging-ci-images/kube-controller-manager:v1.37.2-rc.0.4_abc",
			"gcr.io/k8s-staging-ci-images/kube-scheduler:v1.37.2-rc.0.4_abc",
			"gcr.io/k8s-staging-ci-images/kube-proxy:v1.37.2-rc.0.4_abc",
			"registry.k8s.io/pause:3.10.2",
		}},
		"DNS alone from the default registry": {Images{
			Target: target(t, "v1.37.1"), Repository: "mirror", NoProxy: true, ExternalEtcd: true,
			DNS: ImageChoice{Repository: DefaultRepository},
		}, []string{
			"mirror/kube-apiserver:v1.37.1", "mirror/kube-controller-manager:v1.37.1", "mirror/kube-scheduler:v1.37.1",
			"registry.k8s.io/coredns/coredns:v1.14.6", "mirror/pause:3.10.2",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.images.All()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLinesAreSortedWithoutGaps(t *testing.T) {
	all := lines()
	for i, l := range all {
		if l.minor != all[0].minor+uint(i) {
			t.Errorf("entry %d is of minor %d", i, l.minor)
		}
	}
	for asked, want := range map[uint]uint{0: 34, 34: 34, 36: 36, 37: 37, 99: 37} {
		if got := lineOf(asked).minor; got != want {
			t.Errorf("minor %d is served by the entry of %d, want %d", asked, got, want)
		}
	}
}

func TestEveryDeployableMinorHasALine(t *testing.T) {
	tool := tool(t, DefaultTool)
	for m := tool.OldestControlPlane().Minor(); m <= tool.Version().Minor(); m++ {
		if lineOf(m).minor != m {
			t.Errorf("minor %d can be deployed but is not in the table", m)
		}
	}
}

func TestFeatureGates(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]bool
		errs []string
	}{
		{text: "", want: map[string]bool{}},
		{text: "RootlessControlPlane=true", want: map[string]bool{RootlessControlPlane: true}},
		{text: " RootlessControlPlane = f , ", want: map[string]bool{RootlessControlPlane: false}},
		{text: "RootlessControlPlane", errs: []string{"RootlessControlPlane", "lacks a value"}},
		{text: "RootlessControlPlane=yes", errs: []string{"RootlessControlPlane", "yes"}},
		{text: "NodeLocalCRISocket=true", errs: []string{"NodeLocalCRISocket", "removed", "1.37"}},
		{text: "Rootles=true", errs: []string{"Rootles", "RootlessControlPlane"}},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := ParseGates(c.text)
			wantError(t, err, c.errs...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGateIsOnAsSetElseByDefault(t *testing.T) {
	if Enabled(nil, RootlessControlPlane) {
		t.Error("an alpha gate is on by default")
	}
	if !Enabled(map[string]bool{RootlessControlPlane: true}, RootlessControlPlane) {
		t.Error("a gate that was set is off")
	}
}
