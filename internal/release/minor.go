package release

import "fmt"

// minorRelease describes one minor version of Kubernetes: the tags of the images that are
// versioned separately, and what its components need in their manifests.
type minorRelease struct {
	minor       uint
	etcd        string
	coreDNS     string
	pause       string
	flexVolumes bool // its controller manager mounts the host's FlexVolume plugins
}

// minorReleases is sorted by minor and has no gaps. To support another minor, add a row here and
// its flags in flagRanges.
//
// The two newest have the images that upstream's kubeadm of our own release deploys, so that both
// programs can manage the same cluster. Upstream no longer deploys the others: they have the
// images of their own release.
var minorReleases = []minorRelease{
	{minor: 34, etcd: "3.6.5-0", coreDNS: "v1.12.1", pause: "3.10.1", flexVolumes: true},
	{minor: 35, etcd: "3.6.6-0", coreDNS: "v1.13.1", pause: "3.10.1", flexVolumes: true},
	{minor: 36, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
	{minor: 37, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
}

const (
	// major is the major version of Kubernetes.
	major = 1
	// oldestEtcd is the oldest supported version of an external etcd.
	oldestEtcd = "3.5.24-0"
)

// findMinorRelease returns the entry of that minor or, outside the table, the nearest.
func findMinorRelease(minor uint) minorRelease {
	for _, l := range minorReleases {
		if l.minor >= minor {
			return l
		}
	}
	return minorReleases[len(minorReleases)-1]
}

// String returns a text such as "1.34".
func (l minorRelease) String() string { return fmt.Sprintf("%d.%d", major, l.minor) }

// FlexVolumes reports whether the release's controller manager mounts the host's FlexVolume
// plugins.
func (t Target) FlexVolumes() bool { return findMinorRelease(t.Minor()).flexVolumes }
