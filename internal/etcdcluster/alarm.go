package etcdcluster

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
