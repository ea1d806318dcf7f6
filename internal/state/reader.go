package state

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/node"
)

// Reader reads everything outside the process and changes nothing, but for what Verify, SyncTimes
// and CanListen create and remove at once. It is wide on purpose and consists of one small interface
// per subject.
type Reader interface {
	Files
	Services
	Mounts
	Programs
	Host
	Disks
	Network
	PodNetwork
	Images
	Members
	Snapshots
	Objects
	History
	Clock
}

// Files are the files of this machine. Errors satisfy errors.Is(err, fs.ErrNotExist) where nothing
// is there.
type Files interface {
	ReadFile(ctx context.Context, path string) ([]byte, error)
	Stat(ctx context.Context, path string) (FileInfo, error)  // follows symbolic links
	Lstat(ctx context.Context, path string) (FileInfo, error) // of the link itself, if it is one
	ReadDir(ctx context.Context, path string) ([]FileInfo, error)
	// ReadPrivate reads a file that passes CheckPrivate, in a directory that passes it: only then is a
	// private key in it known to be this program's own. A symbolic link is not followed at the end of
	// the path.
	ReadPrivate(ctx context.Context, path string) ([]byte, error)
	// OpenFile opens a regular file of any size.
	OpenFile(ctx context.Context, path string) (io.ReadCloser, error)
}

// FileInfo describes one file or directory.
type FileInfo struct {
	Path    string // absolute
	Mode    fs.FileMode
	ModTime time.Time
	Size    int64
	UID     int // of the owner
	GID     int // of the group
}

// Services are the units of the machine's init system.
type Services interface {
	// Service returns the state of a unit. An unknown unit is a zero Service; without a
	// supported init system the error is ErrNoInitSystem.
	Service(ctx context.Context, name string) (Service, error)
	// ServiceLog returns the last log lines of a unit since that time, or of all times if it is zero, at
	// most that many bytes; empty where no log is kept.
	ServiceLog(ctx context.Context, name string, since time.Time, limit int) (string, error)
}

// ErrNoInitSystem says that the machine has neither systemd nor OpenRC.
var ErrNoInitSystem = errors.New("no supported init system (systemd or OpenRC) was found")

// Service is the state of one unit.
type Service struct {
	Exists  bool
	Enabled bool      // starts at boot
	Active  bool      // is running or starting
	Since   time.Time // when it last entered the running state; zero if it does not run
	// Restarts is how often the init system has restarted it since it was started; 0 if it is not
	// active, or where that is not known.
	Restarts uint32
	// LastExit is how it ended; zero if it runs, was stopped, or where that is not known.
	LastExit Exit
}

// Exit is how one run of a service ended by itself.
type Exit struct {
	Started, Time time.Time // of the begin and of the end of that run
	Code          int32     // exit code
	Signal        int32     // that killed it; 0 if it exited
}

// Mounts are the mount points of this machine.
type Mounts interface {
	// Mounts lists the mount points at and below dir, in the order in which they were mounted.
	Mounts(ctx context.Context, dir string) ([]string, error)
}

// Programs are the executables of this machine.
type Programs interface {
	// Program finds an executable in PATH; the error satisfies errors.Is(err, fs.ErrNotExist) if
	// there is none.
	Program(ctx context.Context, name string) (path string, err error)
	// KubeletVersion returns the version that `kubelet --version` prints, such as "v1.37.1".
	KubeletVersion(ctx context.Context) (string, error)
}

// Host is the machine itself.
type Host interface {
	Host(ctx context.Context) (HostInfo, error)
	// Verify checks whether kernel, cgroups and operating system can run a kubelet of that
	// version. It returns warnings, and the errors that rule it out.
	Verify(ctx context.Context, kubeletVersion string) (warnings, errs []error)
}

// HostInfo are facts about this machine.
type HostInfo struct {
	Hostname  string
	UserID    int // real user id of this process
	CPUs      int
	MemoryMiB uint64   // of RAM
	Env       []string // environment of this process, "NAME=value"
	Platform  node.Platform
}

// Disks are the disks of this machine.
type Disks interface {
	// SyncTimes writes 2 KiB to an unnamed file in an existing directory again and again, for at most
	// half a second, and returns how long each write took to reach the disk (fdatasync). Nothing of
	// the file is left.
	SyncTimes(ctx context.Context, dir string) ([]time.Duration, error)
}

// Network is the network as this machine sees it.
type Network interface {
	// Addresses lists global unicast addresses of up interfaces, the one of the default route
	// first.
	Addresses(ctx context.Context) ([]Address, error)
	// Lookup resolves a host name.
	Lookup(ctx context.Context, host string) ([]string, error)
	// CanListen tries to open and close a TCP port; address is "host:port", with an empty host for
	// all addresses. For a port in use the error is a *PortError, with the owner where it can be
	// found.
	CanListen(ctx context.Context, address string) error
	// Proxy returns the proxy of an HTTPS request to a host; empty for none. The host is
	// written as in a URL: an IPv6 address in brackets.
	Proxy(ctx context.Context, host string) (string, error)
	// Fetch sends one GET request. TLS is verified against the host's trust store, unless the
	// Request says otherwise. A redirect from https to http is ErrRedirected.
	Fetch(ctx context.Context, req Request) (Response, error)
	// ServedCertificate returns the certificate that the server at "host:port" presents. It is not
	// verified, and no more than the beginning of a TLS handshake is sent. The error is ErrNoServer
	// if the connection is refused.
	ServedCertificate(ctx context.Context, address string) (*x509.Certificate, error)
	// ServerTime returns the time in the response of an HTTPS server at "host:port". Neither the
	// server nor the time is verified.
	ServerTime(ctx context.Context, address string) (time.Time, error)
	// ClusterInfo reads the public ConfigMap kube-public/cluster-info without credentials. With a
	// nil ca the connection is not verified: the caller must check the signature before it uses
	// any of it, as token discovery demands. Any redirect is ErrRedirected.
	ClusterInfo(ctx context.Context, server string, ca []byte) (map[string]string, error)
}

// ErrNoServer says that nothing listens at an address.
var ErrNoServer = errors.New("no server")

// Address is an address of this machine.
type Address struct {
	IP           string
	Bits         int // length of the prefix of its network; 0 if it is not known
	Interface    string
	DefaultRoute bool // its interface carries the default route
	Loopback     bool // a global unicast address on the loopback interface
}

// Request is a GET request.
type Request struct {
	URL string
	// Loopback is set for a health endpoint of this machine that serves a self-signed
	// certificate (kube-controller-manager, kube-scheduler); no credentials are sent.
	Loopback bool
	CA       []byte // PEM of the only accepted roots; nil for the host's trust store
	Cert     []byte // PEM of a client certificate; may be nil
	Key      []byte // PEM of its key; may be nil
}

// KubeconfigError is the error of a kubeconfig with which no request can be made, whatever the API
// server would answer: of one that cannot be read, or whose client certificate has expired.
type KubeconfigError struct{ Err error }

func (e KubeconfigError) Error() string { return e.Err.Error() }
func (e KubeconfigError) Unwrap() error { return e.Err }

// ErrRedirected is the error of a redirect to an address whose answer could not be verified.
var ErrRedirected = errors.New("this redirect is not followed, because its answer could not be verified")

// Response is the answer to a Request; Body is at most 1 MiB.
type Response struct {
	Status int
	Body   []byte
	// RetryAfter is how long the server asks to wait before another request; zero if it does not.
	RetryAfter time.Duration
}

// PortError is the error of a port in use.
type PortError struct {
	Address string
	Owner   string // "nginx (pid 812)"; empty if unknown
	Err     error
}

func (e *PortError) Error() string {
	if e.Owner == "" {
		return "port " + e.Address + " is in use: " + e.Err.Error()
	}
	return "port " + e.Address + " is in use by " + e.Owner
}

// Unwrap returns the operating system's error.
func (e *PortError) Unwrap() error { return e.Err }

// Images are the container runtimes of this machine with their images and containers. socket is a
// URL as in Local.CRISocket.
type Images interface {
	// Runtimes lists the sockets of known container runtimes that accept a connection.
	Runtimes(ctx context.Context) ([]string, error)
	// Runtime returns the status of the runtime; an error means that it does not answer.
	Runtime(ctx context.Context, socket string) (Runtime, error)
	Image(ctx context.Context, socket, ref string) (present bool, err error)
	// ImageRefs lists the references of all images, such as "registry.k8s.io/pause:3.10".
	ImageRefs(ctx context.Context, socket string) ([]string, error)
	Sandboxes(ctx context.Context, socket string) ([]Sandbox, error)
	// SandboxNetworks returns the files of the network namespaces of Pod sandboxes, by sandbox ID,
	// without those that use the network of the machine.
	SandboxNetworks(ctx context.Context, socket string) (map[string]string, error)
	// Containers lists all containers, exited ones too and oldest first, with their last log
	// lines.
	Containers(ctx context.Context, socket string) ([]Container, error)
}

// Runtime is the status of a container runtime.
type Runtime struct {
	Name, Version string
	Ready         bool
	Reason        string // why it is not ready
	CgroupDriver  string // "systemd" or "cgroupfs"; empty unless ReportsDriver is set
	ReportsDriver bool
	// error of a runtime that supports reporting its cgroup driver and failed to
	DriverError  string
	SandboxImage string // image of Pod sandboxes; empty if the runtime does not report it
}

// Sandbox is a Pod sandbox.
type Sandbox struct {
	ID, Name, Namespace string
	// Component is the control plane component of a static Pod of kube-system, such as "etcd";
	// empty for all other Pods, whatever their names begin with.
	Component string
	// PodUID is the UID of the Pod. The kubelet derives that of a static Pod from its manifest: a
	// different manifest results in a different UID.
	PodUID string
}

// Container is a container of a Pod.
type Container struct {
	ID, Name, Pod, Namespace string
	Component                string // as in the Sandbox of its Pod
	PodUID                   string // as in the Sandbox of its Pod
	Created                  time.Time
	Running                  bool
	ExitCode                 int32
	Attempt                  uint32 // number of restarts
	Log                      string // last lines, at most 8 KiB; may be empty
}

// Members is the etcd cluster.
type Members interface {
	// Members lists the members in etcd's own order. Any endpoint may answer.
	Members(ctx context.Context, via Etcd) ([]Member, error)
	// MemberStatus reads the status of one member at its own client URLs. The credentials are
	// those of via.
	MemberStatus(ctx context.Context, via Etcd, m Member) (MemberStatus, error)
	// KeepProposing sends requests that etcd answers by raft consensus, one after the other, until
	// the context ends. They change nothing in etcd's data.
	KeepProposing(ctx context.Context, via Etcd) error
}

// Etcd says how to reach etcd: endpoints are "https://host:port", files are paths of this machine.
type Etcd struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	// Serializable makes the list of members a serializable read: one endpoint answers from its own
	// data, which may be stale. It works without a quorum.
	Serializable bool
	// Peer is the peer URL of a member that is asked for the members, with Serializable, if no endpoint
	// answers: one that was started without a quorum serves no clients. Empty for none.
	Peer string
}

// Member is one etcd member.
type Member struct {
	ID         uint64
	Name       string // empty until it has started
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
	ClusterID  uint64 // of the cluster that lists it; 0 if the answer does not say
}

// MemberStatus is the status that an etcd member reports.
type MemberStatus struct {
	ID             uint64   // of the member that answered
	ClusterID      uint64   // of its cluster
	AppliedIndex   uint64   // raft applied index
	CommittedIndex uint64   // raft committed index, as far as the member knows it
	Leader         uint64   // ID of the leader that it follows; 0 for none
	Revision       int64    // of its key-value store
	Version        string   // of the server, such as "3.7.0"
	Problems       []string // alarms, no leader and the like; empty if it is healthy
	// size of the database file, the part of it that is in use, and the size at which etcd refuses
	// writes, in bytes; the last is 0 if the member does not report it
	DBSize, DBInUse, DBQuota int64
}

// Snapshots are snapshots of etcd in files of this machine.
type Snapshots interface {
	// ReadSnapshot verifies a snapshot and describes its database. It does not trust the file: one that
	// is damaged in whatever way is an error.
	ReadSnapshot(ctx context.Context, path string) (etcdsnapshot.Info, error)
	// ReadDatabase describes the database of a member that does not run.
	ReadDatabase(ctx context.Context, path string) (etcdsnapshot.Info, error)
}

// Objects are the API server's objects; each call names the identity to use.
type Objects interface {
	// Object reads one object. The error for one that does not exist satisfies
	// apierrors.IsNotFound.
	Object(ctx context.Context, ref Ref) (*unstructured.Unstructured, error)
	// List reads the objects of a kind and namespace that match a label and a field selector.
	List(ctx context.Context, q Query) ([]unstructured.Unstructured, error)
	// Watch calls OnEvent with changes of objects until the API server ends the watch, or OnEvent does. It returns the version
	// from which another watch goes on, also with an error. The version is empty if changes may have been lost, because
	// the API server no longer has them or has sent nothing for long: then the objects have to be listed again.
	Watch(ctx context.Context, w Watch) (version string, err error)
	// TryCreate asks the API server whether it would create the object: authorization, admission
	// and validation run, and nothing is stored (a server-side dry run).
	TryCreate(ctx context.Context, object Object, as Identity) error
	// PodLog returns the last log lines of a container, at most PodLogLimit bytes. The text is that of the container.
	PodLog(ctx context.Context, of PodLog) (string, error)
	// Livez returns nil if the API server answers at /livez that it is healthy, and a *NotLiveError if
	// it answers that it is not.
	Livez(ctx context.Context, as Identity) error
}

// PodLog names the log of a container of a Pod.
type PodLog struct {
	Namespace, Pod, Container string
	Previous                  bool // of its last run before the present one
	Lines                     int
	As                        Identity
}

// PodLogLimit is the most bytes that are read of the log of a container.
const PodLogLimit = 64 << 10

// NotLiveError is an API server's answer that it is not live, or not yet.
type NotLiveError struct {
	Status int      // of HTTP
	Failed []string // names of the checks that fail
}

func (e *NotLiveError) Error() string {
	text := fmt.Sprintf("it answered %d %s", e.Status, http.StatusText(e.Status))
	if len(e.Failed) > 0 {
		text += "; these checks fail: " + strings.Join(e.Failed, ", ")
	}
	return text
}

// FailsOnly reports whether the answer names failed checks, and all of them are exceptions.
func (e *NotLiveError) FailsOnly(exceptions []string) bool {
	return len(e.Failed) > 0 && !slices.ContainsFunc(e.Failed,
		func(check string) bool { return !slices.Contains(exceptions, check) })
}

// History records what an earlier run of the same command did.
type History interface {
	// WasCreated reports whether an earlier run of this same command created the target and did not
	// undo it; a file must still have the content that was written. It stays true after that run
	// has finished, so that a re-run on a finished machine finds nothing to do.
	WasCreated(target string) bool
}

// Clock returns the current time.
type Clock interface{ Now() time.Time }
