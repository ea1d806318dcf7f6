//go:build windows

package windows

import (
	"os"

	"golang.org/x/sys/windows"
)

// IsTerminal reports whether a file is a console that understands the control sequences of
// terminals, and makes it interpret them.
func IsTerminal(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	return windows.GetConsoleMode(h, &mode) == nil &&
		windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

// Columns returns the width of a console, in characters; 0 if it is not known.
func Columns(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}

// HideInput keeps a console from showing what is typed, until restore is called.
func HideInput(f *os.File) (restore func(), err error) {
	var shown uint32
	h := windows.Handle(f.Fd())
	if err := windows.GetConsoleMode(h, &shown); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(h, shown) }, windows.SetConsoleMode(h, shown&^windows.ENABLE_ECHO_INPUT)
}
