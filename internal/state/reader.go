package state

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Reader looks at the world and never touches it. It is wide on purpose and made of
// one small interface per subject.
type Reader interface {
	Files
	Services
	Mounts
	Programs
	Host
	Network
	Images
	Members
	Objects
	History
	Clock
}

// Files are the files of this machine. Errors satisfy errors.Is(err, fs.ErrNotExist) where nothing is there.
type Files interface {
	ReadFile(ctx context.Context, path string) ([]byte, error)
	Stat(ctx context.Context, path string) (FileInfo, error)  // follows symbolic links
	Lstat(ctx context.Context, path string) (FileInfo, error) // of the link itself, if it is one
	ReadDir(ctx context.Context, path string) ([]FileInfo, error)
}

// FileInfo is what is known of one file or folder.
type FileInfo struct {
	Path    string // absolute
	Mode    fs.FileMode
	ModTime time.Time
	UID     int // of the owner
	GID     int // of the group
}

// Services are the units of the machine's init system.
type Services interface {
	// Service tells the state of a unit. An unknown unit is a zero Service; no
	// supported init system is ErrNoInitSystem.
	Service(ctx context.Context, name string) (Service, error)
	// ServiceLog is the end of what a unit's program wrote, at most 2 KiB; empty where nobody keeps it.
	ServiceLog(ctx context.Context, name string) (string, error)
}

// ErrNoInitSystem says that the machine has neither systemd nor OpenRC.
var ErrNoInitSystem = errors.New("no supported init system (systemd or OpenRC) was found")

// Service is the state of one unit.
type Service struct {
	Exists  bool
	Enabled bool      // starts at boot
	Active  bool      // runs, or is on the way up
	Since   time.Time // when it last entered the running state; zero if it does not run
}

// Mounts are the mount points of this machine.
type Mounts interface {
	// Mounts lists mount points at and below dir, in the order in which they were made.
	Mounts(ctx context.Context, dir string) ([]string, error)
}

// Programs are the executables of this machine.
type Programs interface {
	// Program finds an executable in PATH; the error satisfies errors.Is(err, fs.ErrNotExist) if there is none.
	Program(ctx context.Context, name string) (path string, err error)
	// KubeletVersion is what `kubelet --version` says, such as "v1.37.1".
	KubeletVersion(ctx context.Context) (string, error)
}

// Host is the machine itself.
type Host interface {
	Host(ctx context.Context) (HostInfo, error)
	// Verify asks whether kernel, cgroups and operating system can run a kubelet of that
	// version: findings that only warn, and those that forbid it.
	Verify(ctx context.Context, kubeletVersion string) (warnings, errs []error)
}

// HostInfo are facts about this machine.
type HostInfo struct {
	Hostname  string
	UserID    int // real user id of this process
	CPUs      int
	MemoryMiB uint64   // of RAM
	Env       []string // environment of this process, "NAME=value"
}

// Network is what this machine sees of the network.
type Network interface {
	// Addresses lists global unicast addresses of up interfaces, the one of the default route first.
	Addresses(ctx context.Context) ([]Address, error)
	// Lookup resolves a host name.
	Lookup(ctx context.Context, host string) ([]string, error)
	// CanListen tries to open and close a TCP port; address is "host:port", with an empty host for all addresses.
	// A port in use gives a *PortError that names its owner where that can be found out.
	CanListen(ctx context.Context, address string) error
	// Proxy tells through which proxy an HTTPS request to a host would go; empty for none. The host is
	// written as in a URL: an IPv6 address stands in brackets.
	Proxy(ctx context.Context, host string) (string, error)
	// Fetch makes one GET request without credentials. TLS is verified by the host's roots,
	// except at loopback health endpoints (see Request.Loopback). A redirection from https to http is ErrRedirected.
	Fetch(ctx context.Context, req Request) (Response, error)
	// ClusterInfo reads the public ConfigMap kube-public/cluster-info without credentials. With a nil
	// ca the connection is not verified: the caller must check the signature, as the token discovery
	// protocol demands, before it believes any of it. Any redirection is ErrRedirected.
	ClusterInfo(ctx context.Context, server string, ca []byte) (map[string]string, error)
}

// Address is an address of this machine.
type Address struct {
	IP           string
	Interface    string
	DefaultRoute bool // its interface carries the default route
	Loopback     bool // a global unicast address on the loopback interface
}

// Request is a GET request.
type Request struct {
	URL string
	// Loopback says that the URL is a health endpoint on this machine that serves a
	// certificate nobody signed (kube-controller-manager, kube-scheduler); no credentials are sent.
	Loopback bool
	CA       []byte // PEM of the only accepted roots; nil for the host's roots
	Cert     []byte // PEM of a client certificate; may be nil
	Key      []byte // PEM of its key; may be nil
}

// ErrRedirected says that a server redirected a request to where the answer could not be verified.
var ErrRedirected = errors.New("it leads to where nobody vouches for the answer")

// Response is the answer to a Request; Body is at most 1 MiB.
type Response struct {
	Status int
	Body   []byte
}

// PortError says that a port is taken, and by whom.
type PortError struct {
	Address string
	Owner   string // "nginx (pid 812)"; empty if it could not be found out
	Err     error
}

func (e *PortError) Error() string {
	if e.Owner == "" {
		return "port " + e.Address + " is in use: " + e.Err.Error()
	}
	return "port " + e.Address + " is in use by " + e.Owner
}

// Unwrap returns the system's error.
func (e *PortError) Unwrap() error { return e.Err }

// Images are what the container runtime behind a socket holds. socket is a URL as in Local.CRISocket.
type Images interface {
	// Runtimes lists the sockets of known container runtimes that accept a connection.
	Runtimes(ctx context.Context) ([]string, error)
	// Runtime asks the runtime for its condition; an error means that it does not answer.
	Runtime(ctx context.Context, socket string) (Runtime, error)
	Image(ctx context.Context, socket, ref string) (present bool, err error)
	Sandboxes(ctx context.Context, socket string) ([]Sandbox, error)
	// Containers lists all containers, ended ones too and oldest first, with the last lines of what they wrote.
	Containers(ctx context.Context, socket string) ([]Container, error)
}

// Runtime is the condition of a container runtime.
type Runtime struct {
	Name, Version string
	Ready         bool
	Reason        string // why it is not ready
	CgroupDriver  string // "systemd" or "cgroupfs"; empty if the runtime cannot tell (ReportsDriver false)
	ReportsDriver bool
	DriverFault   string // why it failed to tell its cgroup driver, though it knows the question; empty if it did not fail
	SandboxImage  string // image of Pod sandboxes; empty if the runtime does not tell
}

// Sandbox is a Pod sandbox.
type Sandbox struct {
	ID, Name, Namespace string
	// Component is the part of the control plane that a static Pod of kube-system runs, such as
	// "etcd"; empty for all other Pods, whatever their names begin with.
	Component string
}

// Container is a container of a Pod.
type Container struct {
	ID, Name, Pod, Namespace string
	Component                string // as in the Sandbox of its Pod
	Created                  time.Time
	Running                  bool
	ExitCode                 int32
	Attempt                  uint32 // how often it was started again
	Log                      string // last lines, at most 8 KiB; empty if there are none
}

// Members is the etcd cluster.
type Members interface {
	// Members lists the members in etcd's own order. Which endpoint answers does not matter, unless the
	// list may be stale.
	Members(ctx context.Context, via Etcd) ([]Member, error)
	// MemberStatus asks one member itself, at its client URLs, how it is. The credentials are those of via.
	MemberStatus(ctx context.Context, via Etcd, m Member) (MemberStatus, error)
	// Agree keeps the members agreeing, as often as they can, until the context ends. It alters nothing: what they
	// agree on is the answer to a question.
	Agree(ctx context.Context, via Etcd) error
}

// Etcd says how to reach etcd: endpoints are "https://host:port", files are paths of this machine.
type Etcd struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	// Stale takes the list of members that an endpoint knows by itself, though it be old. Without a quorum there
	// is no other.
	Stale bool
}

// Member is one etcd member.
type Member struct {
	ID         uint64
	Name       string // empty until it has started
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// MemberStatus is what an etcd member says of itself.
type MemberStatus struct {
	Index    uint64   // of the newest entry of the log that it has applied
	Problems []string // alarms, no leader and the like; empty if it is well
}

// Objects are the API server's objects; each call says as whom.
type Objects interface {
	// Object reads one object; absent ones satisfy apierrors.IsNotFound.
	Object(ctx context.Context, ref Ref) (*unstructured.Unstructured, error)
	// List reads the objects of a kind and namespace that match a label and a field selector.
	List(ctx context.Context, q Query) ([]unstructured.Unstructured, error)
	// TryCreate asks the API server whether it would create the object: authorization, admission and
	// validation run, and nothing is stored (a server-side dry run).
	TryCreate(ctx context.Context, object Object, as Identity) error
	// ServerVersion is the version of the API server that answers, such as "v1.37.1".
	ServerVersion(ctx context.Context, as Identity) (string, error)
	// Livez tells whether the API server says it is alive.
	Livez(ctx context.Context, as Identity) error
}

// History is what an earlier run of the same command did.
type History interface {
	// Made tells whether an earlier run of this same command made the target and did not put it
	// back; a file must still hold what was written. It stays true after a run that came to its end: the same
	// command given on a finished machine takes everything for its own and finds nothing to do.
	Made(target string) bool
}

// Clock tells the time.
type Clock interface{ Now() time.Time }
