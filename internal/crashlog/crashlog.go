// Package crashlog finds the line that says why a program exited in the last lines of its log: those
// of the kubelet, of the control plane's components, of etcd and of containerd. A Go panic says it
// before the stack trace, klog's fatal lines and usage errors before what follows them.
package crashlog

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"kubeadm/internal/untrusted"
)

var (
	// what Go's runtime, klog, a component's command, zap, logrus and the flag libraries write
	// before an exit
	fatalStart = regexp.MustCompile(`^(?:panic: |fatal error: |F\d{4} \d\d:)`)
	fatalParts = []string{`"command failed"`, `"level":"fatal"`, `"level":"panic"`, "level=fatal",
		"level=panic", "failed to run Kubelet", `"failed to verify flags"`}
	// an error of klog: where no other line says that the program exits, the last one before it did
	klogError = regexp.MustCompile(`^E\d{4} \d\d:.* err=`)
	// a line of a stack trace or of a dump of registers
	stackLine = regexp.MustCompile(`^(?:\s|goroutine \d+|created by |\[signal |` +
		`r(?:\d+|[a-z]{2}|flags) +0x|[cfg]s +0x|[\w./*()@~\[\]{}-]+\.[\w.*()\[\]-]+\(.*\)$)`)
)

// Find returns the line that says why the program exited; empty if none does.
func Find(log string) string {
	lastError := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		switch {
		case IsArgumentError(line), fatalStart.MatchString(line),
			slices.ContainsFunc(fatalParts, func(p string) bool { return strings.Contains(line, p) }):
			return line
		case klogError.MatchString(line):
			lastError = line
		}
	}
	return lastError
}

// Cause returns the line of Find, else the last n lines that are not of a stack trace, each quoted
// and truncated.
func Cause(log string, n int) string {
	if line := Find(log); line != "" {
		return untrusted.Quote(line)
	}
	var quoted []string
	for _, line := range LastLines(log, n) {
		quoted = append(quoted, untrusted.Quote(line))
	}
	return strings.Join(quoted, ", ")
}

// LastLines returns the last n lines of a log that are not empty and not of a stack trace.
func LastLines(log string, n int) (last []string) {
	for line := range strings.Lines(log) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if line != "" && !stackLine.MatchString(line) {
			last = append(last, line)
		}
	}
	return last[max(0, len(last)-n):]
}

// Shorten returns the end of a log, at most limit bytes from the begin of a line. The line of Find
// comes first if the end does not hold it: a stack trace may be longer than the limit.
func Shorten(log string, limit int) string {
	if len(log) <= limit {
		return log
	}
	end := log[len(log)-limit:]
	if _, whole, ok := strings.Cut(end, "\n"); ok && whole != "" {
		end = whole
	}
	cause := Find(log)
	if cause == "" || strings.Contains(end, cause) || len(cause) >= limit {
		return end
	}
	end = end[min(len(end), len(cause)+1):]
	if _, whole, ok := strings.Cut(end, "\n"); ok {
		end = whole
	}
	return cause + "\n" + end
}

// IsArgumentError reports whether a line says that a program refused its command line: it will exit
// at each restart.
func IsArgumentError(line string) bool {
	return slices.ContainsFunc([]string{"unknown flag", "unknown shorthand flag",
		`invalid argument "`, `invalid argument \"`, "flag provided but not defined",
		"bad flag syntax", "for flag -"},
		func(part string) bool { return strings.Contains(line, part) })
}
