package node

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// Platform is what the operating system of a machine decides of its files, sockets and commands. The
// zero value is Linux.
type Platform struct {
	Drive string // of Windows, such as "C:"; empty on Linux
}

// Windows is the platform of a machine that runs Windows on that drive.
func Windows(drive string) Platform { return Platform{Drive: drive} }

// IsWindows reports whether the machine runs Windows. Such a machine can only be a worker.
func (p Platform) IsWindows() bool { return p.Drive != "" }

// Path is the absolute path of this platform for one that begins with a slash.
func (p Platform) Path(file string) string { return p.Drive + file }

// Clean replaces backslashes of a Windows path, adds the drive to one that begins with a slash, and
// writes drives in upper case.
func (p Platform) Clean(file string) string {
	if !p.IsWindows() || file == "" {
		return file
	}
	file = strings.ReplaceAll(file, `\`, "/")
	if strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "//") {
		return p.Path(file)
	}
	if len(file) > 1 && file[1] == ':' {
		return strings.ToUpper(file[:1]) + file[1:]
	}
	return file
}

// IsAbs reports whether a path is absolute.
func (p Platform) IsAbs(file string) bool {
	file = p.Clean(file)
	if !p.IsWindows() {
		return path.IsAbs(file)
	}
	return strings.HasPrefix(file, "//") || len(file) > 2 && file[1] == ':' && file[2] == '/'
}

// Paths are the default directories.
func (p Platform) Paths() Paths {
	paths := DefaultPaths()
	for _, dir := range []*string{&paths.Kubernetes, &paths.Certificates, &paths.Kubelet,
		&paths.Kubeconfigs} {
		*dir = p.Path(*dir)
	}
	return paths
}

// On is the machine on that platform: absolute paths are on its drive.
func (l Local) On(p Platform) Local {
	l.Platform = p
	for _, file := range []*string{&l.Paths.Kubernetes, &l.Paths.Certificates, &l.Paths.Kubelet,
		&l.Paths.Kubeconfigs, &l.Patches} {
		*file = p.Clean(*file)
	}
	return l
}

// windowsDirs are directories of Windows in which several programs have files, in lower case.
var windowsDirs = []string{"/windows", "/program files", "/program files (x86)", "/programdata", "/users", "/k"}

// IsSystemDir reports whether a directory belongs to the operating system, a user or several
// programs, so that its contents must not be removed. Symbolic links are not resolved.
func (p Platform) IsSystemDir(dir string) bool {
	if !p.IsWindows() {
		return IsSystemDir(dir)
	}
	dir = strings.ToLower(p.Clean(dir)) // Windows does not distinguish the case
	dir = strings.TrimPrefix(strings.TrimPrefix(dir, "//?/"), "//./")
	if share, ok := strings.CutPrefix(dir, "//"); ok { // such as //host/c$/windows
		dir = "/" + strings.Join(strings.Split(share+"//", "/")[2:], "/")
	}
	if _, below, hasDrive := strings.Cut(dir, ":"); hasDrive {
		dir = below
	}
	names := strings.Split(path.Clean(dir), "/")
	for i, name := range names { // Windows ignores dots and spaces at the end, and streams are of the same file
		name, _, _ = strings.Cut(name, ":")
		names[i] = strings.TrimRight(name, ". ")
	}
	dir = path.Clean("/" + strings.Join(names, "/"))
	return IsSystemDir(dir) || slices.Contains(windowsDirs, dir) || path.Dir(dir) == "/users" ||
		strings.HasPrefix(dir, "/windows/")
}

// HostsFile is the file in which names of other machines can be added.
func (p Platform) HostsFile() string {
	if p.IsWindows() {
		return p.Path("/Windows/System32/drivers/etc/hosts")
	}
	return "/etc/hosts"
}

// DefaultCRISocket is the endpoint of the container runtime where none is configured or found.
func (p Platform) DefaultCRISocket() string {
	if p.IsWindows() {
		return "npipe:////./pipe/containerd-containerd"
	}
	return DefaultCRISocket
}

// IsCRISocket reports whether a container runtime of this platform may have that endpoint.
func (p Platform) IsCRISocket(u *url.URL) bool {
	if !p.IsWindows() {
		return u.Scheme == "unix" && u.Host == "" && path.IsAbs(u.Path)
	}
	return u.Scheme == "npipe" && u.Host == "" && strings.HasPrefix(u.Path, "//./pipe/") ||
		u.Scheme == "tcp" && u.Port() != ""
}

// CRISocketForm says what form the endpoint of a container runtime must have.
func (p Platform) CRISocketForm() string {
	if p.IsWindows() {
		return "must be the URL of a named pipe or TCP port, such as " + p.DefaultCRISocket()
	}
	return "must be the URL of a Unix socket, such as " + p.DefaultCRISocket()
}

// ServiceCommand is the command line by which a user starts, stops, restarts or enables a service.
func (p Platform) ServiceCommand(verb, service string) string {
	if !p.IsWindows() {
		return "systemctl " + verb + " " + service
	}
	switch verb {
	case "enable":
		return "Set-Service " + service + " -StartupType Automatic"
	case "enable --now":
		return "Set-Service " + service + " -StartupType Automatic -Status Running"
	case "status":
		return "Get-Service " + service
	}
	return strings.ToUpper(verb[:1]) + verb[1:] + "-Service " + service
}

// TrustCommand says how to add a CA to the trust store of the machine.
func (p Platform) TrustCommand() string {
	if p.IsWindows() {
		return `Import-Certificate -CertStoreLocation Cert:\LocalMachine\Root -FilePath ca.crt`
	}
	return "copy it to /usr/local/share/ca-certificates and run update-ca-certificates"
}

// PrivateCommand is the command line that removes the access of other users to the file %s.
func (p Platform) PrivateCommand() string {
	if p.IsWindows() { // Administrators and SYSTEM
		return "icacls %s /inheritance:r /grant:r *S-1-5-32-544:F *S-1-5-18:F"
	}
	return "chmod o= %s"
}

// RunAsRootHint says how to run a command with all rights.
func (p Platform) RunAsRootHint() string {
	if p.IsWindows() {
		return `run the command in a PowerShell that was started with "Run as administrator"`
	}
	return `run the command as root, for example with "sudo"`
}

// LogHint says where a service logs.
func (p Platform) LogHint(service string) string {
	if p.IsWindows() {
		return "the files in " + p.Path("/var/log/"+service)
	}
	return "journalctl -xeu " + service
}
