package kubeletfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// ArgumentFile is a file that may set arguments of the kubelet.
type ArgumentFile struct {
	Path string
	// IsUnit is set if the file belongs to the unit of the service: kubeadm does not edit it.
	IsUnit bool
	// Text is what counts in the file: without comments, each continued line as one, without variables that a later
	// assignment replaces, and without settings of a unit that a later empty one resets.
	Text string
}

// ReadArgumentFiles reads the files that may set arguments of the kubelet. Of an argument in several, the last one counts:
// the kubelet's command line has KUBELET_KUBEADM_ARGS, which kubeadm writes, before KUBELET_EXTRA_ARGS.
func ReadArgumentFiles(ctx context.Context, r state.Reader, p node.Paths) ([]ArgumentFile, error) {
	known := p.KubeletEnvFiles()
	unitFiles, err := ListUnitFiles(ctx, r)
	if err != nil {
		return nil, err
	}
	var units []ArgumentFile
	var named []string // environment files that the unit names
	for _, file := range unitFiles {
		data, err := state.ReadOptional(ctx, r, file)
		if err != nil {
			return nil, err
		}
		text := joinLines(string(data), " ")
		units = append(units, ArgumentFile{Path: file, IsUnit: true, Text: text})
		for _, found := range environmentFile.FindAllStringSubmatch(text, -1) {
			file := strings.TrimPrefix(strings.TrimSpace(found[1]), "-")
			switch {
			case file == "": // begins the list again
				named = nil
			case path.IsAbs(file) && path.Clean(file) != known[0]:
				named = append(named, path.Clean(file))
			}
		}
	}
	if !slices.ContainsFunc(named, func(file string) bool { return slices.Contains(known, file) }) {
		named = append(named, known[1:]...) // the unit is not the one of the packages, or not installed yet
	}
	var env []ArgumentFile
	for _, file := range append(known[:1:1], named...) {
		data, err := state.ReadOptional(ctx, r, file)
		if err != nil {
			return nil, err
		}
		env = append(env, ArgumentFile{Path: file, IsUnit: !slices.Contains(known, file), Text: joinLines(string(data), "")})
	}
	dropReplaced(units, env)
	return slices.Concat(env[:1], units, env[1:]), nil
}

// dropReplaced removes what does not count: assignments of a variable but for the last one, where environment files count
// after the unit, and settings of the unit before an empty one.
func dropReplaced(units, env []ArgumentFile) {
	assigned, isReset := map[string]bool{}, map[string]bool{}
	for i := range slices.Backward(env) {
		env[i].Text = replaceBackward(env[i].Text, assignment, func(text, name string) string { return dropKnown(text, name, assigned) })
	}
	for i := range slices.Backward(units) {
		units[i].Text = replaceBackward(units[i].Text, setting, func(line, name string) string {
			_, value, _ := strings.Cut(line, "=")
			switch {
			case isReset[name]:
				return ""
			case strings.TrimSpace(value) == "":
				isReset[name] = true
			case name == "Environment":
				value = replaceBackward(value, unitAssignment, func(text, name string) string { return dropKnown(text, name, assigned) })
				return "Environment=" + value
			}
			return line
		})
	}
}

// dropKnown returns the assignment of a variable, or nothing if a later one is known.
func dropKnown(text, name string, assigned map[string]bool) string {
	if assigned[name] {
		return ""
	}
	assigned[name] = true
	return text
}

// replaceBackward replaces the matches from the last to the first. A match has a name in one of its groups.
func replaceBackward(text string, pattern *regexp.Regexp, replace func(match, name string) string) string {
	for _, at := range slices.Backward(pattern.FindAllStringSubmatchIndex(text, -1)) {
		var name string
		for group := 2; group < len(at); group += 2 {
			if at[group] >= 0 {
				name = text[at[group]:at[group+1]]
			}
		}
		text = text[:at[0]] + replace(text[at[0]:at[1]], name) + text[at[1]:]
	}
	return text
}

var (
	environmentFile = regexp.MustCompile(`(?m)^[ \t]*EnvironmentFile[ \t]*=(.*)$`)
	// setting matches a line of the unit. An empty value resets the settings of this name before it.
	setting = regexp.MustCompile(`(?m)^[ \t]*(Environment|ExecStart)[ \t]*=.*$`)
	// assignment matches one in an environment file, where a quoted value may have several lines.
	assignment = regexp.MustCompile(`(?m)^[ \t]*(\w+)[ \t]*=(?:"(?:\\(?s:.)|[^"\\])*"|'[^']*'|\\.|.)*$`)
	// unitAssignment matches an assignment in a line of the unit, which may have several.
	unitAssignment = regexp.MustCompile(`(?:^|\s)(?:"(\w+)=(?:\\.|[^"\\])*"|'(\w+)=(?:\\.|[^'\\])*'|` +
		`(\w+)=(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s"'])*)`)
)

// joinLines returns a text without comments. A line that ends with a backslash continues in the next one.
func joinLines(text, joint string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if start := strings.TrimSpace(line); strings.HasPrefix(start, "#") || strings.HasPrefix(start, ";") {
			continue
		}
		line = strings.TrimRight(line, "\r\n")
		if begun, continues := strings.CutSuffix(line, `\`); continues {
			b.WriteString(begun + joint)
		} else {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// ListUnitFiles lists the files of the kubelet's unit in the order in which systemd applies them (systemd.unit(5)): the
// unit, and its drop-ins by name. A file replaces those of its name in directories before; a link to /dev/null does too.
func ListUnitFiles(ctx context.Context, r state.Reader) (all []string, err error) {
	const unit = "kubelet.service"
	byName := map[string]string{} // empty if it is masked
	add := func(file string) error {
		info, err := r.Stat(ctx, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.Mode.IsRegular():
			byName[path.Base(file)] = file
		default:
			byName[path.Base(file)] = ""
		}
		return nil
	}
	for _, dir := range []string{"/lib/systemd/system", "/usr/lib/systemd/system", "/usr/local/lib/systemd/system",
		"/run/systemd/system", "/etc/systemd/system"} {
		files, err := r.ReadDir(ctx, path.Join(dir, unit+".d"))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		for _, f := range files {
			if err == nil && path.Ext(f.Path) == ".conf" {
				err = add(f.Path)
			}
		}
		if err == nil {
			err = add(path.Join(dir, unit))
		}
		if err != nil {
			return nil, fmt.Errorf("looking for files of the kubelet's unit: %w", err)
		}
	}
	if file := byName[unit]; file != "" {
		all = append(all, file)
	}
	delete(byName, unit)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if byName[name] != "" {
			all = append(all, byName[name])
		}
	}
	return all, nil
}
