package preflight

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// ImagePull is the name by which errors of pulling images can be ignored. Pulling changes the
// machine and so is no Check; a Report of this name turns its errors into findings.
const ImagePull = "ImagePull"

// Pulls returns the changes that pull the images by this machine's pull policy, in the same order;
// none with policy Never.
func Pulls(l *node.Local, images []string) ([]change.Change, error) {
	switch l.PullPolicy {
	case corev1.PullNever:
		return nil, nil
	case corev1.PullAlways, corev1.PullIfNotPresent:
	default:
		return nil, fmt.Errorf(
			"nodeRegistration.imagePullPolicy %q: use Always, IfNotPresent or Never", l.PullPolicy)
	}
	var list []change.Change
	for _, ref := range images {
		list = append(list, change.PullImage{Socket: l.CRISocket, Ref: ref,
			Always: l.PullPolicy == corev1.PullAlways})
	}
	return list, nil
}

// SandboxImageWarning returns a warning if the runtime is configured with another sandbox image
// than the one that is pulled; empty if they are the same or the runtime does not report its own.
func SandboxImageWarning(rt state.Runtime, pause string) string {
	if rt.SandboxImage == "" || rt.SandboxImage == pause {
		return ""
	}
	return fmt.Sprintf("%s starts Pods with the sandbox image %s, but this release uses %s: set it in the runtime's configuration",
		rt.Name, rt.SandboxImage, pause)
}
