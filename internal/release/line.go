package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// line is what goes with one Kubernetes minor: the tags of the images that do not carry its version, and
// what its components want in their manifests.
type line struct {
	minor       uint
	etcd        string
	coreDNS     string
	pause       string
	flexVolumes bool // its controller manager looks for volume plugins of the host
}

// lines is sorted by minor and has no gaps. To know another minor, add a row here and its flags in spans.
//
// The two newest go with what upstream's kubeadm of our own release deploys them with, so that both
// may work on one cluster. Upstream's no longer deploys the others: they go with what was released and tested with them.
func lines() []line {
	return []line{
		{minor: 34, etcd: "3.6.5-0", coreDNS: "v1.12.1", pause: "3.10.1", flexVolumes: true},
		{minor: 35, etcd: "3.6.6-0", coreDNS: "v1.13.1", pause: "3.10.1", flexVolumes: true},
		{minor: 36, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
		{minor: 37, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
	}
}

const (
	// major is that of every Kubernetes there is.
	major = 1
	// oldestEtcd is the oldest external etcd that will do.
	oldestEtcd = "3.5.24-0"
)

// lineOf returns the entry of that minor or, outside the table, the nearest.
func lineOf(minor uint) line {
	all := lines()
	for _, l := range all {
		if l.minor >= minor {
			return l
		}
	}
	return all[len(all)-1]
}

// oldest and newest name the lines at the ends of the table, such as "1.34".
func oldest() string { return lines()[0].String() }
func newest() string { return lines()[len(lines())-1].String() }

func (l line) String() string { return fmt.Sprintf("%d.%d", major, l.minor) }

// known tells whether the version is of a line in the table. A pre-release of the oldest is not: it came before it.
func known(v *version.Version) bool {
	all := lines()
	return !v.LessThan(version.MustParseSemantic(oldest()+".0")) && v.Major() == major && v.Minor() <= all[len(all)-1].minor
}

// FlexVolumes tells whether the release's controller manager is shown the folder of the host with volume plugins.
func (t Target) FlexVolumes() bool { return lineOf(t.Minor()).flexVolumes }
