package upgrade

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/release"
)

// Skew is what the version skew policy compares.
type Skew struct {
	Target   release.Target
	Cluster  *version.Version // of the API server
	Tool     release.Tool
	Kubelets []Instance
	// APIServers are those of all control plane nodes.
	APIServers []Instance
	Choice     Choice // which pre-releases are allowed
}

// Violation is a rule of the version skew policy that an upgrade would break.
type Violation struct {
	Text      string
	Mandatory bool // --force does not help
}

// Violations are the rules of the policy that the upgrade would break. Rules that are mandatory for
// a release can be overridden for a pre-release.
//
// Unlike upstream's kubeadm, which deploys the minor of its own release only, this program takes
// all minors that it knows (see release.Tool.CheckTarget): a target older than the program is no
// violation.
func (s Skew) Violations() (all []Violation) {
	target := s.Target.Version()
	isRelease := target.PreRelease() == ""
	add := func(mandatory bool, format string, args ...any) {
		all = append(all, Violation{fmt.Sprintf(format, args...), mandatory})
	}
	ahead := s.Tool.IsOlderThan(s.Target)
	if err := s.Tool.CheckTarget(s.Target); err != nil && !ahead {
		add(true, "%v", err)
	}
	if target.Minor() > s.Cluster.Minor()+1 {
		add(isRelease, "%s is %d minor versions ahead of the cluster, v%s: a control plane is upgraded "+
			"one minor version at a time",
			s.Target, target.Minor()-s.Cluster.Minor(), s.Cluster)
	}
	var behind []Instance
	for _, i := range s.APIServers {
		v, err := version.ParseSemantic(i.Version)
		if err == nil && v.Minor() < s.Cluster.Minor() && target.Minor() > v.Minor()+1 {
			behind = append(behind, i)
		}
	}
	if len(behind) > 0 {
		add(isRelease, "API servers may be at most one minor version apart: first run \"kubeadm upgrade node\" on the nodes with the older ones: %s", listVersions(behind))
	}
	if target.Minor()+1 < s.Cluster.Minor() {
		add(isRelease, "%s is %d minor versions older than the cluster, v%s: a control plane can be "+
			"downgraded by at most one minor version",
			s.Target, s.Cluster.Minor()-target.Minor(), s.Cluster)
	}
	if ahead {
		add(isRelease, "%s has a newer minor version than this kubeadm, %s: upgrade kubeadm first", s.Target, s.Tool)
	} else if s.Tool.Version().LessThan(target) {
		add(false, "%s is newer than this kubeadm, %s: upgrade kubeadm first", s.Target, s.Tool)
	}
	candidate := Candidate{Version: target}
	isAllowed := s.Choice.AllowExperimental || s.Choice.AllowRC && isReleaseCandidate(target)
	if !isRelease && !isAllowed {
		add(false, "%s is a pre-release: allow it with %s", s.Target, candidate.Flag())
	}
	var tooOld []Instance
	for _, k := range s.Kubelets {
		v, err := version.ParseSemantic(k.Version)
		if err != nil {
			add(false, "the kubelet of node %s has the unusable version %q", k.Node, k.Version)
		} else if target.Minor() > v.Minor()+release.KubeletSkew {
			tooOld = append(tooOld, k)
		}
	}
	if len(tooOld) > 0 {
		add(false, "kubelets may be at most %d minor versions older than the API servers: "+
			"upgrade these first: %s", release.KubeletSkew, listVersions(tooOld))
	}
	return all
}

// SkewError is the error for an upgrade that the version skew policy forbids.
type SkewError struct {
	Cluster *Cluster
	Target  release.Target
	Err     error
}

func (e *SkewError) Error() string { return e.Err.Error() }

// Unwrap returns the violated rules.
func (e *SkewError) Unwrap() error { return e.Err }

// SkewedKubelets returns the kubelets that are newer than all API servers, and those that are too old
// for them.
func (c *Cluster) SkewedKubelets() (newer, tooOld []Instance) {
	for _, k := range c.Kubelets {
		v, err := version.ParseSemantic(k.Version)
		switch {
		case err != nil: // the Node has just been created
		case release.IsKubeletNewer(v, c.Version):
			newer = append(newer, k)
		case c.Version.Minor() > v.Minor()+release.KubeletSkew:
			tooOld = append(tooOld, k)
		}
	}
	return newer, tooOld
}
