//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// runInterrupted runs a command and sends it the signal when it writes a line that stop picks. It returns once the command
// has ended, and tells whether there was such a line. A command that was near its end may have reached it before the signal.
func runInterrupted(t *testing.T, n *nodes.Node, signal unix.Signal, stop func(line string) bool, args ...string) (nodes.Result, bool) {
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
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if !found && stop(lines.Text()) {
				err := p.Signal(signal)
				found = err == nil || errors.Is(err, os.ErrProcessDone)
			}
		}
		sent <- found
	}()
	result, _ := p.Wait() // How it ended is for the caller to judge.
	write.Close()
	return result, <-sent
}

// atPhase picks the first line of a phase.
func atPhase(name string) func(string) bool {
	return func(line string) bool { return strings.HasPrefix(line, "["+name+"] ") }
}

// atChange picks the line that says that change number k is done, counted from 0.
func atChange(k int) func(string) bool {
	return func(line string) bool {
		if _, ok := doneChange(line); !ok {
			return false
		}
		k--
		return k < 0
	}
}

var (
	doneLine  = regexp.MustCompile(`^\[[a-z-]+\] done: (.*)`)
	phaseLine = regexp.MustCompile(`^\[([a-z-]+)\] `)
)

// doneChange is the change that a line says is done. The accounts of controllers do not count: which of them kube-controller-manager
// makes first is a matter of moments, and a dry run does not know of them.
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
		// Some lines belong to the command as a whole.
		if m != nil && m[1] != "kubeadm" && m[1] != "init" && !slices.Contains(phases, m[1]) {
			phases = append(phases, m[1])
		}
	}
	return phases, changes
}

// fileSet are the files that kubeadm made on a node, by name. Two equal values stand for a file that nobody touched: an
// atomic write makes a new inode.
type fileSet map[string]fileState

type fileState struct{ mode, inode, changed, digest string }

// listFiles lists what is in kubeadm's and the kubelet's directories, less the journal and what the kubelet writes itself.
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

// list lists the files with their modes, so that two machines can be compared.
func (k fileSet) list() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(k)) {
		names = append(names, name+" "+k[name].mode)
	}
	return names
}

// partialFile matches what a kill leaves of a file that was being written; the next run removes it.
var partialFile = regexp.MustCompile(`/\.[^/]+\.kubeadm-[A-Z0-9]+$`)

// changedFiles lists the files of before that are not the same any more. One of them is meant to change: kubelet.conf is
// told of the certificate that the kubelet renews.
func changedFiles(before, after fileSet) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if before[name] != after[name] && name != "/etc/kubernetes/kubelet.conf" && name != "/etc/kubernetes/bootstrap-kubelet.conf" && !partialFile.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// isSameFile tells whether two nodes of the same name and address hold the same bytes in a file.
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
