package release

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
)

func TestMinorReleasesAreSortedWithoutGaps(t *testing.T) {
	all := minorReleases
	for i, l := range all {
		if l.minor != all[0].minor+uint(i) {
			t.Errorf("line %d is 1.%d", i, l.minor)
		}
		if l.etcd == "" || l.coreDNS == "" || l.pause == "" {
			t.Errorf("1.%d lacks a tag: %+v", l.minor, l)
		}
		if i > 0 && version.MustParseSemantic(l.etcd).LessThan(
			version.MustParseSemantic(all[i-1].etcd)) {
			t.Errorf("an upgrade to 1.%d would take etcd back from %s to %s", l.minor,
				all[i-1].etcd, l.etcd)
		}
	}
	for asked, want := range map[uint]uint{0: 34, 34: 34, 36: 36, 37: 37, 99: 37} {
		if got := findMinorRelease(asked).minor; got != want {
			t.Errorf("minor %d is served by the entry of %d, want %d", asked, got, want)
		}
	}
	newest := minorReleases[len(minorReleases)-1].String()
	if own := parseTool(t, DefaultTool); own.MinorVersion() != newest {
		t.Errorf("the table ends at %s, this program is %s", newest, own)
	}
}

func TestImagesOfEachMinorRelease(t *testing.T) {
	for minor, want := range map[string][]string{
		"v1.34.4": {"registry.k8s.io/coredns/coredns:v1.12.1", "registry.k8s.io/pause:3.10.1",
			"registry.k8s.io/etcd:3.6.5-0"},
		"v1.35.4": {"registry.k8s.io/coredns/coredns:v1.13.1", "registry.k8s.io/pause:3.10.1",
			"registry.k8s.io/etcd:3.6.6-0"},
		"v1.36.3": {"registry.k8s.io/coredns/coredns:v1.14.6", "registry.k8s.io/pause:3.10.2",
			"registry.k8s.io/etcd:3.7.0-0"},
		"v1.37.1": {"registry.k8s.io/coredns/coredns:v1.14.6", "registry.k8s.io/pause:3.10.2",
			"registry.k8s.io/etcd:3.7.0-0"},
	} {
		all := Images{Target: parseTarget(t, minor)}.All()
		if diff := cmp.Diff(want, all[4:]); diff != "" ||
			!slices.Contains(all, "registry.k8s.io/kube-proxy:"+minor) {
			t.Errorf("%s: %q\n%s", minor, all, diff)
		}
	}
}

func TestAddedAndRemovedFlags(t *testing.T) {
	for _, c := range []struct {
		component, version, flag string
		errs                     []string
	}{
		{ControllerManager, "1.36.3", "concurrent-service-syncs", nil},
		{ControllerManager, "1.37.1", "concurrent-service-syncs",
			[]string{"kube-controller-manager 1.37.1", "--concurrent-service-syncs",
				"removed in 1.37"}},
		{ControllerManager, "1.36.3", "concurrent-disruption-syncs", []string{"added in 1.37"}},
		{Scheduler, "1.36.3", "concurrent-service-syncs", nil},
		{Scheduler, "1.35.0", "tls-curve-preferences",
			[]string{"kube-scheduler 1.35.0", "added in 1.36"}},
		{APIServer, "1.37.0", "min-compatibility-version", nil},
		{Kubelet, "1.34.4", "pod-infra-container-image", nil},
		{Kubelet, "1.35.0", "pod-infra-container-image", []string{"removed in 1.35"}},
		{Kubelet, "1.37.0", "storage-driver-db", []string{"removed in 1.37"}},
		{Kubelet, "1.37.0", "node-labels", nil},
		{Etcd, "3.5.24", "feature-gates", []string{"etcd 3.5.24", "added in 3.6"}},
		{Etcd, "3.6.8", "experimental-initial-corrupt-check", nil},
		{Etcd, "3.7.0", "experimental-initial-corrupt-check", []string{"removed in 3.7"}},
	} {
		t.Run(c.component+" "+c.version+" "+c.flag, func(t *testing.T) {
			wantError(t, CheckFlag(c.component, version.MustParseSemantic(c.version), c.flag),
				c.errs...)
		})
	}
}

func TestEtcdVersionFromTag(t *testing.T) {
	for tag, want := range map[string]string{"": "3.7.0", "3.5.24-0": "3.5.24", "v3.6.1": "3.6.1",
		"mine": "3.7.0"} {
		i := Images{Target: parseTarget(t, "v1.37.1"), Etcd: ImageChoice{Tag: tag}}
		if got := i.EtcdVersion().String(); got != want {
			t.Errorf("tag %q: %s, want %s", tag, got, want)
		}
	}
}
