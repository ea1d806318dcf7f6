package portable

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"
)

// runLogsKept is how many log files of runs are kept, with the new one.
const runLogsKept = 20

// runLogForm is the name of a log file: the command and the time at which it began. Nothing else in
// the directory is ever removed.
var runLogForm = regexp.MustCompile(`^[a-z]+(?:[-.][a-z]+)*-([0-9]{8}T[0-9]{6}\.[0-9]{3}Z)\.log$`)

// RunLogName returns the name of the log file of a run of a command that began at that time.
func RunLogName(command string, began time.Time) (string, error) {
	name := fmt.Sprintf("%s-%s.log", strings.ReplaceAll(command, " ", "-"),
		began.UTC().Format("20060102T150405.000Z"))
	if !runLogForm.MatchString(name) {
		return "", fmt.Errorf("%q is not a name of a log file", name)
	}
	return name, nil
}

// OldRunLogs returns the log files that are removed before another one is created: all but the
// newest.
func OldRunLogs(entries []fs.DirEntry) []string {
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && runLogForm.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	began := func(name string) string { return runLogForm.FindStringSubmatch(name)[1] }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(began(a), began(b)) })
	return names[:max(0, len(names)-(runLogsKept-1))]
}
