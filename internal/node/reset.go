package node

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Reset is the desired result of a reset, which reverts init or join on this machine. Of Local,
// the fields Name, Hostname, CRISocket, IgnoredChecks, Paths and Timeouts are set.
type Reset struct {
	Local
	Force         bool     // do not ask for confirmation
	CleanupTmpDir bool     // empty Paths.Tmp as well
	UnmountFlags  []string // names of umount2(2) flags, such as "MNT_DETACH"

	// Clean is what is removed besides what init and join created.
	Clean []CleanTarget
	// LeaveCluster drains this node and deletes its Node object.
	LeaveCluster bool
	DrainTimeout time.Duration // how long the Pods may take to leave
}

// CleanTarget is a part of what CNI plugins, kube-proxy and users have left on a machine.
type CleanTarget string

// The targets.
const (
	CleanCNI        CleanTarget = "cni"        // configuration and state of CNI plugins
	CleanInterfaces CleanTarget = "interfaces" // of the Pod network, with its network namespaces
	CleanRules      CleanTarget = "rules"      // iptables, nftables and IPVS
	CleanCgroups    CleanTarget = "cgroups"    // control groups of Pods
	CleanLogs       CleanTarget = "logs"       // of Pods
	CleanKubeconfig CleanTarget = "kubeconfig" // of the user
	CleanImages     CleanTarget = "images"     // of the control plane and its add-ons
)

// CleanTargets lists the targets in the order in which they are documented.
func CleanTargets() []CleanTarget {
	return []CleanTarget{CleanCNI, CleanInterfaces, CleanRules, CleanCgroups, CleanLogs,
		CleanKubeconfig, CleanImages}
}

// Cleans reports whether a target is to be removed.
func (r Reset) Cleans(t CleanTarget) bool { return slices.Contains(r.Clean, t) }

// CleansAll reports whether everything but images is to be removed, as with --clean=all.
func (r Reset) CleansAll() bool {
	return !slices.ContainsFunc(CleanTargets(), func(t CleanTarget) bool {
		return t != CleanImages && !r.Cleans(t)
	})
}

// UnmountFlags lists the flags of umount2(2) that a reset can use.
func UnmountFlags() []string {
	return []string{"MNT_FORCE", "MNT_DETACH", "MNT_EXPIRE", "UMOUNT_NOFOLLOW"}
}

// SystemDirs lists directories of the operating system, of container runtimes and of services,
// which hold far more than kubeadm's files. A reset must not empty any of them.
func SystemDirs() []string {
	return slices.Concat(systemTrees, []string{
		"/", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/snap", "/srv", "/tmp",
		"/usr", "/var",
		"/etc/NetworkManager", "/etc/alternatives", "/etc/apparmor.d", "/etc/apt",
		"/etc/cni", "/etc/cni/net.d", "/etc/containerd", "/etc/containers",
		"/etc/cron.d", "/etc/crio", "/etc/default", "/etc/docker", "/etc/init.d", "/etc/iptables",
		"/etc/ld.so.conf.d",
		"/etc/modprobe.d", "/etc/modules-load.d", "/etc/netplan", "/etc/network", "/etc/pam.d",
		"/etc/pki", "/etc/pki/ca-trust",
		"/etc/pki/tls", "/etc/profile.d", "/etc/rancher", "/etc/security", "/etc/selinux",
		"/etc/skel", "/etc/ssh", "/etc/ssl",
		"/etc/ssl/certs", "/etc/ssl/private", "/etc/sudoers.d", "/etc/sysconfig", "/etc/sysctl.d",
		"/etc/udev", "/etc/yum.repos.d",
		"/opt/containerd", "/run/containerd", "/run/crio", "/run/docker", "/run/lock",
		"/run/netns", "/run/user",
		"/usr/local", "/usr/local/etc", "/usr/local/share", "/usr/share",
		"/usr/share/ca-certificates",
		"/var/backups", "/var/cache", "/var/lib", "/var/lib/NetworkManager", "/var/lib/apt",
		"/var/lib/cloud", "/var/lib/cni",
		"/var/lib/crio", "/var/lib/dbus", "/var/lib/libvirt", "/var/lib/mysql", "/var/lib/pacman",
		"/var/lib/pgsql",
		"/var/lib/postgresql", "/var/lib/private", "/var/lib/selinux", "/var/lib/snapd",
		"/var/lib/sudo",
		"/var/local", "/var/lock", "/var/log", "/var/log/containers", "/var/log/journal",
		"/var/log/pods", "/var/mail", "/var/opt",
		"/var/run", "/var/spool", "/var/tmp", "/var/www",
	})
}

// systemTrees are directories that contain nothing of kubeadm's at any depth.
var systemTrees = []string{
	"/bin", "/boot", "/dev", "/lib", "/lib32", "/lib64", "/libx32", "/lost+found", "/nix",
	"/proc", "/sbin", "/sys",
	"/usr/bin", "/usr/include", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec",
	"/usr/libx32", "/usr/sbin", "/usr/src",
	"/usr/local/bin", "/usr/local/lib", "/usr/local/lib64", "/usr/local/libexec",
	"/usr/local/sbin",
	"/etc/systemd", "/opt/cni", "/run/systemd",
	"/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/dpkg",
	"/var/lib/rpm", "/var/lib/systemd",
}

// IsSystemDir reports whether a path is one of SystemDirs, below one of systemTrees, or a home
// directory. Symbolic links are not resolved.
func IsSystemDir(dir string) bool {
	dir = path.Clean(dir)
	parent, name := path.Split(dir)
	return slices.Contains(SystemDirs(), dir) || parent == "/home/" || name == ".ssh" ||
		slices.ContainsFunc(systemTrees,
			func(t string) bool { return strings.HasPrefix(dir, t+"/") })
}
