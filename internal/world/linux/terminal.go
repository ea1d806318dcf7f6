//go:build linux

package linux

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// IsSameTerminal reports whether two files are the same terminal. One that is open as /dev/tty and by
// its own name counts as two.
func IsSameTerminal(a, b *os.File) bool {
	var statA, statB unix.Stat_t
	return IsTerminal(a) && IsTerminal(b) && unix.Fstat(int(a.Fd()), &statA) == nil &&
		unix.Fstat(int(b.Fd()), &statB) == nil && statA.Rdev == statB.Rdev
}

// Columns returns the width of a terminal, in characters; 0 if it is not known.
func Columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// HideInput keeps a terminal from showing what is typed, until restore is called.
func HideInput(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	shown, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	hidden := *shown
	hidden.Lflag &^= unix.ECHO
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, shown) }, unix.IoctlSetTermios(fd, unix.TCSETS, &hidden)
}
