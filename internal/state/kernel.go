package state

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
)

// ModulePath is the directory by which the kernel shows a module.
func ModulePath(name string) string {
	return path.Join("/sys/module", strings.ReplaceAll(name, "-", "_"))
}

// HasModule reports whether the kernel has loaded a module, or has it built in.
func HasModule(ctx context.Context, r Reader, name string) (bool, error) {
	loaded, err := Exists(ctx, r, ModulePath(name))
	if err != nil || loaded {
		return loaded, err
	}
	// A built-in module without parameters has no directory.
	release, err := r.ReadFile(ctx, "/proc/sys/kernel/osrelease")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	list, err := r.ReadFile(ctx, path.Join("/lib/modules", strings.TrimSpace(string(release)),
		"modules.builtin"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return strings.Contains(strings.ReplaceAll(string(list), "-", "_"),
		"/"+path.Base(ModulePath(name))+".ko"), err
}

// SwapsFile lists the devices and files to which the kernel swaps; see proc_swaps(5).
const SwapsFile = "/proc/swaps"

// SwapAreas lists the devices and files to which the kernel swaps: none on a kernel without swap.
func SwapAreas(ctx context.Context, r Reader) ([]string, error) {
	text, err := r.ReadFile(ctx, SwapsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var areas []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		area, _, _ := strings.Cut(line, " ")
		area, _, _ = strings.Cut(area, "\t")
		areas = append(areas, strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n",
			`\134`, `\`).Replace(area))
	}
	return areas, nil
}
