package node

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
