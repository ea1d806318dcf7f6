//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/engine"
	"kubeadm/internal/report"
	"kubeadm/test/nodes"
)

// runInterrupted runs a command and sends it the signal when it prints a line for which stop
// returns true. It returns once the command has exited, and reports whether there was such a line.
// A command that was about to finish may have exited before the signal.
func runInterrupted(t *testing.T, n *nodes.Node, signal unix.Signal, stop func(line string) bool,
	args ...string) (nodes.Result, bool) {
	t.Helper()
	read, write := io.Pipe()
	cmd := n.Command(args...)
	cmd.Stdout = write
	p, err := cmd.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan bool, 1)
	go func() {
		found := false
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 1<<20) // a result in JSON is one line
		for lines.Scan() {
			if !found && stop(lines.Text()) {
				err := p.Signal(signal)
				found = err == nil || errors.Is(err, os.ErrProcessDone)
			}
		}
		sent <- found
	}()
	result, _ := p.Wait() // The caller checks how it ended.
	write.Close()
	return result, <-sent
}

// atPhase matches the lines and the events of a phase and those below it.
func atPhase(name string) func(string) bool {
	return func(line string) bool {
		top, _, _ := strings.Cut(eventOf(line).Phase, "/")
		return top == name || strings.HasPrefix(line, "["+name+"] ")
	}
}

// atChange matches the line or the event that reports change number k as done, counted from 0.
func atChange(k int) func(string) bool {
	return func(line string) bool {
		if e := eventOf(line); e.Type == engine.Did {
			line = "[" + e.Phase + "] done: " + e.Message
		}
		if _, ok := doneChange(line); !ok {
			return false
		}
		k--
		return k < 0
	}
}

// eventOf decodes a line of --events=json; zero for any other line.
func eventOf(line string) (e report.RunEvent) {
	if json.Unmarshal([]byte(line), &e) != nil {
		return report.RunEvent{}
	}
	return e
}

var (
	doneLine  = regexp.MustCompile(`^\[[a-z/-]+\] done: (.*)`)
	phaseLine = regexp.MustCompile(`^\[([a-z-]+)\] `)
)

// doneChange returns the change that a line reports as done. ServiceAccounts of controllers do not
// count: which of them kube-controller-manager creates first depends on timing, and a dry run does
// not list them.
func doneChange(line string) (deed string, ok bool) {
	m := doneLine.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	account, ok := strings.CutPrefix(m[1], "apply ServiceAccount kube-system/")
	return m[1], !ok || account == "coredns" || account == "kube-proxy"
}

// phasesOf lists the phases that a run with -v=1 went through, and how many changes it made.
func phasesOf(output string) (phases []string, changes int) {
	for line := range strings.Lines(output) {
		if _, ok := doneChange(line); ok {
			changes++
		}
		m := phaseLine.FindStringSubmatch(line)
		// These two prefixes are not phases.
		if m != nil && m[1] != "kubeadm" && m[1] != "init" && !slices.Contains(phases, m[1]) {
			phases = append(phases, m[1])
		}
	}
	return phases, changes
}

// fileSet holds the files that kubeadm wrote on a node, by name. Two values are equal only if the
// file was not rewritten: an atomic write creates a new inode.
type fileSet map[string]fileState

type fileState struct{ mode, inode, changed, digest string }

// listFiles lists the files in kubeadm's and the kubelet's directories, except the journal and
// what the kubelet itself writes.
func listFiles(t *testing.T, n *nodes.Node) fileSet {
	t.Helper()
	const script = `find /etc/kubernetes /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml /var/lib/kubelet/kubeadm-flags.env \
		-path /etc/kubernetes/tmp -prune -o -type f -printf '%p %m %i %T@ ' -exec sha256sum {} \; 2>/dev/null || true`
	files := make(fileSet)
	for line := range strings.Lines(runShell(t, n, script)) {
		if f := strings.Fields(line); len(f) >= 5 {
			files[f[0]] = fileState{f[1], f[2], f[3], f[4]}
		}
	}
	return files
}

// list returns the files' names and modes, so that two machines can be compared.
func (k fileSet) list() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(k)) {
		names = append(names, name+" "+k[name].mode)
	}
	return names
}

// partialFile matches a temporary file that a killed run leaves behind; the next run removes it.
var partialFile = regexp.MustCompile(`/\.[^/]+\.kubeadm-[A-Z0-9]+$`)

// changedFiles lists the files of before that were rewritten or removed, except kubelet.conf,
// which is updated when the kubelet has its client certificate.
func changedFiles(before, after fileSet) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if before[name] != after[name] && name != "/etc/kubernetes/kubelet.conf" &&
			name != "/etc/kubernetes/bootstrap-kubelet.conf" && !partialFile.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// isSameFile reports whether a file has the same content on two nodes.
func isSameFile(t *testing.T, a, b *nodes.Node, name string) bool {
	t.Helper()
	ours, err := a.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := b.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(ours, theirs)
}
