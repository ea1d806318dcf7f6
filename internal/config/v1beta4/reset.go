package v1beta4

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ResetConfiguration is how to take back what init or join made of this machine.
type ResetConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// CertificatesDir is the folder of keys and certificates to empty.
	CertificatesDir string `json:"certificatesDir,omitempty"`
	// CleanupTmpDir empties the scratch space as well.
	CleanupTmpDir bool `json:"cleanupTmpDir,omitempty"`
	// CRISocket is the URL of the container runtime's socket; looked for if empty.
	CRISocket string `json:"criSocket,omitempty"`
	// DryRun only shows what would be done.
	DryRun bool `json:"dryRun,omitempty"`
	// Force asks no question.
	Force bool `json:"force,omitempty"`
	// IgnorePreflightErrors names checks whose errors count as warnings; "all" stands alone.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	// SkipPhases are addresses of phases to leave out.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Timeouts bound the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
	// UnmountFlags are names of umount2(2) flags.
	UnmountFlags []string `json:"unmountFlags,omitempty"`
}
