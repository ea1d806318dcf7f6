package nodes

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoint is a line of /proc/PID/mountinfo, see proc_pid_mountinfo(5).
type mountPoint struct {
	path, kind, source string
	options            []string // of the file system, not of the mount point
}

func mountsOf(process string) ([]mountPoint, error) {
	data, err := os.ReadFile("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []mountPoint
	for line := range strings.Lines(string(data)) {
		left, right, ok := strings.Cut(line, " - ")
		place, system := strings.Fields(left), strings.Fields(right)
		if !ok || len(place) < 5 || len(system) < 3 {
			return nil, fmt.Errorf("reading the mounts of process %s: malformed line %q", process,
				line)
		}
		all = append(all, mountPoint{
			path: unescapePath(place[4]), kind: system[0], source: system[1],
			options: strings.Split(system[2], ","),
		})
	}
	return all, nil
}

// unescapePath decodes the kernel's octal escapes.
func unescapePath(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// unmountBelow unmounts everything below a directory on this machine, the last mount first.
func unmountBelow(dir string) error {
	mounts, err := mountsOf("self")
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		path := mounts[i].path
		if !strings.HasPrefix(path, dir+"/") {
			continue
		}
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", path, err)
		}
	}
	return nil
}
