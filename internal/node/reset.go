package node

import (
	"path"
	"slices"
)

// Reset is the intent to take back what init or join made of this machine. Of
// Local it knows Name, Hostname, CRISocket, Ignore, Paths and Timeouts.
type Reset struct {
	Local
	Force         bool     // do not ask before anything is removed
	CleanupTmpDir bool     // empty Paths.Tmp as well
	UnmountFlags  []string // names of umount2(2) flags, such as "MNT_DETACH"
}

// UnmountFlags lists the flags of umount2(2) that a reset may be told to use.
func UnmountFlags() []string {
	return []string{"MNT_FORCE", "MNT_DETACH", "MNT_EXPIRE", "UMOUNT_NOFOLLOW"}
}

// OfSystem tells whether a folder is one of the operating system's own, with far more in it than what is ours. No reset may
// empty it, whatever a slip of the user's hand says.
func OfSystem(dir string) bool {
	return slices.Contains([]string{
		"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin",
		"/srv", "/sys", "/tmp", "/usr", "/var", "/etc/pki", "/etc/ssl", "/etc/ssl/certs", "/usr/local", "/usr/share", "/var/lib", "/var/log", "/var/run",
	}, path.Clean(dir))
}
