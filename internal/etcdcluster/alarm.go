package etcdcluster

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kubeadm/internal/state"
)

// Kinds of alarms that etcd raises.
const (
	NoSpace = "NOSPACE" // the database has reached its quota: the cluster is read-only
	Corrupt = "CORRUPT" // the data of a member differ from those of the others
)

// Alarm is an alarm of the etcd cluster.
type Alarm struct {
	Member uint64 // that raised it; 0 if it is not known
	Kind   string
}

// alarmText is an alarm as a member's status has it. Each member lists the alarms of all members
// (Status in etcd's server/etcdserver/api/v3rpc/maintenance.go).
var alarmText = regexp.MustCompile(`^(?:memberID:(\d+)\s+)?alarm:(\w+)\s*$`)

// SplitAlarms returns the alarms of the cluster, each once, and the health without them: a member
// that reports nothing else is healthy.
func (h Health) SplitAlarms() (Health, []Alarm) {
	var all []Alarm
	h.Healthy, h.Unhealthy = maps.Clone(h.Healthy), maps.Clone(h.Unhealthy)
	for _, member := range h.Members {
		reported, answers := errors.AsType[ReportedProblems](h.Unhealthy[member.ID])
		if !answers {
			continue
		}
		var others []string
		for text := range strings.SplitSeq(string(reported), "; ") {
			found := alarmText.FindStringSubmatch(text)
			if found == nil {
				others = append(others, text)
				continue
			}
			a := Alarm{Kind: found[2]}
			a.Member, _ = strconv.ParseUint(found[1], 10, 64) // without an ID it is 0
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		if len(others) > 0 {
			h.Unhealthy[member.ID] = ReportedProblems(strings.Join(others, "; "))
			continue
		}
		delete(h.Unhealthy, member.ID)
		if status, ok := h.Answered[member.ID]; ok {
			status.Problems = nil
			h.Healthy[member.ID] = status
		}
	}
	return h, all
}

// FormatID returns the ID of a member as etcd's own tools write it.
func FormatID(id uint64) string { return strconv.FormatUint(id, 16) }

// FormatSize returns a number of bytes in the unit that keeps it short.
func FormatSize(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
}

// CheckRemoval returns an error if etcd has no quorum now, or would have none without the member.
// Members that have raised an alarm count as healthy: etcd accepts changes of its members then.
func (h Health) CheckRemoval(m state.Member) error {
	h, _ = h.SplitAlarms()
	if m.Learner {
		return h.CheckQuorum()
	}
	return errors.Join(h.CheckQuorum(), h.CheckQuorum(m.ID))
}
