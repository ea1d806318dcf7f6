package nodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Fingerprint describes a node's state by subject: files, links, routes, mounts, units, ports,
// rules, containers. Each subject has sorted lines. Logs, caches and systemd's own state are left
// out.
type Fingerprint map[string][]string

// Diff lists the lines that only b has ("+ files: …") and those that only a has ("- files: …").
func (a Fingerprint) Diff(b Fingerprint) []string {
	var diff []string
	for _, subject := range subjects {
		for _, l := range a[subject] {
			if !slices.Contains(b[subject], l) {
				diff = append(diff, "- "+subject+": "+l)
			}
		}
		for _, l := range b[subject] {
			if !slices.Contains(a[subject], l) {
				diff = append(diff, "+ "+subject+": "+l)
			}
		}
	}
	return diff
}

var subjects = []string{"files", "links", "routes", "mounts", "units", "ports", "rules",
	"containers", "processes"}

// listCommands are the commands that list subjects on the node. A unit that systemd restarts
// repeatedly, as a kubelet without configuration, is listed whether it runs at the moment or not.
// containerd's streaming port, which changes with each start, is left out.
var listCommands = map[string]string{
	"links":      `ip -brief link show | cut -d' ' -f1 | cut -d@ -f1`,
	"routes":     `ip -4 route show`,
	"units":      `find /etc/systemd/system /run/systemd/system -path '*.wants/*' -printf '%f enabled\n'; systemctl list-units --no-legend --plain --type=service --state=active,activating,deactivating,reloading | cut -d' ' -f1`,
	"ports":      `ss --no-header --listening --tcp --udp --numeric --processes | grep -v '"containerd"' | awk '{print $1, $5}'`,
	"rules":      `nft list ruleset 2>/dev/null; iptables-legacy-save 2>/dev/null | grep -v '^#'; ipset list -name 2>/dev/null; true`,
	"containers": `ctr --namespace k8s.io containers list --quiet`,
}

var counterPattern = regexp.MustCompile(`counter packets \d+ bytes \d+|\[\d+:\d+\]`)

// Fingerprint describes the state of a running node.
func (n *Node) Fingerprint(ctx context.Context) (Fingerprint, error) {
	pid, err := n.PID()
	if err != nil {
		return nil, err
	}
	f := make(Fingerprint)
	for subject, script := range listCommands {
		result, err := n.Run(ctx, "sh", "-c", script)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", subject, err)
		}
		f[subject] = flattenListing(result.Stdout)
	}
	mounts, err := mountsOf(strconv.Itoa(pid))
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if !strings.HasPrefix(m.path, "/run/credentials/") {
			f["mounts"] = append(f["mounts"], m.path+" "+m.kind)
		}
	}
	if f["files"], err = n.changedFiles(); err != nil {
		return nil, err
	}
	for _, lines := range f {
		slices.Sort(lines)
	}
	return f, nil
}

// flattenListing puts the headings of nested blocks, as nftables prints them, before each line,
// and removes counters.
func flattenListing(listing string) []string {
	var lines, headings []string
	for l := range strings.Lines(listing) {
		l = strings.TrimSpace(counterPattern.ReplaceAllString(l, ""))
		switch heading, opens := strings.CutSuffix(l, " {"); {
		case l == "" || strings.HasPrefix(l, "# Warning"):
		case l == "}" && len(headings) > 0:
			headings = headings[:len(headings)-1]
		case opens:
			headings = append(headings, heading)
			lines = append(lines, strings.Join(headings, ", "))
		default:
			lines = append(lines, strings.Join(append(slices.Clone(headings), l), ", "))
		}
	}
	return lines
}

// ignoredFiles change by themselves, or are logs: a reset keeps those of runs, since its own is there.
var ignoredFiles = []string{
	"var/log", "var/tmp", "var/cache", "var/lib/systemd", "var/lib/containerd", "var/lib/dpkg/lock",
	"tmp", "run",
	"root/.kube/cache", "etc/.pwd.lock",
}

// changedFiles lists the files that differ from the read-only layers: those in the writable layer,
// except files that the kernel copied there and files that were changed back.
func (n *Node) changedFiles() ([]string, error) {
	upper := filepath.Join(n.dir, "upper")
	var lines []string
	err := filepath.WalkDir(upper, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, upper+"/")
		switch {
		case errors.Is(err, fs.ErrNotExist) || path == upper:
			return nil // Removed meanwhile.
		case err != nil:
			return err
		case slices.Contains(ignoredFiles, name) && d.IsDir():
			return fs.SkipDir
		case slices.Contains(ignoredFiles, name):
			return nil
		}
		now, err := describeFile(path)
		if err != nil {
			return err
		}
		before, err := n.describeOriginal(name)
		if now != before {
			lines = append(lines, "/"+name+" "+now)
		}
		return err
	})
	return lines, err
}

// describeOriginal describes the file of this name in the read-only layers.
func (n *Node) describeOriginal(name string) (string, error) {
	for _, layer := range n.cluster.record.Layers {
		if text, err := describeFile(filepath.Join(layer, name)); err != nil ||
			text != removedFile {
			return text, err
		}
	}
	return removedFile, nil
}

const removedFile = "removed"

// describeFile returns a file's mode, owner, and link target or digest.
func describeFile(path string) (string, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return removedFile, nil
	}
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("reading the owner of %s: not supported", path)
	}
	text := fmt.Sprintf("%s %d:%d", info.Mode(), owner.Uid, owner.Gid)
	switch {
	case info.Mode()&fs.ModeCharDevice != 0 && owner.Rdev == 0:
		return removedFile, nil // An overlay's whiteout.
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return text + " to " + target, err
	case info.Mode().IsRegular():
		sum, err := digestFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return removedFile, nil
		}
		return text + " sha256:" + sum, err
	}
	return text, nil
}

func digestFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
