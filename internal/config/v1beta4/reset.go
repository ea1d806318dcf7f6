package v1beta4

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ResetConfiguration is the configuration of reset, which reverts init or join on this machine.
type ResetConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// CertificatesDir is the directory of keys and certificates to empty.
	CertificatesDir string `json:"certificatesDir,omitempty"`
	// CleanupTmpDir empties /etc/kubernetes/tmp too.
	CleanupTmpDir bool `json:"cleanupTmpDir,omitempty"`
	// CRISocket is the URL of the container runtime's socket; detected if empty.
	CRISocket string `json:"criSocket,omitempty"`
	// DryRun only shows what would be done.
	DryRun bool `json:"dryRun,omitempty"`
	// Force skips the confirmation.
	Force bool `json:"force,omitempty"`
	// IgnorePreflightErrors are checks whose errors count as warnings; "all" must be the only
	// entry.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	// SkipPhases are phases to skip.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Timeouts limit the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
	// UnmountFlags are names of umount2(2) flags.
	UnmountFlags []string `json:"unmountFlags,omitempty"`
}
