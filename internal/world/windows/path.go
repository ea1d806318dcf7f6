//go:build windows

package windows

import (
	"os"
	"path/filepath"
	"strings"
)

// systemDrive is the drive of Windows itself, such as "C:".
func systemDrive() string {
	if drive := os.Getenv("SystemDrive"); len(drive) == 2 && drive[1] == ':' {
		return drive
	}
	return "C:"
}

// localPath returns the path that Windows understands: with backslashes, and on the system drive if
// it is absolute and names no drive.
func localPath(name string) string {
	name = filepath.Clean(filepath.FromSlash(name))
	if strings.HasPrefix(name, `\`) && !strings.HasPrefix(name, `\\`) {
		return systemDrive() + name
	}
	return name
}

// programPath returns the absolute path of the program for a path of Windows.
func programPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	return filepath.ToSlash(abs), err
}
