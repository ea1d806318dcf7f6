package config

import (
	"io"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Facts are what a configuration depends on besides the file and flags. Values that a command does
// not need may be empty.
type Facts struct {
	Tool     release.Tool
	Hostname string // of the operating system
	Platform node.Platform
	// Addresses of this machine, that of the default route first.
	Addresses []state.Address
	// NodeIP is the argument node-ip of this machine's kubelet by its environment file; empty without one.
	NodeIP string
	// AddressOptional leaves the advertise address empty if there is no default route.
	AddressOptional bool
	// Runtimes are the sockets of the running container runtimes. Empty, also if they were not
	// looked up, means the default socket; if there are several, the user must choose.
	Runtimes []string
	// Fetch resolves a version label such as "stable-1". It is called at most twice, only for a
	// label, and must have its own timeout (10 s is usual). If it is nil, labels resolve to this
	// program's version, without a warning.
	Fetch release.Fetch
	// KeptVersion returns the version that an interrupted run of the same command resolved a label
	// to, or else the current one. It may be nil.
	KeptVersion func(label, current string) (string, error)
	// Now is the time on this machine. If it is zero, times are not checked.
	Now time.Time
	// Random is the source of generated tokens.
	Random io.Reader
	// AdminKubeconfig is the path of admin.conf if this machine has one. A join with
	// --control-plane uses it instead of discovery.
	AdminKubeconfig string
}

// inputs are the sources of a configuration.
type inputs struct {
	file   File
	common Common
	facts  Facts
}
