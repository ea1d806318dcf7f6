package config

import (
	"io"
	"time"

	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Facts are what is to be known of the world. Values that a command can do without
// may stay empty.
type Facts struct {
	Tool     release.Tool
	Hostname string // as the operating system tells it
	// Addresses of this machine, that of the default route first.
	Addresses []state.Address
	// AddressOptional leaves the address to advertise empty where there is no default route to choose it by.
	AddressOptional bool
	// Runtimes are the sockets of container runtimes that answer. Empty, also where
	// nobody looked, means the usual socket; several mean that the user must choose.
	Runtimes []string
	// Fetch finds the version behind a label such as "stable-1". It is called at most twice,
	// only for a label, and must give up by itself (10 s is usual). Nil takes this
	// program's own version and says nothing.
	Fetch release.Fetch
	// Now is the time on this machine. Zero means that nothing is compared with it.
	Now time.Time
	// Random makes tokens that the user leaves to us.
	Random io.Reader
	// AdminKubeconfig is the path of admin.conf if this machine has one. Where the
	// flag --control-plane asks for a join, it stands in for discovery.
	AdminKubeconfig string
}

// inputs is all that a configuration is read and filled in from.
type inputs struct {
	file   File
	common Common
	facts  Facts
}

// Run is how to go about a command, beside what the command is to bring about.
type Run struct {
	DryRun     bool
	SkipPhases []string // addresses of phases
	Warnings   []string // a sentence each
	// Ignored are those of the warnings that tell of fields which are unknown or given twice. They are
	// worth repeating at the end of a long run.
	Ignored []string
}

func (r *Run) warn(texts ...string) { r.Warnings = append(r.Warnings, texts...) }

// warnIgnored warns of a field that has no effect.
func (r *Run) warnIgnored(text string) {
	r.warn(text)
	r.Ignored = append(r.Ignored, text)
}
