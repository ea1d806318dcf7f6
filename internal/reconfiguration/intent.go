package reconfiguration

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
)

// Intent is what the user wants of a change of the configuration, for its phases.
type Intent struct {
	// Change is what the cluster stores of it. "reconfigure apply" begins it or goes on with it.
	Change *State
	// Before is this node by what the cluster stored before the change.
	Before *node.Node
	// Begun is this node by each of the changes that this one replaces before they were stored: CoreDNS and
	// kube-proxy may have them.
	Begun []*node.Node
	// Found is the ID of the change that the cluster stored when this command began; empty for none.
	Found string
	// Stored is the configuration that it stored then.
	Stored config.StoredConfig
	// KubeletArgs change the arguments of this machine's kubelet.
	KubeletArgs config.KubeletArgs
	// OnlyEndpoint is set if the kubelet's configuration stays as it is, and only its kubeconfig changes.
	OnlyEndpoint bool
	// Cause is why the command takes back the change that it has begun, for an Event; nil if it is not known.
	Cause error
	// KeptFileHints are the remedies if the configuration is changed meanwhile and the change is from a file that an earlier
	// command has kept: given again, such a file is refused. None for another change.
	KeptFileHints []string
	// Ask asks the user whether to go on, and is an error if not; nil if there is no question.
	Ask func(context.Context) error
}

// StaleHints are the remedies if the configuration was changed meanwhile; again is that of a change that may be given again.
func (i Intent) StaleHints(again string) []string {
	if len(i.KeptFileHints) > 0 {
		return i.KeptFileHints
	}
	return []string{again}
}

// Downloads reports whether a node gets the files referenced by component arguments from the cluster.
func Downloads(n *node.Node) bool {
	return n.Role == node.ControlPlane && n.CertificateKey != "" && !n.UploadCerts
}

// FilesDownload is how it gets them, by an identity that may read every Secret.
func FilesDownload(as state.Identity) sharedcerts.FilesDownload {
	return sharedcerts.FilesDownload{
		Read: func(ctx context.Context, e *engine.Env, ref state.Ref) (*unstructured.Unstructured, error) {
			return e.Object(ctx, ref)
		},
		As: as, Replaces: true,
		Remedy: "copy it to this machine, or upload it again on a control plane node that has it: " +
			"kubeadm reconfigure apply --upload-certs",
	}
}

// IntentOf is the intent of the command that a phase belongs to.
func IntentOf(e *engine.Env) Intent { return engine.IntentOf[Intent](e) }
