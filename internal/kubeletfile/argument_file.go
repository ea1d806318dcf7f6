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
	// Text is what counts in the file: without comments, each continued line as one, and without variables of a unit that
	// an environment file replaces.
	Text string
}

// ReadArgumentFiles reads the files that may set arguments of the kubelet. Of an argument in several, the last one counts:
// the kubelet's command line has KUBELET_KUBEADM_ARGS, which kubeadm writes, before KUBELET_EXTRA_ARGS.
func ReadArgumentFiles(ctx context.Context, r state.Reader, p node.Paths) (all []ArgumentFile, err error) {
	known := p.KubeletEnvFiles()
	units, err := ListUnitFiles(ctx, r)
	if err != nil {
		return nil, err
	}
	var own []string // environment files that only the unit names
	var unitTexts []ArgumentFile
	for _, file := range units {
		data, err := state.ReadOptional(ctx, r, file)
		if err != nil {
			return nil, err
		}
		text := joinLines(string(data), " ")
		unitTexts = append(unitTexts, ArgumentFile{Path: file, IsUnit: true, Text: text})
		for _, found := range environmentFile.FindAllStringSubmatch(text, -1) {
			named := strings.TrimPrefix(strings.TrimSpace(found[1]), "-")
			switch {
			case named == "": // begins the list again
				own = nil
			case path.IsAbs(named) && !slices.Contains(known, path.Clean(named)):
				own = append(own, path.Clean(named))
			}
		}
	}
	readEnv := func(isUnit bool, files ...string) (read []ArgumentFile, err error) {
		for _, file := range files {
			data, err := state.ReadOptional(ctx, r, file)
			if err != nil {
				return nil, err
			}
			read = append(read, ArgumentFile{Path: file, IsUnit: isUnit, Text: joinLines(string(data), "")})
		}
		return read, nil
	}
	flags, err := readEnv(false, known[0])
	if err != nil {
		return nil, err
	}
	ownTexts, err := readEnv(true, own...)
	if err != nil {
		return nil, err
	}
	later, err := readEnv(false, known[1:]...)
	if err != nil {
		return nil, err
	}
	isReplaced := slices.ContainsFunc(slices.Concat(flags, ownTexts, later),
		func(f ArgumentFile) bool { return assignsExtraArgs.MatchString(f.Text) })
	if isReplaced {
		for i := range unitTexts {
			unitTexts[i].Text = environment.ReplaceAllStringFunc(unitTexts[i].Text,
				func(line string) string { return unitExtraArgs.ReplaceAllString(line, "$1") })
		}
	}
	return slices.Concat(flags, unitTexts, ownTexts, later), nil
}

var (
	environmentFile = regexp.MustCompile(`(?m)^[ \t]*EnvironmentFile[ \t]*=(.*)$`)
	environment     = regexp.MustCompile(`(?m)^[ \t]*Environment[ \t]*=.*$`)
	// assignsExtraArgs matches an assignment in an environment file. It replaces the whole variable that the unit sets.
	assignsExtraArgs = regexp.MustCompile(`(?m)^[ \t]*KUBELET_EXTRA_ARGS[ \t]*=`)
	// unitExtraArgs matches an assignment in a line of the unit, which may have several.
	unitExtraArgs = regexp.MustCompile(`([\s=])(?:"KUBELET_EXTRA_ARGS=(?:\\.|[^"\\])*"|'KUBELET_EXTRA_ARGS=(?:\\.|[^'\\])*'|` +
		`KUBELET_EXTRA_ARGS=(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s"'])*)`)
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
