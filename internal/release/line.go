package release

// line is what goes with one Kubernetes minor. To deploy another minor, or to
// tie other versions to an old one, change the table and reach.
type line struct {
	minor   uint
	etcd    string // image tag
	coreDNS string
	pause   string
}

// lines is sorted by minor and has no gaps.
func lines() []line {
	return []line{
		{minor: 34, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
		{minor: 35, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
		{minor: 36, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
		{minor: 37, etcd: "3.7.0-0", coreDNS: "v1.14.6", pause: "3.10.2"},
	}
}

const (
	// reach is how many minors below its own a tool deploys.
	reach = 1
	// kubeletReach is how many minors a kubelet may lag behind the tool.
	kubeletReach = 3
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
