package report

import (
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/change"
)

// A summary names this many phases at most, and only those that took this many seconds at least.
const (
	summarized = 4
	shown      = 0.05
)

// Summary is for people, at the end of a run that has changed something: how long the run took, the
// longest of its phases, and what it changed. It is empty if nothing was changed.
func Summary(r Result) string {
	var made []string
	count := func(n int, what string) {
		switch {
		case n == 1:
			made = append(made, "1 "+what)
		case n > 1:
			made = append(made, fmt.Sprintf("%d %ss", n, what))
		}
	}
	isMade := func(e change.Effect) bool {
		return !slices.Contains([]change.Effect{change.LeftUnchanged, change.NotMade, change.Reverted}, e)
	}
	files := slices.DeleteFunc(slices.Clone(r.Files), func(f FileChange) bool { return !isMade(f.Effect) })
	objects := slices.DeleteFunc(slices.Clone(r.Objects), func(o ObjectChange) bool { return !isMade(o.Effect) })
	others := slices.DeleteFunc(slices.Clone(r.OtherChanges), func(o OtherChange) bool { return !isMade(o.Effect) })
	count(len(files), "file")
	count(len(objects), "object")
	count(len(others), "other change")
	if len(made) == 0 || r.Preview {
		return ""
	}
	top := slices.DeleteFunc(slices.Clone(r.Phases), func(p PhaseResult) bool {
		return strings.Contains(p.Name, "/") || p.DurationSeconds < shown
	})
	slices.SortStableFunc(top, func(a, b PhaseResult) int {
		return int(1000 * (b.DurationSeconds - a.DurationSeconds))
	})
	var longest []string
	for _, p := range top[:min(len(top), summarized)] {
		longest = append(longest, fmt.Sprintf("%s %.1f s", p.Name, p.DurationSeconds))
	}
	text := fmt.Sprintf("\n[%s] %.1f s", r.Command, r.DurationSeconds)
	if len(longest) > 1 {
		text += ", including " + strings.Join(longest, ", ")
	}
	return text + "; changed: " + strings.Join(made, ", ") + "\n"
}
